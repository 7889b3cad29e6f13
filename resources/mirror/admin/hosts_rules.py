"""The admin of hosts that files are mirrored from: what is learnt of each; blocking, forgiving lies."""

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from resources.fetching.addressing import targets
from resources.fetching.errors import FetchError

from ..knowing import hosts
from ..knowing.models import MirroredHost
from ..writing import blocking
from .listing import FewChosenAdmin

MOST_HOSTS = 20
"""For one action: a block looks through the hosts of all URLs, and fails those that wait."""
FINISH_SECONDS = 5.0
"""How long an admin waits until what hosts have vouched for is wanted again."""
NOT_YET = "Not yet: {}. What they vouched for is still to be fetched again. Try once more in a minute."


class HostForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = MirroredHost
        fields = ("host", "note", "blocked")
        help_texts = {"host": "A host, as images.example.org. A block counts for all below it, too."}

    def clean_host(self) -> str:
        """As URLs have it: in lower case, international names in ASCII."""
        given = str(self.cleaned_data["host"]).strip()
        try:
            target = targets.parse(f"http://{given}/")
        except FetchError as error:
            raise forms.ValidationError(f"This is no host: {error.detail}.") from error
        if target.url != f"http://{target.authority}/" or target.port != 80:
            raise forms.ValidationError("A host alone, without a path or a port.")
        return target.host


@admin.register(MirroredHost)
class HostAdmin(FewChosenAdmin):
    most_chosen = MOST_HOSTS
    form = HostForm
    list_display = ("host", "stands", "said", "spares", "note")
    list_filter = ("blocked",)
    search_fields = ("host", "note")
    show_facets = admin.ShowFacets.NEVER
    actions = ("block", "unblock", "forgive")
    readonly_fields = ("stands", "confirmed", "confirmed_opaque", "lies", "lied_at", "spares", "heads")
    fieldsets = (
        (None, {"fields": ("host", "note", "blocked")}),
        ("Learnt", {"fields": readonly_fields}),
    )

    @admin.display(description="stands")
    def stands(self, row: MirroredHost) -> str:
        if row.blocked:
            return "blocked"
        return "not believed" if row.lies else "as any"

    @admin.display(description="validators right, wrong")
    def said(self, row: MirroredHost) -> str:
        confirmed = row.confirmed + row.confirmed_opaque
        return f"{confirmed:,}, {row.lies:,}" if confirmed or row.lies else "–"

    @admin.display(description="validators spare")
    def spares(self, row: MirroredHost) -> str:
        return f"{row.spared / row.asked:.0%} of {row.asked:.0f} bodies of late" if row.asked >= 1 else "–"

    @admin.display(description="HEAD")
    def heads(self, row: MirroredHost) -> str:
        return "not answered as GET" if row.heads_refused else "as GET"

    def get_readonly_fields(self, request: HttpRequest, obj: MirroredHost | None = None) -> tuple[str, ...]:
        return self.readonly_fields if obj is None else (*self.readonly_fields, "host")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """What is learnt of it would be gone, lies too."""
        return False

    def save_model(self, request: HttpRequest, obj: MirroredHost, form: Any, change: bool) -> None:
        """What is learnt may have changed meanwhile, and is not written."""
        MirroredHost.objects.update_or_create(host=obj.host, defaults={"note": obj.note})
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

    @admin.action(description="Believe its validators again", permissions=["change"])
    def forgive(self, request: HttpRequest, queryset: QuerySet[MirroredHost]) -> None:
        """It begins anew: bodies are compared until it was right often enough."""
        left = hosts.finish_distrusting(datetime.now(UTC), FINISH_SECONDS)  # it would be believed again
        rows = list(queryset.filter(lies__gt=0).exclude(pk__in=left))
        fresh = MirroredHost.objects.filter(pk__in=[row.pk for row in rows])
        fresh.update(lies=0, lied_at=None, confirmed=0, confirmed_opaque=0)
        for row in rows:
            self.log_change(request, row, "Its validators are believed again.")
        if left:
            self.message_user(request, NOT_YET.format(", ".join(left)), messages.WARNING)
        self.message_user(request, f"Put to the test again: {', '.join(row.host for row in rows) or 'none had lied'}.")

    def _set(self, request: HttpRequest, host: str, *, blocked: bool) -> None:
        if blocked:
            failed = blocking.block(host, now=datetime.now(UTC))
            self.message_user(request, f"{host}: blocked. {failed:,} URLs that waited have failed.")
        else:
            dropped = blocking.unblock(host)
            if dropped:
                self.message_user(request, f"{host}: unblocked. The next report asks again for {dropped:,} URLs.")
