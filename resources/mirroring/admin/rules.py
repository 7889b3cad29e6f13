"""The admin of rules for URLs: what is proposed and why; approving and rejecting."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from ..knowing.models import Rule
from ..ruling import approving


@admin.register(Rule)
class RuleAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    list_display = ("__str__", "kind", "decision", "contents", "contradicted", "proposed_at", "decided_at")
    list_filter = ("decision", "kind")
    search_fields = ("host", "name")
    actions = ("approve", "reject")
    fields = ("says", "decision", "evidence_for", "values_seen", "examples", "against", "proposed_at", "decided_at")
    readonly_fields = fields

    @admin.display(description="contents that speak for it")
    def contents(self, rule: Rule) -> int:
        return int(rule.evidence.get("contents", 0))

    @admin.display(description="free of contradictions", boolean=True)
    def contradicted(self, rule: Rule) -> bool:
        return not approving.is_contradicted(rule)

    @admin.display(description="what it says")
    def says(self, rule: Rule) -> str:
        if rule.kind == Rule.Kind.PARAMETER:
            return f"At {rule.host}, URLs that differ in the value of {rule.name} alone are one."
        return f"URLs that differ in which of these hosts they name are one: {rule.host}"

    @admin.display(description="what speaks for it")
    def evidence_for(self, rule: Rule) -> str:
        at = str(rule.evidence.get("seen_at", ""))[:16].replace("T", " ")
        return f"{self.contents(rule)} contents that came from several such URLs each, as of {at} UTC."

    @admin.display(description="values that were compared")
    def values_seen(self, rule: Rule) -> str:
        return ", ".join(str(value) or "(empty)" for value in rule.evidence.get("values", ())) or "–"

    @admin.display(description="URLs that gave the same")
    def examples(self, rule: Rule) -> SafeString | str:
        return _pairs(rule.evidence.get("examples", ()))

    @admin.display(description="URLs that gave something else")
    def against(self, rule: Rule) -> SafeString | str:
        withdrawn = str(rule.evidence.get("withdrawn_at", ""))[:16].replace("T", " ")
        before = f"It was in force until {withdrawn} UTC, when this was seen." if withdrawn else ""
        return format_html("{} {}", before, _pairs(rule.evidence.get("against", ())))

    @admin.action(description="Approve: these URLs are one", permissions=["change"])
    def approve(self, request: HttpRequest, queryset: QuerySet[Rule]) -> None:
        self._each(request, queryset, "Approved", approving.approve)

    @admin.action(description="Reject, or take out of force", permissions=["change"])
    def reject(self, request: HttpRequest, queryset: QuerySet[Rule]) -> None:
        self._each(request, queryset, "Rejected", approving.reject)

    def _each(
        self, request: HttpRequest, queryset: QuerySet[Rule], said: str, do: Callable[[Rule, datetime], bool]
    ) -> None:
        done, not_done = [], []
        for rule in queryset:
            if do(rule, datetime.now(UTC)):
                self.log_change(request, rule, f"{said}.")
                done.append(str(rule))
            else:
                not_done.append(str(rule))
        if done:
            self.message_user(request, f"{said}: {', '.join(done)}.")
        if not_done:
            self.message_user(request, f"Contradicted, and not changed: {', '.join(not_done)}.", messages.ERROR)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """A page to read: what is decided is decided in the list."""
        hidden = {"show_save": False, "show_save_and_continue": False}
        return super().changeform_view(request, object_id, form_url, {**(extra_context or {}), **hidden})


def _pairs(pairs: Iterable[Iterable[str]]) -> SafeString | str:
    """Each with its URLs below one another. No links: what they lead to is anybody's."""
    return format_html_join("", "<p>{}<br>{}</p>", (tuple(pair)[:2] for pair in pairs)) or "–"
