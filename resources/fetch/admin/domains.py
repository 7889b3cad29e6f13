"""The admin of domains: their state and its reasons, pausing, unblocking, limits.

A change is in force at once, in Redis, or not at all.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
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

from retry import stores
from retry.errors import StoreUnavailable

from ...humanize import format_duration
from .. import host_settings
from ..frontier import queue
from ..frontier.explain import summarise_domain
from ..models import FetchDomain
from . import domain_page
from .forms import DomainForm

BLOCK_SECONDS = 3600
REDIS_AWAY_MESSAGE = "Redis does not answer: {}"
NOTHING_SAVED_MESSAGE = REDIS_AWAY_MESSAGE.format("nothing was changed.")


class DomainStateList(ChangeList):
    """Reads the states of all domains of the page, in one call."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows = list(self.result_list)
        found = domain_page.read_domain_states([row.scope for row in rows]) if rows else []
        for index, row in enumerate(rows):
            row.report = None if found is None else found[index]
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
        (
            "Limits",
            {"fields": ("delay_seconds", "in_flight", "own_in_flight", "bytes_per_second", "counting", "address")},
        ),
    )

    @admin.display(description="state")
    def stands(self, row: Any) -> str:
        return "unknown: Redis does not answer" if row.report is None else summarise_domain(row.report)

    @admin.display(description="last success")
    def last_success(self, row: Any) -> str:
        at = row.report and row.report.last_success
        return "–" if at is None else f"{format_duration(-at)} ago"

    @admin.display(description="gap")
    def gap(self, row: Any) -> str:
        return f"{row.report.gap_seconds:.3g}\N{NO-BREAK SPACE}s" if row.report else "–"

    @admin.display(description="set by an admin")
    def limits(self, row: FetchDomain) -> str:
        named = (
            ("gap {:g} s", row.delay_seconds),
            ("{} in flight", row.in_flight),
            ("own server: {} in flight", row.own_in_flight),
            ("{:,} bytes/s", row.bytes_per_second),
            ("counted by {}", row.counted_by or None),
        )
        return ", ".join(text.format(value) for text, value in named if value is not None) or "–"

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[ChangeList]:
        return DomainStateList

    def get_readonly_fields(self, request: HttpRequest, obj: FetchDomain | None = None) -> tuple[str, ...]:
        return ("own_in_flight",) if obj is None else ("scope", "own_in_flight")

    @admin.action(description="Pause", permissions=["change"])
    def pause(self, request: HttpRequest, queryset: QuerySet[FetchDomain]) -> None:
        self._change_each(request, queryset, "pause")

    @admin.action(description="Resume", permissions=["change"])
    def go_on(self, request: HttpRequest, queryset: QuerySet[FetchDomain]) -> None:
        self._change_each(request, queryset, "go-on")

    @admin.action(description="Block for an hour", permissions=["change"])
    def block(self, request: HttpRequest, queryset: QuerySet[FetchDomain]) -> None:
        self._change_each(request, queryset, "block")

    @admin.action(description="Unblock and close circuit", permissions=["change"])
    def unblock(self, request: HttpRequest, queryset: QuerySet[FetchDomain]) -> None:
        self._change_each(request, queryset, "unblock")

    def _change_each(self, request: HttpRequest, rows: QuerySet[FetchDomain], button: str) -> None:
        """Makes the button's change of each row, until Redis does not answer."""
        summary, do = _BUTTONS[button]
        done: list[str] = []
        for row in rows:
            try:
                do(row.scope)
            except StoreUnavailable:
                host_settings.mark_doubtful([row.scope], datetime.now(UTC))
                text = REDIS_AWAY_MESSAGE.format(f"{row.scope} and the domains after it were not changed.")
                self.message_user(request, text, messages.ERROR)
                break
            self.log_change(request, row, f"{summary}.")
            done.append(row.scope)
        if done:
            self.message_user(request, f"{summary}: {', '.join(done)}.")

    def get_urls(self) -> list[URLPattern]:
        act = self.admin_site.admin_view(self.act_view)
        return [path("<int:pk>/act/<str:what>/", act, name="resources_fetchdomain_act"), *super().get_urls()]

    @method_decorator(require_POST)
    @method_decorator(csrf_protect)
    def act_view(self, request: HttpRequest, pk: int, what: str) -> HttpResponse:
        """Handles one of the buttons of a domain's page."""
        row = FetchDomain.objects.filter(pk=pk).first()
        if row is None or what not in {*_BUTTONS, "accept"}:
            raise Http404("No such domain or action.")
        if not self.has_change_permission(request, row):
            raise PermissionDenied
        if what == "accept":
            self._accept(request, row)
        else:
            self._change_each(request, FetchDomain.objects.filter(pk=pk), what)
        return HttpResponseRedirect(reverse("admin:resources_fetchdomain_change", args=[pk]))

    def _accept(self, request: HttpRequest, row: FetchDomain) -> None:
        """Sets the proposed scope, if it still is the one that the admin has seen."""
        found = domain_page.find_proposal(row.scope)
        if found is None or [found.name, found.kind] != request.POST.getlist("proposal"):
            self.message_user(request, "The proposal is out of date. Nothing was changed.", messages.WARNING)
            return
        try:
            host_settings.change_domain(found.name, counted_by=found.kind)
        except StoreUnavailable:
            host_settings.mark_doubtful([found.name], datetime.now(UTC))
            self.message_user(request, NOTHING_SAVED_MESSAGE, messages.ERROR)
            return
        self.log_change(request, row, f"Limits of {found.name} count for: {found.kind}.")
        self.message_user(
            request, f"Limits of {found.name} now count for: {found.kind}. Waiting requests keep their queue."
        )

    def save_model(self, request: HttpRequest, obj: FetchDomain, form: Any, change: bool) -> None:
        host_settings.save_domain(obj)

    def delete_model(self, request: HttpRequest, obj: FetchDomain) -> None:
        host_settings.delete_domain(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[FetchDomain]) -> None:
        for row in queryset:
            host_settings.delete_domain(row)

    def changeform_view(self, request: HttpRequest, object_id: str | None = None, *args: Any, **options: Any) -> Any:
        """Shows the page of the domain, or saves its limits: in Redis and the database, or in neither."""
        try:
            return super().changeform_view(request, object_id, *args, **options)
        except StoreUnavailable:
            return self._redirect_unsaved(request, [object_id or ""])

    def delete_view(self, request: HttpRequest, object_id: str, *args: Any, **options: Any) -> Any:
        try:
            return super().delete_view(request, object_id, *args, **options)
        except StoreUnavailable:
            return self._redirect_unsaved(request, [object_id])

    def changelist_view(self, request: HttpRequest, *args: Any, **options: Any) -> Any:
        try:
            return super().changelist_view(request, *args, **options)
        except StoreUnavailable:
            return self._redirect_unsaved(request, request.POST.getlist("_selected_action"))

    def _redirect_unsaved(self, request: HttpRequest, ids: list[str]) -> HttpResponse:
        """Redirects after a rolled-back transaction. Redis may still carry out a call without a reply."""
        known = [given for given in ids if given.isascii() and given.isdigit()]
        scopes = FetchDomain.objects.filter(pk__in=known).values_list("scope", flat=True)
        host_settings.mark_doubtful(list(scopes), datetime.now(UTC))
        self.message_user(request, NOTHING_SAVED_MESSAGE, messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> HttpResponse:
        """Adds the domain's report to its page."""
        obj: FetchDomain | None = options.get("obj")
        if obj is not None and obj.pk:
            given = request.GET.get("hours", "")
            hours = int(given) if given in map(str, domain_page.CHART_HOURS) else domain_page.USUAL_CHART_HOURS
            context |= {
                "report": domain_page.read_domain_report(obj.scope),
                "egresses": domain_page.list_egress_states(obj.scope),
                "proposal": domain_page.find_proposal(obj.scope),
                "chart": domain_page.build_domain_chart(obj.scope, datetime.now(UTC), hours),
                "hours": hours,
                "spans": domain_page.CHART_HOURS,
                "latest": domain_page.latest_timings(obj.scope),
            }
        return super().render_change_form(request, context, *args, **options)


_BUTTONS: dict[str, tuple[str, Callable[[str], None]]] = {
    "pause": ("Paused", partial(host_settings.change_domain, paused=True)),
    "go-on": ("Resumed", partial(host_settings.change_domain, paused=False)),
    "block": ("Blocked for an hour", lambda scope: stores.run_steps(queue.block_domain(scope, BLOCK_SECONDS))),
    "unblock": ("Unblocked", lambda scope: stores.run_steps(queue.unblock_domain(scope))),
}
