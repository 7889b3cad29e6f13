"""The admin of tokens. A token is shown once, on the page that answers its making."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from resources.api.models import ApiToken

from . import tokens


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    list_display = (
        "name",
        "prefix",
        "listed_layers",
        "may_mirror",
        "may_take_down",
        "may_manage_feeds",
        "enabled",
        "expires_at",
        "last_used_at",
    )
    list_filter = ("enabled",)
    search_fields = ("name", "prefix", "layers")
    fields = (
        *("name", "layers", "may_mirror", "may_take_down", "may_manage_feeds", "user", "enabled", "expires_at"),
        *("prefix", "created_at", "last_used_at"),
    )
    autocomplete_fields = ("user",)
    readonly_fields = ("prefix", "created_at", "last_used_at")

    @admin.display(description="layers")
    def listed_layers(self, token: ApiToken) -> str:
        return token.layers or "all"

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        """Saves the settings of a token. A new one gets its text, which lives as long as the request."""
        if change:
            super().save_model(request, obj, form, change)
        else:
            request.META["tarry.token"] = tokens.issue(obj).text

    def response_add(self, request: HttpRequest, obj: ApiToken, post_url_continue: str | None = None) -> HttpResponse:
        """The page with the token, instead of a message that a cookie would carry."""
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"The token “{obj}”",
            "token": request.META["tarry.token"],
        }
        return TemplateResponse(request, "admin/resources/apitoken/issued.html", context)
