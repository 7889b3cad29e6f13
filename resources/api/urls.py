"""The URLs of the API, and its description in OpenAPI."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, URLResolver, path, re_path
from django.utils.module_loading import import_string
from ninja import NinjaAPI
from ninja.openapi.docs import ABS_TPL_PATH, Swagger
from ninja.operation import Operation

from .. import problems
from . import (
    files,
    layers,
    reports,  # noqa: F401  # some add to a shared router
)

DESCRIPTION = """Reads and changes the layers of this site, mirrors files by their URLs, and manages feeds.

Changes need a token, issued in the admin: `Authorization: Bearer …`.
Errors are `application/problem+json` (RFC 9457); `detail` tells the remedy.
"""
READ_METHODS = ("GET", "HEAD")


class _ApiPage(Swagger):
    """The page of the API with the scripts of this site: ninja, which is no app here, would name another site's."""

    template_cdn = str(ABS_TPL_PATH / "swagger.html")


class _Api(NinjaAPI):
    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__


api = _Api(title="Tarry", version="1", description=DESCRIPTION, urls_namespace="api", docs=_ApiPage())
api.add_router("", layers.router)
api.add_router("", files.router)
for _path in settings.API_ROUTERS:
    api.add_router("", import_string(_path))
problems.add_problem_handlers(api)


def redirect_to_docs(request: HttpRequest) -> HttpResponse:
    return redirect("api:openapi-view")


def _wrap_pattern(pattern: URLPattern | URLResolver) -> URLPattern:
    """Wraps ninja's views, which answer methods by themselves; its pages are for reading."""
    assert isinstance(pattern, URLPattern)
    methods = READ_METHODS if (pattern.name or "").startswith("openapi-") else ()
    pattern.callback = problems.answer_with_problems(pattern.callback, methods)
    return pattern


_patterns, _, _namespace = api.urls

urlpatterns = [
    re_path(r"^api/?$", problems.answer_with_problems(redirect_to_docs, READ_METHODS), name="api"),
    path("api/", ([_wrap_pattern(pattern) for pattern in _patterns], "ninja", _namespace)),
    re_path(r"^api/", problems.answer_with_problems(problems.answer_unknown_address)),
]
