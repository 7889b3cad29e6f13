"""The admin's forms: limits of a domain, headers of a host."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from ..addressing.scopes import address, is_host, named
from ..keeping import hosts, sealing
from ..keeping.models import FetchDomain, FetchHeader

COUNTING = (
    ("", "by the rule of its registrable domain; without one, each host alone"),
    ("host", "this host alone"),
    ("registrable", "its registrable domain, all hosts together"),
    ("path", "each first part of its paths (example.org/tiles)"),
    ("address", "all hosts at one address"),
)


class DomainForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's classes take no parameters
    """Limits of a domain. Pausing is apart: a form that was open for long must not take a pause back."""

    counting = forms.ChoiceField(choices=COUNTING, required=False, label="Limits count for")
    address = forms.GenericIPAddressField(required=False, help_text="Only for all hosts at one address.")

    class Meta:
        model = FetchDomain
        fields = ("scope", "delay_seconds", "in_flight", "bytes_per_second", "note")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        scope, counted_by = self.instance.scope, self.instance.counted_by
        is_address = counted_by.startswith("address:")
        self.initial.setdefault("counting", "address" if is_address else counted_by)
        self.initial.setdefault("address", counted_by.partition(":")[2] if is_address else None)
        if scope and not is_host(scope):
            for name in ("counting", "address"):
                self.fields[name].disabled = True
                self.fields[name].help_text = "Only hosts and registrable domains can be counted otherwise."

    def clean_scope(self) -> str:
        """The scope that was meant, as the frontier names it."""
        try:
            return named(self.cleaned_data["scope"])
        except ValueError as error:
            raise ValidationError("Not a domain. For example: tiles.example.org, or address:192.0.2.1") from error

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        counting, given = cleaned.get("counting", ""), cleaned.get("address")
        scope = cleaned.get("scope") or self.instance.scope
        if (counting == "address") is not bool(given) and "address" not in self.errors:
            self.add_error("address", "An address belongs to “all hosts at one address”, and only there.")
        if counting and scope and not is_host(scope):
            self.add_error("counting", "Only hosts and registrable domains can be counted otherwise.")
        return cleaned

    def _post_clean(self) -> None:
        counting = self.cleaned_data.get("counting", "")
        given = self.cleaned_data.get("address")
        self.instance.counted_by = address(given) if counting == "address" and given else counting
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
        fields = ("host", "name", "variable")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if "value" in self.fields:
            stored = "A value is stored. Empty: it stays. " if self.instance.sealed else ""
            self.fields["value"].help_text = f"{stored}It is sealed, and never shown again."

    def clean_host(self) -> str:
        try:
            host = named(self.cleaned_data["host"])
        except ValueError:
            host = ""
        if not host or not is_host(host):
            raise ValidationError("Not a host. For example: tiles.example.org, or tiles.example.org:8080")
        return host

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        value, variable = cleaned.get("value"), cleaned.get("variable")
        if value and variable:
            self.add_error("value", "Either a value or a variable of the environment.")
        elif not (value or variable or "value" in self.errors or "variable" in self.errors):
            self._keep(cleaned)
        if name := cleaned.get("name"):
            if problem := hosts.problem_with(name, ""):
                self.add_error("name", f"It cannot be sent: {problem}.")
            elif value and hosts.problem_with(name, value):
                self.add_error("value", "It cannot be sent: line breaks and control characters, or too long.")
        return cleaned

    def _keep(self, cleaned: dict[str, Any]) -> None:
        """Without a new value: there must be one, and it goes to no other host than it was given for."""
        if not self.instance.sealed:
            self.add_error("value", "A value, or a variable of the environment.")
        elif "host" in self.changed_data and cleaned.get("host") != self.initial.get("host"):
            self.add_error("value", "Type the value again: it is not taken along to another host.")

    def _post_clean(self) -> None:
        if self.cleaned_data.get("variable"):
            self.instance.sealed = ""
        elif value := self.cleaned_data.get("value"):
            self.instance.sealed = sealing.seal(value)
        super()._post_clean()  # type: ignore[misc]
