"""What a view says when the database cannot be read: a refusal for a second, as for anything that is away."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from retry import responses

Arguments = ParamSpec("Arguments")
Response = TypeVar("Response", bound=HttpResponseBase)
View = Callable[Concatenate[HttpRequest, Arguments], Response]


def told(view: View[Arguments, Response]) -> View[Arguments, Response | HttpResponse]:
    """The view, with 503 in place of a DatabaseError that it raises. Asks nothing again."""

    @wraps(view)
    def answered(request: HttpRequest, /, *given: Arguments.args, **named: Arguments.kwargs) -> Response | HttpResponse:
        try:
            return view(request, *given, **named)
        except DatabaseError:
            return responses.problem(503, "The database cannot be read now.", wait_seconds=1)

    return answered
