"""What a view says when the layers cannot be read: a refusal for a second, as for anything that is away."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse

from retry import responses

Arguments = ParamSpec("Arguments")
View = Callable[Concatenate[HttpRequest, Arguments], HttpResponse]


def told(view: View[Arguments]) -> View[Arguments]:
    """The view, with 503 in place of a DatabaseError that it raises. Asks nothing again."""

    @wraps(view)
    def answered(request: HttpRequest, /, *given: Arguments.args, **named: Arguments.kwargs) -> HttpResponse:
        try:
            return view(request, *given, **named)
        except DatabaseError:
            return responses.problem(503, "The layers cannot be read now.", wait_seconds=1)

    return answered
