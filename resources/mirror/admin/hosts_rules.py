"""The admin of hosts and of rules for URLs.

Hosts: facts learnt of each; blocking, forgiving wrong validators. Rules: proposals and their evidence; approving
and rejecting.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from resources.changelists import FewChosenAdmin
from resources.fetch.http import url_syntax
from resources.fetch.http.messages import FetchError

from .. import hosts, url_rules
from ..models import MirroredHost, Rule

MAX_HOSTS_PER_ACTION = 20
"""The limit for one action: a block looks through the hosts of all URLs, and fails the wanted ones."""
FINISH_DISTRUST_SECONDS = 5.0
"""The time for which an admin waits until the URLs that hosts have vouched for are wanted again."""
NOT_YET_MESSAGE = (
    "Not reset yet: {}. Content known only by their validators must be fetched first. Try again in a minute."
)


class HostForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = MirroredHost
        fields = ("host", "note", "blocked", "recheck")
        labels = {
            "confirmed": "Right validators",
            "confirmed_opaque": "Right validators that are no digests",
            "lies": "Wrong validators",
            "lied_at": "Last wrong validator",
        }
        help_texts = {
            "host": "For example images.example.org. A block includes its subdomains.",
            "blocked": "Nothing is mirrored from a blocked host.",
            "recheck": "Whether files of it and its subdomains, when requested, are checked for new content.",
        }

    def clean_host(self) -> str:
        """Returns the host as in URLs: in lower case, international names in ASCII."""
        given = str(self.cleaned_data["host"]).strip()
        try:
            target = url_syntax.parse_target(f"http://{given}/")
        except FetchError as error:
            raise forms.ValidationError(f"Not a host: {error.detail}.") from error
        if target.url != f"http://{target.authority}/" or target.port != 80:
            raise forms.ValidationError("Enter a host without a path or a port.")
        return target.host


@admin.register(MirroredHost)
class HostAdmin(FewChosenAdmin):
    most_chosen = MAX_HOSTS_PER_ACTION
    form = HostForm
    list_display = ("host", "state_cell", "validators_cell", "spared_cell", "note")
    list_filter = ("blocked", "recheck")
    search_fields = ("host", "note")
    show_facets = admin.ShowFacets.NEVER
    actions = ("block", "unblock", "reset_trust")
    readonly_fields = ("state_cell", "confirmed", "confirmed_opaque", "lies", "lied_at", "spared_cell", "heads_cell")
    fieldsets = ((None, {"fields": ("host", "note", "blocked", "recheck")}), ("Learnt", {"fields": readonly_fields}))

    @admin.display(description="state")
    def state_cell(self, row: MirroredHost) -> str:
        if row.blocked:
            return "blocked"
        return "validators not trusted" if row.lies else "normal"

    @admin.display(description="validators: right, wrong")
    def validators_cell(self, row: MirroredHost) -> str:
        confirmed = row.confirmed + row.confirmed_opaque
        return f"{confirmed:,}, {row.lies:,}" if confirmed or row.lies else "–"

    @admin.display(description="bodies spared by validators")
    def spared_cell(self, row: MirroredHost) -> str:
        return f"{row.spared / row.asked:.0%} of {row.asked:.0f} recent bodies" if row.asked >= 1 else "–"

    @admin.display(description="HEAD requests")
    def heads_cell(self, row: MirroredHost) -> str:
        return "not supported" if row.heads_refused else "supported"

    def get_readonly_fields(self, request: HttpRequest, obj: MirroredHost | None = None) -> tuple[str, ...]:
        return self.readonly_fields if obj is None else (*self.readonly_fields, "host")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuses: the facts learnt of the host would be gone, also its wrong validators."""
        return False

    def save_model(self, request: HttpRequest, obj: MirroredHost, form: Any, change: bool) -> None:
        """Saves the note and the choices. Does not write learnt facts, which may have changed meanwhile."""
        MirroredHost.objects.update_or_create(host=obj.host, defaults={"note": obj.note, "recheck": obj.recheck})
        hosts.forget_host_choices()
        if not change or "blocked" in form.changed_data:
            self._set(request, obj.host, blocked=obj.blocked)

    @admin.action(description="Block", permissions=["change"])
    def block(self, request: HttpRequest, queryset: QuerySet[MirroredHost]) -> None:
        for row in queryset.filter(blocked=False):
            self._set(request, row.host, blocked=True)
            self.log_change(request, row, "Blocked.")

    @admin.action(description="Unblock", permissions=["change"])
    def unblock(self, request: HttpRequest, queryset: QuerySet[MirroredHost]) -> None:
        for row in queryset.filter(blocked=True):
            self._set(request, row.host, blocked=False)
            self.log_change(request, row, "Unblocked.")

    @admin.action(description="Reset trust in validators", permissions=["change"])
    def reset_trust(self, request: HttpRequest, queryset: QuerySet[MirroredHost]) -> None:
        """Starts the trust in a host anew: bodies are compared until its validators were right often enough."""
        left = hosts.finish_distrusting(datetime.now(UTC), FINISH_DISTRUST_SECONDS)  # it would be believed again
        rows = list(queryset.filter(lies__gt=0).exclude(pk__in=left))
        fresh = MirroredHost.objects.filter(pk__in=[row.pk for row in rows])
        fresh.update(lies=0, lied_at=None, confirmed=0, confirmed_opaque=0)
        for row in rows:
            self.log_change(request, row, "Trust in validators reset.")
        if left:
            self.message_user(request, NOT_YET_MESSAGE.format(", ".join(left)), messages.WARNING)
        reset = ", ".join(row.host for row in rows) or "none needed it"
        self.message_user(request, f"Trust in validators reset: {reset}.")

    def _set(self, request: HttpRequest, host: str, *, blocked: bool) -> None:
        if blocked:
            failed = hosts.block_host(host, now=datetime.now(UTC))
            self.message_user(request, f"{host}: blocked. Waiting URLs that failed: {failed:,}.")
        elif dropped := hosts.unblock_host(host):
            text = f"{host}: unblocked. URLs to be fetched again at the next report: {dropped:,}."
            self.message_user(request, text)


@admin.register(Rule)
class RuleAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    list_display = ("__str__", "kind", "decision", "contents", "contradicted", "proposed_at", "decided_at")
    list_filter = ("decision", "kind")
    search_fields = ("host", "name")
    actions = ("approve", "reject")
    fields = ("says", "decision", "evidence_for", "values_seen", "examples", "against", "proposed_at", "decided_at")
    readonly_fields = fields

    @admin.display(description="contents in favour")
    def contents(self, rule: Rule) -> int:
        return int(rule.evidence.get("contents", 0))

    @admin.display(description="consistent", boolean=True)
    def contradicted(self, rule: Rule) -> bool:
        return not url_rules.is_contradicted(rule)

    @admin.display(description="rule")
    def says(self, rule: Rule) -> str:
        if rule.kind == Rule.Kind.PARAMETER:
            return f"At {rule.host}, URLs that differ only in the value of {rule.name} are the same."
        return f"URLs that differ only in these hosts are the same: {rule.host}"

    @admin.display(description="evidence")
    def evidence_for(self, rule: Rule) -> str:
        at = str(rule.evidence.get("seen_at", ""))[:16].replace("T", " ")
        return f"Contents with several such URLs each: {self.contents(rule)}, as of {at} UTC."

    @admin.display(description="compared values")
    def values_seen(self, rule: Rule) -> str:
        return ", ".join(str(value) or "(empty)" for value in rule.evidence.get("values", ())) or "–"

    @admin.display(description="URLs with the same content")
    def examples(self, rule: Rule) -> SafeString | str:
        return _pairs_as_html(rule.evidence.get("examples", ()))

    @admin.display(description="URLs with different content")
    def against(self, rule: Rule) -> SafeString | str:
        withdrawn = str(rule.evidence.get("withdrawn_at", ""))[:16].replace("T", " ")
        before = f"In force until {withdrawn} UTC, then contradicted by these URLs." if withdrawn else ""
        return format_html("{} {}", before, _pairs_as_html(rule.evidence.get("against", ())))

    @admin.action(description="Approve", permissions=["change"])
    def approve(self, request: HttpRequest, queryset: QuerySet[Rule]) -> None:
        self._each(request, queryset, "Approved", url_rules.approve_rule)

    @admin.action(description="Reject or withdraw", permissions=["change"])
    def reject(self, request: HttpRequest, queryset: QuerySet[Rule]) -> None:
        self._each(request, queryset, "Rejected", url_rules.reject_rule)

    def _each(
        self, request: HttpRequest, queryset: QuerySet[Rule], summary: str, do: Callable[[Rule, datetime], bool]
    ) -> None:
        done, not_done = [], []
        for rule in queryset:
            if do(rule, datetime.now(UTC)):
                self.log_change(request, rule, f"{summary}.")
                done.append(str(rule))
            else:
                not_done.append(str(rule))
        if done:
            self.message_user(request, f"{summary}: {', '.join(done)}.")
        if not_done:
            self.message_user(request, f"Not changed, because contradicted: {', '.join(not_done)}.", messages.ERROR)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Shows a page without buttons: admins decide in the list."""
        hidden = {"show_save": False, "show_save_and_continue": False}
        return super().changeform_view(request, object_id, form_url, {**(extra_context or {}), **hidden})


def _pairs_as_html(pairs: Iterable[Iterable[str]]) -> SafeString | str:
    """Returns the pairs, with their URLs below one another. Without links: the URLs may lead anywhere."""
    return format_html_join("", "<p>{}<br>{}</p>", (tuple(pair)[:2] for pair in pairs)) or "–"
