"""The admin of feeds: the list with the health of all, and the page of each."""

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

from resources import words

from ..errors import FeedError
from ..keeping import adding, credentials, editing, flagging, health, pausing, versions
from ..models import SAID, Feed
from . import feed_page, importing
from .acting import Acting
from .filters import TWICE, CategoryFilter, HealthFilter
from .forms import AddForm, ChangeForm

SECRET = ("user", "password", "headers")
_UNLISTED = (*SAID, "etag", "last_modified", "sealed_password", "sealed_headers", "validated_url")


@admin.register(Feed)
class FeedAdmin(Acting):
    list_display = ("listed", "stands", "next_check", "takes", "last_good", "subscribers")
    list_filter = (HealthFilter, CategoryFilter)
    search_fields = ("slug", "title", "own_title", "url")
    search_help_text = "A word of its title, or of its address."
    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "admin/feeds/feed/change_list.html"
    change_form_template = "admin/feeds/feed/change_form.html"
    autocomplete_fields = ("categories",)

    @admin.display(description="feed", ordering="slug")
    def listed(self, feed: Feed) -> SafeString:
        about = " · ".join((feed.host, *(category.title for category in feed.categories.all())))
        return format_html('<span class="name">{}</span><span class="quiet">{}</span>', feed.shown_title, about)

    @admin.display(description="health", ordering="state")
    def stands(self, feed: Feed) -> SafeString:
        said, about = health.word(feed), health.trouble(feed)
        if about and feed.failing_since:
            about = f"{about}, for {words.span(datetime.now(UTC) - feed.failing_since)}"
        label = health.LABELS.get(said, said)
        return format_html('<span class="stands is-{}">{}</span><span class="quiet">{}</span>', said, label, about)

    @admin.display(description="next check", ordering="next_check_at")
    def next_check(self, feed: Feed) -> str:
        now = datetime.now(UTC)
        if feed.paused:
            return "–"
        if feed.handed_over_at is not None:
            return "in hand"
        return "due" if feed.next_check_at <= now or feed.flagged_at else words.ago(feed.next_check_at, now)

    @admin.display(description="last read", ordering="fetched_at")
    def last_good(self, feed: Feed) -> SafeString:
        now = datetime.now(UTC)
        changed = f"changed {words.ago(feed.changed_at, now)}" if feed.changed_at else ""
        return format_html('{}<span class="quiet">{}</span>', words.ago(feed.fetched_at, now), changed)

    @admin.display(description="takes", ordering="expected_seconds")
    def takes(self, feed: Feed) -> str:
        return "–" if feed.expected_seconds is None else f"{feed.expected_seconds:.2f}\N{NO-BREAK SPACE}s"

    @admin.display(description="subscribers", ordering="subscriber_count")
    def subscribers(self, feed: Feed) -> str:
        return f"{feed.subscriber_count:,}"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Feed]:
        return super().get_queryset(request).defer(*_UNLISTED).prefetch_related("categories")

    def get_ordering(self, request: HttpRequest) -> Any:
        """Likely duplicates stand together."""
        return health.TOGETHER if request.GET.get("health") == TWICE else super().get_ordering(request)

    def get_form(self, request: HttpRequest, obj: Feed | None = None, change: bool = False, **options: Any) -> Any:
        return super().get_form(request, obj, change, **{**options, "form": AddForm if obj is None else ChangeForm})

    def get_fieldsets(self, request: HttpRequest, obj: Feed | None = None) -> Any:
        often = ("How often", {"fields": (("least_seconds", "most_seconds"),)})
        if obj is None:
            about = {"classes": ["collapse"], "description": HIDDEN, "fields": SECRET}
            shown = ("What its server is shown", about)
            return [(None, {"fields": ("url", "title", "categories")}), shown, often]
        about = {"classes": ["collapse"], "description": HIDDEN, "fields": (*SECRET, "forget_headers", "is_hidden")}
        shown = ("What its server is shown", about)
        return [(None, {"fields": ("url", "title", "slug", "categories")}), often, shown]

    def get_urls(self) -> list[URLPattern]:
        act = self.admin_site.admin_view(self.act_view)
        take_in = self.admin_site.admin_view(self.import_view)
        return [
            path("import/", take_in, name="feeds_feed_import"),
            path("<int:pk>/act/<str:what>/", act, name="feeds_feed_act"),
            *super().get_urls(),
        ]

    @method_decorator(require_POST)
    @method_decorator(csrf_protect)
    def act_view(self, request: HttpRequest, pk: int, what: str) -> HttpResponse:
        """One of the buttons of a feed's page."""
        feed = Feed.objects.filter(pk=pk).first()
        if feed is None:
            raise Http404("No such feed.")
        if not self.has_change_permission(request, feed):
            raise PermissionDenied
        if not self.act(request, feed, what):
            raise Http404("No such button.")
        return HttpResponseRedirect(reverse("admin:feeds_feed_change", args=[pk]))

    @method_decorator(csrf_protect)
    def import_view(self, request: HttpRequest) -> HttpResponse:
        """Takes in a list."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        return importing.ask_or_take_in(self, request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Adds how all feeds stand."""
        found = health.summary(Feed.objects.all(), datetime.now(UTC)) if request.method == "GET" else None
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
        except FeedError as error:  # others came there, or are being added, since the form was checked
            self.message_user(request, f"Nothing was changed: {error}", messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    def save_model(self, request: HttpRequest, obj: Feed, form: Any, change: bool) -> None:
        """Saves what was changed in the form and no more: fetchers write to the same row."""
        now = datetime.now(UTC)
        if change:
            had_secrets = credentials.is_private(Feed.objects.get(pk=obj.pk))
            is_due = editing.edit(obj.pk, form.edited, now)
            obj.refresh_from_db()
            if "url" in form.changed_data and had_secrets and not credentials.is_private(obj):
                self.message_user(request, LEFT_BEHIND, messages.WARNING)
        else:
            is_due = self._add(obj, form, now)
        if is_due:
            flagging.flag([obj.pk], now)

    def _add(self, obj: Feed, form: AddForm, now: datetime) -> bool:
        cleaned = form.cleaned_data
        feed, is_new = adding.add(form.place, title=cleaned["title"], now=now)
        fields: dict[str, Any] = {name: cleaned[name] for name in ("least_seconds", "most_seconds") if cleaned[name]}
        if cleaned["headers"]:
            fields |= {"sealed_headers": credentials.sealed_headers(cleaned["headers"]), "is_hidden": True}
        if is_new and fields:
            Feed.objects.filter(pk=feed.pk).update(**fields)
        obj.pk = feed.pk
        obj.refresh_from_db()
        return is_new

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """The combinations that it leaves, and those that it comes into, change."""
        now = datetime.now(UTC)
        if "categories" not in form.changed_data:
            return
        versions.withdraw([form.instance.pk], now)
        super().save_related(request, form, formsets, change)
        versions.touch([form.instance.pk], now)

    def delete_model(self, request: HttpRequest, obj: Feed) -> None:
        pausing.remove([obj.pk], datetime.now(UTC))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Feed]) -> None:
        pausing.remove(list(queryset.values_list("pk", flat=True)), datetime.now(UTC))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """The feeds alone: their entries are thousands."""
        rows = [f"{feed} ({feed.url})" for feed in objs]
        denied = set() if self.has_delete_permission(request) else {self.opts.verbose_name}
        return rows, {self.opts.verbose_name_plural: len(rows)}, denied, []

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> HttpResponse:
        """Adds how the feed stands to its page."""
        feed: Feed | None = options.get("obj")
        if feed is not None and feed.pk:
            context |= feed_page.context(feed, datetime.now(UTC))
        return super().render_change_form(request, context, *args, **options)


HIDDEN = (
    "What a server shows to some alone is kept out of what is public here: a feed that is given any of these is in no "
    "combination and has no pages of its own, until its page is told otherwise."
)
LEFT_BEHIND = (
    "User, password and headers were left behind: they were for another server. Where this one wants them, type them."
)
