"""URLs of the API, and its description in OpenAPI."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, URLResolver, path, re_path
from django.utils.module_loading import import_string
from ninja import NinjaAPI

from . import layers, problems, reports, resources, routing, speeds  # noqa: F401  # some add to a shared router

DESCRIPTION = """Reads and changes the layers of this site, mirrors files by their URLs, and manages feeds.

Changes need a token, issued in the admin: `Authorization: Bearer …`.
Whatever goes wrong is told as `application/problem+json` (RFC 9457): `detail` says what to do.
"""
READING = ("GET", "HEAD")

api = NinjaAPI(title="Tarry", version="1", description=DESCRIPTION, urls_namespace="api")
api.add_router("", layers.router)
api.add_router("", speeds.router)
api.add_router("", routing.router)
for _path in settings.API_ROUTERS:
    api.add_router("", import_string(_path))
problems.handle(api)


def first_page(request: HttpRequest) -> HttpResponse:
    return redirect("api:openapi-view")


def _in_words(pattern: URLPattern | URLResolver) -> URLPattern:
    """ninja's views answer methods by themselves; its pages are for reading."""
    assert isinstance(pattern, URLPattern)
    methods = READING if (pattern.name or "").startswith("openapi-") else ()
    pattern.callback = problems.in_words(pattern.callback, methods)
    return pattern


_patterns, _, _namespace = api.urls

urlpatterns = [
    re_path(r"^api/?$", problems.in_words(first_page, READING), name="api"),
    path("api/", ([_in_words(pattern) for pattern in _patterns], "ninja", _namespace)),
    re_path(r"^api/", problems.in_words(problems.unknown_address)),
]
