"""The admin of feeds: the list with the health of all, its filters, and the page of each."""

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from resources import humanize

from .. import catalogue, categories, credentials, feed_rows, followers, health, lifecycle
from ..errors import FeedError
from ..models import ALL_SLUG, LONG_FIELDS, Category, Feed
from . import actions, feed_page
from .actions import FeedActions
from .filters import FilterInline, note_changes
from .forms import AddFeedForm, ChangeFeedForm

DUPLICATES = "twice"


class FeedHealthFilter(admin.SimpleListFilter):
    title, parameter_name = "health", "health"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        named = [(name, health.CHOICE_LABELS.get(name, name)) for name in health.HEALTH_CHOICES]
        return [*named, (DUPLICATES, "likely duplicates")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Feed]) -> QuerySet[Feed]:
        if self.value() == DUPLICATES:
            return health.likely_duplicates(queryset)
        chosen = health.HEALTH_CHOICES.get(self.value() or "")
        return queryset if chosen is None else queryset.filter(chosen)


class FeedCategoryFilter(admin.SimpleListFilter):
    title, parameter_name = "category", "category"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        slugs = dict(Category.objects.exclude(slug=ALL_SLUG).values_list("pk", "slug"))
        paths = sorted((path, pk) for pk, path in categories.paths_by_category().items())
        return [(slugs[pk], " / ".join(path)) for path, pk in paths if pk in slugs]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Feed]) -> QuerySet[Feed]:
        slug = self.value()
        return queryset.filter(categories.feeds_below(slug)) if slug else queryset


SECRET_FIELDS = ("user", "password", "headers")
_UNLISTED_FIELDS = (*LONG_FIELDS, "etag", "last_modified", "sealed_password", "sealed_headers", "validated_url")


@admin.register(Feed)
class FeedAdmin(FeedActions):
    list_display = ("title_cell", "health_cell", "next_check_cell", "duration_cell", "fetched_cell", "subscribers_cell")
    list_filter = (FeedHealthFilter, FeedCategoryFilter)
    search_fields = ("slug", "title", "own_title", "url")
    search_help_text = "Search by title or address."
    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "admin/feeds/feed/change_list.html"
    change_form_template = "admin/feeds/feed/change_form.html"
    autocomplete_fields = ("categories",)

    @admin.display(description="feed", ordering="slug")
    def title_cell(self, feed: Feed) -> SafeString:
        about = " · ".join((feed.host, *(category.title for category in feed.categories.all())))
        return format_html('<span class="name">{}</span><span class="quiet">{}</span>', feed.shown_title, about)

    @admin.display(description="health", ordering="state")
    def health_cell(self, feed: Feed) -> SafeString:
        word, about = health.health_word(feed), health.trouble_words(feed)
        if about and feed.failing_since:
            about = f"{about}, for {humanize.format_span(datetime.now(UTC) - feed.failing_since)}"
        label = health.health_label(feed)
        return format_html('<span class="stands is-{}">{}</span><span class="quiet">{}</span>', word, label, about)

    @admin.display(description="next check", ordering="next_check_at")
    def next_check_cell(self, feed: Feed) -> str:
        now = datetime.now(UTC)
        if feed.paused:
            return "–"
        if feed.handed_over_at is not None:
            return "queued"
        return "due" if feed.next_check_at <= now or feed.flagged_at else humanize.format_ago(feed.next_check_at, now)

    @admin.display(description="fetched", ordering="fetched_at")
    def fetched_cell(self, feed: Feed) -> SafeString:
        now = datetime.now(UTC)
        changed = f"changed {humanize.format_ago(feed.changed_at, now)}" if feed.changed_at else ""
        return format_html('{}<span class="quiet">{}</span>', humanize.format_ago(feed.fetched_at, now), changed)

    @admin.display(description="duration", ordering="expected_seconds")
    def duration_cell(self, feed: Feed) -> str:
        return "–" if feed.expected_seconds is None else f"{feed.expected_seconds:.2f}\N{NO-BREAK SPACE}s"

    @admin.display(description="subscribers", ordering="subscribers")
    def subscribers_cell(self, feed: Any) -> str:
        return f"{feed.subscribers:,}"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Feed]:
        rows = super().get_queryset(request).defer(*_UNLISTED_FIELDS).prefetch_related("categories")
        return followers.with_subscribers(rows)

    def get_ordering(self, request: HttpRequest) -> Any:
        """Likely duplicates are listed together."""
        return health.DUPLICATES_ORDER if request.GET.get("health") == DUPLICATES else super().get_ordering(request)

    def get_form(self, request: HttpRequest, obj: Feed | None = None, change: bool = False, **options: Any) -> Any:
        form = AddFeedForm if obj is None else ChangeFeedForm
        return super().get_form(request, obj, change, **{**options, "form": form})

    def get_fieldsets(self, request: HttpRequest, obj: Feed | None = None) -> Any:
        often = ("Check interval", {"fields": (("least_seconds", "most_seconds"),)})
        secrets = SECRET_FIELDS if obj is None else (*SECRET_FIELDS, "forget_headers", "is_hidden")
        shown = ("Authentication", {"classes": ["collapse"], "description": HIDDEN_HELP, "fields": secrets})
        if obj is None:
            return [(None, {"fields": ("url", "title", "categories")}), shown, often]
        return [(None, {"fields": ("url", "title", "slug", "categories", "full_content")}), often, shown]

    def get_inlines(self, request: HttpRequest, obj: Feed | None = None) -> Any:
        return [] if obj is None else [FilterInline]

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("import/", wrap(self.import_view), name="feeds_feed_import"),
            path("<int:pk>/act/<str:what>/", wrap(self.act_view), name="feeds_feed_act"),
            *super().get_urls(),
        ]

    @method_decorator(require_POST)
    @method_decorator(csrf_protect)
    def act_view(self, request: HttpRequest, pk: int, what: str) -> HttpResponse:
        feed = Feed.objects.filter(pk=pk).first()
        if feed is None:
            raise Http404("No such feed.")
        if not self.has_change_permission(request, feed):
            raise PermissionDenied
        if not self.act(request, feed, what):
            raise Http404("No such action.")
        return HttpResponseRedirect(reverse("admin:feeds_feed_change", args=[pk]))

    @method_decorator(csrf_protect)
    def import_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        return actions.ask_or_import(self, request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        found = health.summarise_health(Feed.objects.all(), datetime.now(UTC)) if request.method == "GET" else None
        return super().changelist_view(request, {**(extra_context or {}), "summary": found})

    @method_decorator(sensitive_post_parameters("password", "headers", "url"))
    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except FeedError as error:  # another feed took the address, or is being added, since the form was checked
            self.message_user(request, f"Nothing was changed: {error}", messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    def save_model(self, request: HttpRequest, obj: Feed, form: Any, change: bool) -> None:
        """Saves the fields changed in the form alone: fetchers write to the same row."""
        now = datetime.now(UTC)
        if change:
            had_secrets = credentials.is_private(Feed.objects.get(pk=obj.pk))
            is_due = catalogue.edit_feed(obj.pk, form.edited, now)
            obj.refresh_from_db()
            if "url" in form.changed_data and had_secrets and not credentials.is_private(obj):
                self.message_user(request, LEFT_BEHIND_WARNING, messages.WARNING)
        else:
            is_due = self._add(obj, form, now)
        if is_due:
            feed_rows.flag_feeds([obj.pk], now)

    def _add(self, obj: Feed, form: AddFeedForm, now: datetime) -> bool:
        cleaned = form.cleaned_data
        feed, is_new = catalogue.add_feed(form.place, title=cleaned["title"], now=now)
        fields: dict[str, Any] = {name: cleaned[name] for name in ("least_seconds", "most_seconds") if cleaned[name]}
        if cleaned["headers"]:
            fields |= {"sealed_headers": credentials.seal_headers(cleaned["headers"]), "is_hidden": True}
        if is_new and fields:
            Feed.objects.filter(pk=feed.pk).update(**fields)
        obj.pk = feed.pk
        obj.refresh_from_db()
        return is_new

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Saves filters and categories; the combinations that the feed leaves or joins change."""
        now = datetime.now(UTC)
        for formset in formsets:
            self.save_formset(request, form, formset, change=change)
        note_changes(self, request, form.instance, formsets)
        if "categories" not in form.changed_data:
            return
        feed_rows.touch_feeds([form.instance.pk], now, withdrawn=True)
        super().save_related(request, form, (), change)
        feed_rows.touch_feeds([form.instance.pk], now)

    def delete_model(self, request: HttpRequest, obj: Feed) -> None:
        self.delete_queryset(request, Feed.objects.filter(pk=obj.pk))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Feed]) -> None:
        lifecycle.remove_feeds(list(queryset.values_list("pk", flat=True)), datetime.now(UTC))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Lists the feeds alone: their entries are thousands."""
        rows = [f"{feed} ({feed.url})" for feed in objs]
        denied = set() if self.has_delete_permission(request) else {self.opts.verbose_name}
        return rows, {self.opts.verbose_name_plural: len(rows)}, denied, []

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> HttpResponse:
        feed: Feed | None = options.get("obj")
        if feed is not None and feed.pk:
            context |= feed_page.page_context(
                feed, datetime.now(UTC), is_filtered=request.GET.get("entries") == "filtered"
            )
        return super().render_change_form(request, context, *args, **options)


HIDDEN_HELP = (
    "A feed with a user, a password or headers is hidden: excluded from combined feeds and public pages. To publish "
    "it, clear “Hidden” on its page."
)
LEFT_BEHIND_WARNING = (
    "User, password and headers were removed: they belong to the previous server. Enter those of the new one."
)
