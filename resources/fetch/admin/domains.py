"""The admin of domains: how each stands and why, pausing, unblocking, limits.

What is done here is in force at once, in Redis, or not at all.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_POST

from retry import connections
from retry.errors import StoreUnavailable

from ..keeping import limiting
from ..keeping.models import FetchDomain
from ..queues import frontier
from ..queues.explaining import duration, in_a_word
from . import domain_page
from .forms import DomainForm

BLOCK_SECONDS = 3600
BLOCKED = "Blocked for an hour"
AWAY = "Redis does not answer: {}"
NOTHING_SAVED = AWAY.format("nothing was changed.")


class StandingList(ChangeList):
    """Asks how all domains of the page stand, in one call."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows = list(self.result_list)
        found = domain_page.domains([row.scope for row in rows]) if rows else []
        for index, row in enumerate(rows):
            row.standing = None if found is None else found[index]
        self.result_list = rows


@admin.register(FetchDomain)
class DomainAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    form = DomainForm
    list_display = ("scope", "stands", "last_success", "gap", "limits", "note")
    list_filter = ("paused",)
    search_fields = ("scope", "note")
    actions = ("pause", "go_on", "block", "unblock")
    change_form_template = "admin/resources/fetchdomain/change_form.html"
    fieldsets = (
        (None, {"fields": ("scope", "note")}),
        ("Limits", {"fields": ("delay_seconds", "in_flight", "bytes_per_second", "counting", "address")}),
    )

    @admin.display(description="stands")
    def stands(self, row: Any) -> str:
        return "not known: Redis does not answer" if row.standing is None else in_a_word(row.standing)

    @admin.display(description="last success")
    def last_success(self, row: Any) -> str:
        at = row.standing and row.standing.last_success
        return "–" if at is None else f"{duration(-at)} ago"

    @admin.display(description="gap")
    def gap(self, row: Any) -> str:
        return f"{row.standing.gap_seconds:.3g}\N{NO-BREAK SPACE}s" if row.standing else "–"

    @admin.display(description="set by an admin")
    def limits(self, row: FetchDomain) -> str:
        named = (
            ("gap {:g} s", row.delay_seconds),
            ("{} in flight", row.in_flight),
            ("{:,} bytes/s", row.bytes_per_second),
            ("counts for {}", row.counted_by or None),
        )
        return ", ".join(text.format(value) for text, value in named if value is not None) or "–"

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[ChangeList]:
        return StandingList

    def get_readonly_fields(self, request: HttpRequest, obj: FetchDomain | None = None) -> tuple[str, ...]:
        return () if obj is None else ("scope",)

    @admin.action(description="Pause", permissions=["change"])
    def pause(self, request: HttpRequest, queryset: QuerySet[FetchDomain]) -> None:
        self._each(request, queryset, "Paused", _pause)

    @admin.action(description="Go on", permissions=["change"])
    def go_on(self, request: HttpRequest, queryset: QuerySet[FetchDomain]) -> None:
        self._each(request, queryset, "Going on", _go_on)

    @admin.action(description="Block for an hour", permissions=["change"])
    def block(self, request: HttpRequest, queryset: QuerySet[FetchDomain]) -> None:
        self._each(request, queryset, BLOCKED, _block)

    @admin.action(description="Unblock, and close the circuit", permissions=["change"])
    def unblock(self, request: HttpRequest, queryset: QuerySet[FetchDomain]) -> None:
        self._each(request, queryset, "Unblocked", _unblock)

    def _each(self, request: HttpRequest, rows: QuerySet[FetchDomain], said: str, do: Callable[[str], None]) -> None:
        """Does it for each, until Redis does not answer."""
        done: list[str] = []
        for row in rows:
            try:
                do(row.scope)
            except StoreUnavailable:
                limiting.doubt([row.scope], datetime.now(UTC))
                text = AWAY.format(f"nothing was changed for {row.scope} and what comes after it.")
                self.message_user(request, text, messages.ERROR)
                break
            self.log_change(request, row, f"{said}.")
            done.append(row.scope)
        if done:
            self.message_user(request, f"{said}: {', '.join(done)}.")

    def get_urls(self) -> list[URLPattern]:
        act = self.admin_site.admin_view(self.act_view)
        return [path("<int:pk>/act/<str:what>/", act, name="resources_fetchdomain_act"), *super().get_urls()]

    @method_decorator(require_POST)
    @method_decorator(csrf_protect)
    def act_view(self, request: HttpRequest, pk: int, what: str) -> HttpResponse:
        """One of the buttons of a domain's page."""
        row = FetchDomain.objects.filter(pk=pk).first()
        if row is None or what not in {*_ACTS, "accept"}:
            raise Http404("No such domain, or no such button.")
        if not self.has_change_permission(request, row):
            raise PermissionDenied
        if what == "accept":
            self._accept(request, row)
        else:
            said, do = _ACTS[what]
            self._each(request, FetchDomain.objects.filter(pk=pk), said, do)
        return HttpResponseRedirect(reverse("admin:resources_fetchdomain_change", args=[pk]))

    def _accept(self, request: HttpRequest, row: FetchDomain) -> None:
        """Sets the scope that is proposed, if it still is what the admin has seen."""
        found = domain_page.proposal(row.scope)
        if found is None or [found.name, found.kind] != request.POST.getlist("proposal"):
            self.message_user(request, "That is not proposed any more: nothing was changed.", messages.WARNING)
            return
        try:
            limiting.change(found.name, counted_by=found.kind)
        except StoreUnavailable:
            limiting.doubt([found.name], datetime.now(UTC))
            self.message_user(request, NOTHING_SAVED, messages.ERROR)
            return
        self.log_change(request, row, f"Limits of {found.name} count for: {found.kind}.")
        self.message_user(request, f"Limits of {found.name} now count for: {found.kind}. What waits stays where it is.")

    def save_model(self, request: HttpRequest, obj: FetchDomain, form: Any, change: bool) -> None:
        limiting.save(obj)

    def delete_model(self, request: HttpRequest, obj: FetchDomain) -> None:
        limiting.delete(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[FetchDomain]) -> None:
        for row in queryset:
            limiting.delete(row)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Shows the page of the domain, or saves its limits: in Redis and the database, or in neither."""
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except StoreUnavailable:
            return self._nothing_saved(request, [object_id])

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            return super().delete_view(request, object_id, extra_context)
        except StoreUnavailable:
            return self._nothing_saved(request, [object_id])

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        try:
            return super().changelist_view(request, extra_context)
        except StoreUnavailable:
            return self._nothing_saved(request, request.POST.getlist("_selected_action"))

    def _nothing_saved(self, request: HttpRequest, ids: list[str | None] | list[str]) -> HttpResponse:
        """After a transaction that was taken back. Redis may carry out yet what it did not answer to."""
        known = [given for given in ids if given and given.isascii() and given.isdigit()]
        scopes = FetchDomain.objects.filter(pk__in=known).values_list("scope", flat=True)
        limiting.doubt(list(scopes), datetime.now(UTC))
        self.message_user(request, NOTHING_SAVED, messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> HttpResponse:
        """Adds how the domain stands to its page."""
        obj: FetchDomain | None = options.get("obj")
        if obj is not None and obj.pk:
            given = request.GET.get("hours", "")
            hours = int(given) if given in map(str, domain_page.HOURS) else domain_page.USUAL_HOURS
            context |= {
                "standing": domain_page.standing(obj.scope),
                "ways": domain_page.ways(obj.scope),
                "proposal": domain_page.proposal(obj.scope),
                "chart": domain_page.chart(obj.scope, datetime.now(UTC), hours),
                "spans": domain_page.HOURS,
                "latest": domain_page.latest(obj.scope),
            }
        return super().render_change_form(request, context, *args, **options)


def _pause(scope: str) -> None:
    limiting.change(scope, paused=True)


def _go_on(scope: str) -> None:
    limiting.change(scope, paused=False)


def _block(scope: str) -> None:
    connections.run(frontier.block(scope, BLOCK_SECONDS))


def _unblock(scope: str) -> None:
    connections.run(frontier.unblock(scope))


_ACTS: dict[str, tuple[str, Callable[[str], None]]] = {
    "pause": ("Paused", _pause),
    "go-on": ("Going on", _go_on),
    "block": (BLOCKED, _block),
    "unblock": ("Unblocked", _unblock),
}
