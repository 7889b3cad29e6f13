"""What is answered where a view or a middleware raised what nobody expected."""

import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.defaults import server_error

from retry import headers, preferences, responses
from retry.errors import StoreUnavailable

AWAY = (OperationalError, InterfaceError, StoreUnavailable)
"""The database or Redis does not answer, or is locked for too long."""
RETRY_SECONDS = 1

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Not now</title></head>
<body><h1>Not now</h1><p>A part of this site does not answer now. Nothing was lost: go back, and try again in a
moment.</p></body>
</html>
"""


def failed(request: HttpRequest) -> HttpResponseBase:
    """503 while something is away, else 500: a problem, or a page where a browser shows it to a person."""
    is_away = isinstance(sys.exception(), AWAY)
    is_shown = preferences.is_navigation(request.headers.get("Sec-Fetch-Mode"), request.headers.get("Accept"))
    if is_away and is_shown:
        return HttpResponse(
            _PAGE, status=503, headers=headers.uncached("Tarry; fwd=bypass; detail=away", RETRY_SECONDS)
        )
    if is_away:
        return responses.not_now("A part of this site does not answer now. Try again later.")
    if is_shown:
        return server_error(request)
    return responses.problem(500, "This site failed. Whoever runs it finds the reason in its log.")
