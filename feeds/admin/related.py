"""The admin of categories, follows, scans, hubs and subscriptions.

The page of a scan has a chart of its fetches in their slots, beside the lower bound.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from heapq import nlargest
from typing import Any, cast

from django.contrib import admin
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from resources import charts, humanize
from resources.changelists import UncountedAdmin
from resources.charts import MAX_SLOT_BARS, Chart, SlotRun
from resources.fetch.models import FetchTiming
from resources.fetch.timings import digest_url

from .. import categories, feed_rows, followers, health
from ..hub_models import Hub, Subscription
from ..models import ALL_SLUG, Category, Feed, Follow, Scan
from ..push.leases import SubscriptionStatus
from .feed_page import outcome_kind
from .filters import CategoryFilterInline, note_changes
from .forms import CategoryForm

_MAX_SCAN_FETCHES = 20_000
"""Fetches of one scan that count: a scan has at most a quarter as many feeds, and few are fetched again."""
_HOSTS_PER_QUERY = 500
MAX_SHOWN_CHARACTERS = 100
"""Of an address in a list: the row's page has all of it."""

_FetchRow = tuple[str, str, datetime, float, str]
"""The digest of the address, the host, the start, the seconds, the outcome."""


@admin.register(Category)
class CategoryAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    form = CategoryForm
    inlines = (CategoryFilterInline,)
    list_display = ("listed", "slug", "number", "output")
    search_fields = ("title", "slug")
    list_per_page = 200
    show_full_result_count = False

    @admin.display(description="category", ordering="title")
    def listed(self, category: Category) -> str:
        return " / ".join(self._paths.get(category.pk, (category.title,)))

    @admin.display(description="feeds")
    def number(self, category: Any) -> str:
        return "all" if category.slug == ALL_SLUG else f"{category.number:,}"

    @admin.display(description="formats")
    def output(self, category: Category) -> SafeString:
        place = "/feeds/all" if category.slug == ALL_SLUG else f"/feeds/category/{category.slug}"
        links = ((f"{place}.{extension}", extension) for extension in ("atom", "rss", "json"))
        return format_html_join(" · ", '<a href="{}">{}</a>', links)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Category]:
        self._paths = categories.paths_by_category()
        rows: QuerySet[Category] = super().get_queryset(request)
        return cast(QuerySet[Category], rows.annotate(number=Count("feeds")))

    def get_prepopulated_fields(self, request: HttpRequest, obj: Category | None = None) -> dict[str, Any]:
        return {} if obj is not None else {"slug": ("title",)}

    def get_readonly_fields(self, request: HttpRequest, obj: Category | None = None) -> tuple[str, ...]:
        """The category that has every feed keeps its place and its address."""
        return ("slug", "parent") if obj is not None and obj.slug == ALL_SLUG else ()

    def has_delete_permission(self, request: HttpRequest, obj: Category | None = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or obj.slug != ALL_SLUG)

    def save_model(self, request: HttpRequest, obj: Category, form: Any, change: bool) -> None:
        """Saves the category; its output changes, and that of the categories around it."""
        now = datetime.now(UTC)
        feed_rows.touch_categories([obj.pk] if change else [], now, withdrawn="parent" in form.changed_data)
        obj.save(update_fields=[name for name in form.changed_data if name in form.cleaned_data] if change else None)
        feed_rows.touch_categories([obj.pk], now)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        note_changes(self, request, form.instance, formsets)

    def delete_model(self, request: HttpRequest, obj: Category) -> None:
        self.delete_queryset(request, Category.objects.filter(pk=obj.pk))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Category]) -> None:
        """Deletes categories with those below them; their feeds stay."""
        gone = queryset.exclude(slug=ALL_SLUG)
        with transaction.atomic():
            feed_rows.touch_categories(list(gone.values_list("pk", flat=True)), datetime.now(UTC), withdrawn=True)
            gone.delete()

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Lists the categories with those below them. The one that has every feed stays."""
        slugs = {category.slug for category in objs} - {ALL_SLUG}
        ids = {pk for slug in slugs for pk in categories.ids_with_descendants(slug)}
        paths = categories.paths_by_category()
        rows = sorted(" / ".join(paths[pk]) for pk in ids if pk in paths)
        denied = set() if self.has_delete_permission(request) else {self.opts.verbose_name}
        feeds = Feed.objects.filter(categories__in=ids).distinct().count()
        counts = {self.opts.verbose_name_plural: len(rows), "feeds (not deleted)": feeds}
        return rows, counts, denied, []


@admin.register(Follow)
class FollowAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    list_display = ("user", "feed", "since")
    list_select_related = ("user", "feed")
    search_fields = ("=user__username", "feed__slug")
    search_help_text = "Search by user name (exact) or feed slug."
    autocomplete_fields = ("user", "feed")
    list_per_page = 50
    show_full_result_count = False

    def has_change_permission(self, request: HttpRequest, obj: Follow | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Follow, form: Any, change: bool) -> None:
        obj.save()
        followers.recount_subscribers([obj.feed_id])

    def delete_model(self, request: HttpRequest, obj: Follow) -> None:
        self.delete_queryset(request, Follow.objects.filter(pk=obj.pk))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Follow]) -> None:
        feeds = set(queryset.values_list("feed_id", flat=True))
        queryset.delete()
        followers.recount_subscribers(feeds)


class UnchangeableAdmin(UncountedAdmin):
    """Rows that the site maintains by itself."""

    list_display_links: tuple[str, ...] | None = None

    class Media:
        css = {"all": ("feeds/admin.css",)}

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Scan)
class ScanAdmin(UnchangeableAdmin):
    list_display = fields = readonly_fields = ("began", "feeds", "hosts", "least", "took", "bound", "ratio")
    list_display_links = ("began",)
    ordering = ("-started_at",)
    change_form_template = "admin/feeds/scan/change_form.html"

    @admin.display(description="began (UTC)", ordering="started_at")
    def began(self, scan: Scan) -> str:
        return f"{scan.started_at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="expected, at least")
    def least(self, scan: Scan) -> str:
        return _spell_seconds(scan.expected_seconds)

    @admin.display(description="duration")
    def took(self, scan: Scan) -> str:
        if scan.makespan_seconds is None and scan.ended_at is not None:
            return "unknown: some fetches were lost"
        if scan.makespan_seconds is None:
            return f"running, began {humanize.format_ago(scan.started_at, datetime.now(UTC))}"
        return _spell_seconds(scan.makespan_seconds)

    @admin.display(description="lower bound")
    def bound(self, scan: Scan) -> str:
        return "–" if scan.bound_seconds is None else _spell_seconds(scan.bound_seconds)

    @admin.display(description="duration ÷ lower bound")
    def ratio(self, scan: Scan) -> str:
        if not scan.bound_seconds or scan.makespan_seconds is None:
            return "–"
        return f"{scan.makespan_seconds / scan.bound_seconds:.2f}"

    def get_sortable_by(self, request: HttpRequest) -> tuple[str, ...]:
        return ("began",)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> HttpResponse:
        scan: Scan = options["obj"]
        context |= {"chart": _load_scan_chart(scan), "least": _spell_seconds(_least_seconds(scan))}
        return super().render_change_form(request, context, *args, **options)


def _load_scan_chart(scan: Scan) -> Chart[SlotRun]:
    """Loads the fetches of a scan, also of one that still runs, and draws them. Raises DatabaseError."""
    rows = FetchTiming.objects.filter(scan=scan.pk).order_by("started_at")
    found = list(rows.values_list("url_digest", "host", "started_at", "seconds", "outcome")[:_MAX_SCAN_FETCHES])
    names = _feed_names(nlargest(MAX_SLOT_BARS, found, key=lambda row: row[3]))
    runs = [_scan_run(row, scan.started_at, names) for row in found]
    return charts.draw_slot_chart("fetch", runs, scan.started_at, _least_seconds(scan), "fetches")


def _least_seconds(scan: Scan) -> float:
    """The lower bound by the real durations; while a scan runs, that by the expected ones."""
    return scan.expected_seconds if scan.bound_seconds is None else scan.bound_seconds


def _scan_run(row: _FetchRow, since: datetime, names: Mapping[str, str]) -> SlotRun:
    """The run of a fetch. The clock of its fetcher's machine may be behind."""
    digest, host, at, seconds, outcome = row
    return SlotRun(names.get(digest, host), max(0.0, (at - since).total_seconds()), seconds, outcome_kind(outcome))


def _feed_names(rows: Sequence[_FetchRow]) -> Mapping[str, str]:
    """The titles of feeds by the digests of their addresses. Feeds that have moved or are gone are left out."""
    wanted, hosts = {row[0] for row in rows}, sorted({row[1] for row in rows})
    ids: dict[int, str] = {}
    for place in range(0, len(hosts), _HOSTS_PER_QUERY):
        there = Feed.objects.filter(host__in=hosts[place : place + _HOSTS_PER_QUERY]).values_list("pk", "url")
        ids |= {pk: digest for pk, url in there if (digest := digest_url(url)) in wanted}
    return {ids[feed.pk]: feed.shown_title for feed in _load_titles(ids)}


def _load_titles(ids: Collection[int]) -> list[Feed]:
    return list(Feed.objects.filter(pk__in=ids).only("title", "own_title", "url", "host"))


def _spell_seconds(seconds: float) -> str:
    return f"{seconds:,.1f}\N{NO-BREAK SPACE}s"


class HubTrustFilter(admin.SimpleListFilter):
    title, parameter_name = "trust", "trust"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("trusted", "trusted"), ("lost", "lost"), ("never", "no update pushed yet")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Hub]) -> QuerySet[Hub]:
        chosen = {
            "trusted": Q(trusted_since__isnull=False),
            "lost": Q(trusted_since=None, first_push_at__isnull=False),
            "never": Q(first_push_at=None),
        }
        return queryset.filter(chosen.get(self.value() or "", Q()))


@admin.register(Hub)
class HubAdmin(UnchangeableAdmin):
    list_display = ("address", "feeds", "trust", "last_push")
    list_filter = ("kind", HubTrustFilter)
    search_fields = ("url",)
    search_help_text = "Search by address."

    @admin.display(description="hub", ordering="url")
    def address(self, hub: Hub) -> SafeString:
        about = hub.get_kind_display()
        return format_html('<span class="name">{}</span><span class="quiet">{}</span>', hub.url, about)

    @admin.display(description="feeds")
    def feeds(self, hub: Hub) -> SafeString | str:
        numbers = ((state.value, getattr(hub, _count_name(state))) for state in SubscriptionStatus)
        counts = [f"{number:,} {state}" for state, number in numbers if number]
        there = f"{reverse('admin:feeds_subscription_changelist')}?hub__id__exact={hub.pk}"
        return format_html('<a href="{}">{}</a>', there, ", ".join(counts)) if counts else "none"

    @admin.display(description="trust", ordering="share")
    def trust(self, hub: Hub) -> str:
        return health.hub_words(hub)

    @admin.display(description="last push", ordering="last_push_at")
    def last_push(self, hub: Hub) -> str:
        return humanize.format_ago(hub.last_push_at, datetime.now(UTC))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Hub]:
        counts = {
            _count_name(state): Count("subscriptions", filter=Q(subscriptions__state=state.value))
            for state in SubscriptionStatus
        }
        rows: QuerySet[Hub] = super().get_queryset(request)
        return rows.annotate(**counts)


@admin.register(Subscription)
class SubscriptionAdmin(UnchangeableAdmin):
    list_display = ("of_feed", "stands", "trust", "next_request")
    list_filter = ("state", "hub__kind")
    list_select_related = ("feed", "hub")
    search_fields = ("topic", "feed__slug")
    search_help_text = "Search by topic or feed slug."

    @admin.display(description="feed, hub", ordering="topic")
    def of_feed(self, subscription: Subscription) -> SafeString:
        about = f"{subscription.hub.url} · {subscription.hub.get_kind_display()}"
        feed, quiet = subscription.feed, '<span class="quiet">{}</span>'
        if feed is None:
            return format_html(f'<span class="name">{{}} (deleted)</span>{quiet}', subscription.topic, about)
        there = reverse("admin:feeds_feed_change", args=[feed.pk])
        return format_html(f'<a class="name" href="{{}}">{{}}</a>{quiet}', there, feed.shown_title, about)

    @admin.display(description="state", ordering="state")
    def stands(self, subscription: Subscription) -> SafeString:
        return format_html('{}<span class="quiet">{}</span>', subscription.state, subscription.reason)

    @admin.display(description="trust", ordering="in_a_row")
    def trust(self, subscription: Subscription) -> str:
        return health.subscription_words(subscription)

    @admin.display(description="next request", ordering="due_at")
    def next_request(self, subscription: Subscription) -> str:
        return "–" if subscription.due_at is None else humanize.format_ago(subscription.due_at, datetime.now(UTC))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return lookup == "hub__id__exact" or super().lookup_allowed(lookup, value, request)


def _count_name(state: SubscriptionStatus) -> str:
    return f"number_{state.name.lower()}"
