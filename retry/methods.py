"""The methods by which content is asked for: GET and HEAD, and a browser's OPTIONS from another origin."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from . import headers, responses

Arguments = ParamSpec("Arguments")
Response = TypeVar("Response", bound=HttpResponseBase)
View = Callable[Concatenate[HttpRequest, Arguments], Response]


def read_only(view: View[Arguments, Response]) -> View[Arguments, Response | HttpResponse]:
    """Leaves GET and HEAD to the view, and answers all other methods. Nothing is changed, so CSRF is not checked."""

    @wraps(view)
    def answered(request: HttpRequest, /, *given: Arguments.args, **named: Arguments.kwargs) -> Response | HttpResponse:
        return answer_other(request) or view(request, *given, **named)

    return csrf_exempt(answered)


def answer_other(request: HttpRequest) -> HttpResponse | None:
    """The answer to any method but GET and HEAD; None for these."""
    match request.method:
        case "GET" | "HEAD":
            return None
        case "OPTIONS":
            return HttpResponse(status=204, headers={**headers.PREFLIGHT, **headers.uncached("Tarry; fwd=bypass")})
        case _:
            return responses.not_allowed()
