"""The admin of headers by host. A stored value is written, and never shown."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters

from ..keeping import hosts
from ..keeping.models import FetchHeader
from .forms import HeaderForm


@admin.register(FetchHeader)
class HeaderAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    form = HeaderForm
    list_display = ("host", "name", "source", "updated_at")
    list_display_links = ("host", "name")
    search_fields = ("host", "name")
    fields = ("host", "name", "value", "variable", "source", "updated_at")
    readonly_fields = ("source", "updated_at")

    @admin.display(description="where its value is")
    def source(self, header: FetchHeader) -> str:
        if not header.sealed and not header.variable:  # the form of a new one
            return "–"
        where = f"in the environment: {header.variable}" if header.variable else "in the database, sealed"
        if hosts.value_of(header) is not None:
            return where
        if header.variable:
            return f"{where}, which has no value here that can be sent"
        return "nowhere: the key that sealed it is gone. Set it again."

    @method_decorator(sensitive_post_parameters("value"))
    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        return super().changeform_view(request, object_id, form_url, extra_context)
