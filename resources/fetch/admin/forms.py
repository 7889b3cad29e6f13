"""The admin's forms of domains and headers, and the admins of headers and timings.

The value of a header is written, and never shown. Timings are a long list, shown without a count.
"""

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters

from resources.changelists import UncountedAdmin

from .. import host_settings
from ..http.limit_scopes import address_scope, is_host_scope, parse_scope
from ..models import HEADER_VARIABLE_PREFIX, FetchDomain, FetchHeader, FetchTiming
from ..timings import digest_url

COUNTING_CHOICES = (
    ("", "default: as its registrable domain says, else each host"),
    ("host", "this host"),
    ("registrable", "registrable domain: all its hosts together"),
    ("path", "first path segment (example.org/tiles)"),
    ("address", "all hosts of an IP address"),
)

FIXED_COUNTING_MESSAGE = "Only limits of hosts and registrable domains can be counted differently."


class DomainForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's classes take no parameters
    """Limits of a domain. Has no pause: a form that was open for long must not end a pause."""

    counting = forms.ChoiceField(choices=COUNTING_CHOICES, required=False, label="Limits count per")
    address = forms.GenericIPAddressField(required=False, help_text="Only for all hosts of an IP address.")

    class Meta:
        model = FetchDomain
        fields = ("scope", "delay_seconds", "in_flight", "bytes_per_second", "note")
        labels = {"in_flight": "Maximum requests in flight"}
        help_texts = {
            "scope": "A host (tiles.example.org), a path (example.org/tiles), a registrable domain or an IP address "
            "(address:192.0.2.1).",
            "delay_seconds": "Default: the learnt gap.",
            "in_flight": "Default: the learnt limit.",
            "bytes_per_second": "0: unlimited. Default: FETCH_BYTES_PER_SECOND.",
        }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        scope, counted_by = self.instance.scope, self.instance.counted_by
        is_address = counted_by.startswith("address:")
        self.initial.setdefault("counting", "address" if is_address else counted_by)
        self.initial.setdefault("address", counted_by.partition(":")[2] if is_address else None)
        if scope and not is_host_scope(scope):
            for name in ("counting", "address"):
                self.fields[name].disabled = True
                self.fields[name].help_text = FIXED_COUNTING_MESSAGE

    def clean_scope(self) -> str:
        """Returns the scope as the frontier names it."""
        try:
            return parse_scope(self.cleaned_data["scope"])
        except ValueError as error:
            raise ValidationError("Enter a domain, for example tiles.example.org or address:192.0.2.1.") from error

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        counting, given = cleaned.get("counting", ""), cleaned.get("address")
        scope = cleaned.get("scope") or self.instance.scope
        if (counting == "address") is not bool(given) and "address" not in self.errors:
            self.add_error("address", "Enter an address for “all hosts of an IP address”, and only for it.")
        if counting and scope and not is_host_scope(scope):
            self.add_error("counting", FIXED_COUNTING_MESSAGE)
        return cleaned

    def _post_clean(self) -> None:
        counting = self.cleaned_data.get("counting", "")
        given = self.cleaned_data.get("address")
        self.instance.counted_by = address_scope(given) if counting == "address" and given else counting
        super()._post_clean()  # type: ignore[misc]  # not in the stubs


class HeaderForm(forms.ModelForm):  # type: ignore[type-arg]
    """A header field. Its value can be written and never read: left empty it stays as it is."""

    value = forms.CharField(
        required=False,
        strip=False,
        max_length=4000,
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password", "size": 60}),
    )

    class Meta:
        model = FetchHeader
        fields = ("host", "name", "variable", "over_http", "to_any_address")
        labels = {"variable": "Environment variable"}
        help_texts = {
            "host": "For example tiles.example.org or tiles.example.org:8080. Subdomains are not included.",
            "variable": f"Used instead of a stored value. Its name begins with {HEADER_VARIABLE_PREFIX}.",
        }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if "value" in self.fields:
            stored = "A value is stored. Leave empty to keep it. " if self.instance.sealed else ""
            self.fields["value"].help_text = f"{stored}Stored encrypted, never shown again."

    def clean_host(self) -> str:
        try:
            host = parse_scope(self.cleaned_data["host"])
        except ValueError:
            host = ""
        if not host or not is_host_scope(host):
            raise ValidationError("Enter a host, for example tiles.example.org or tiles.example.org:8080.")
        return host

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        value, variable = cleaned.get("value"), cleaned.get("variable")
        if value and variable:
            self.add_error("value", "Enter a value or an environment variable, not both.")
        elif not (value or variable or "value" in self.errors or "variable" in self.errors):
            self._keep(cleaned)
        if name := cleaned.get("name"):
            if problem := host_settings.find_header_problem(name, ""):
                self.add_error("name", f"The header cannot be sent: {problem}.")
            elif value and host_settings.find_header_problem(name, value):
                self.add_error("value", "The value has line breaks or control characters, or is too long.")
        return cleaned

    def _keep(self, cleaned: dict[str, Any]) -> None:
        """Checks a form without a new value: a value must be stored, and it goes to no other host than its own."""
        if not self.instance.sealed:
            self.add_error("value", "Enter a value or an environment variable.")
        elif "host" in self.changed_data and cleaned.get("host") != self.initial.get("host"):
            self.add_error("value", "Enter the value again: a stored value is not sent to another host.")

    def _post_clean(self) -> None:
        if self.cleaned_data.get("variable"):
            self.instance.sealed = ""
        elif value := self.cleaned_data.get("value"):
            self.instance.sealed = host_settings.seal_value(value)
        super()._post_clean()  # type: ignore[misc]


@admin.register(FetchHeader)
@method_decorator(sensitive_post_parameters("value"), name="changeform_view")
class HeaderAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    form = HeaderForm
    list_display = ("host", "name", "source", "over_http", "to_any_address", "updated_at")
    list_display_links = ("host", "name")
    search_fields = ("host", "name")
    fields = ("host", "name", "value", "variable", "over_http", "to_any_address", "source", "updated_at")
    readonly_fields = ("source", "updated_at")

    @admin.display(description="value")
    def source(self, header: FetchHeader) -> str:
        if not header.sealed and not header.variable:  # the form of a new one
            return "–"
        where = f"environment variable {header.variable}" if header.variable else "stored encrypted"
        if host_settings.header_value(header) is not None:
            return where
        if header.variable:
            return f"{where}, without a valid value"
        return "lost: its key was changed. Enter it again."


@admin.register(FetchTiming)
class TimingAdmin(UncountedAdmin):
    list_display = ("began", "host", "kind", "lane", "outcome", "status", "first_byte", "took", "size", "egress")
    list_display_links = None
    list_filter = ("outcome", "kind", "lane")
    search_fields = ("scope",)
    search_help_text = "Search by domain (exact) or URL (https://…)."

    @admin.display(description="began (UTC)", ordering="started_at")
    def began(self, timing: FetchTiming) -> str:
        return f"{timing.started_at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="first byte")
    def first_byte(self, timing: FetchTiming) -> str:
        return "–" if timing.head_seconds is None else f"{timing.head_seconds:.3f}\N{NO-BREAK SPACE}s"

    @admin.display(description="duration")
    def took(self, timing: FetchTiming) -> str:
        return f"{timing.seconds:.3f}\N{NO-BREAK SPACE}s"

    @admin.display(description="bytes")
    def size(self, timing: FetchTiming) -> str:
        return f"{timing.wire_bytes:,}"

    def get_sortable_by(self, request: HttpRequest) -> tuple[str, ...]:
        """Allows sorting by time alone: any other order would sort the whole table."""
        return ("began",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[FetchTiming], search_term: str
    ) -> tuple[QuerySet[FetchTiming], bool]:
        """Searches by indexed columns only."""
        term = search_term.strip()
        if not term:
            return queryset, False
        wanted = {"url_digest": digest_url(term)} if "://" in term else {"scope": term.lower()}
        return queryset.filter(**wanted), False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
