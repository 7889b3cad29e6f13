"""Refusals and errors of the API: problem+json (RFC 9457), saying what to do."""

import errno
import logging
from collections.abc import Callable, Iterable
from functools import wraps
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.exceptions import DisallowedHost, RequestDataTooBig, SuspiciousOperation, TooManyFieldsSent
from django.db import Error as DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, UnreadablePostError
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from retry import headers, responses

from .tiles.errors import (
    LayerBusyError,
    LayerError,
    LayerStorageError,
    NoSpeedsError,
    SupersededError,
    UnknownLayerError,
)

ApiView = Callable[..., HttpResponse]

CHALLENGE = 'Bearer realm="Tarry"'
NO_SUCH_ADDRESS = "There is no such address. /api/docs lists those that there are."
NO_DATABASE = "The database does not answer now. Nothing was changed. Try again."
NO_JSON = "The body is not JSON. Send JSON, or no body at all."
NO_ROOM = "The disk has no room for more. Nothing was changed. The operator knows: try again later."
NO_ROOM_SECONDS = 60
NO_STORAGE = "The storage does not answer now. Nothing was changed. Try again."
NO_TOKEN = "Send a token that is in force: `Authorization: Bearer tarry_…`. The admin issues them, at /admin/."  # noqa: S105
OUR_FAULT = "Something is wrong with this site, and was noted in its log. What was sent may be sound."
PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong, and what to do."},
    },
}

_log = logging.getLogger("tarry.api")


class Problem(Exception):
    """A refusal as an exception. `detail` is for the client."""

    def __init__(self, status: int, detail: str, wait_seconds: float | None = None, **fields: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.wait_seconds = wait_seconds
        self.fields = {name.replace("_", "-"): value for name, value in fields.items()}

    def response(self) -> HttpResponse:
        answer = responses.problem_response(
            self.status, self.detail, wait_seconds=self.wait_seconds, cache_status=_BYPASS
        )
        for name in headers.CORS_HEADERS:
            del answer[name]
        for name, value in self.fields.items():
            answer[name] = value
        return answer


_BYPASS = "Tarry; fwd=bypass"


def add_problem_handlers(api: NinjaAPI) -> None:

    def answer(_: HttpRequest, error: Any) -> HttpResponse:
        return problem_of_error(error).response()

    api.add_exception_handler(Exception, answer)
    for kind in (Http404, HttpError, ValidationError):  # ninja has handlers of its own for these
        api.add_exception_handler(kind, answer)


def problem_of_error(error: Exception) -> Problem:
    match error:
        case Problem():
            return error
        case AuthenticationError():
            return Problem(401, NO_TOKEN, WWW_Authenticate=CHALLENGE)
        case ValidationError(errors=errors):
            return Problem(422, " ".join(map(_error_sentence, errors)))
        case HttpError(status_code=status):
            return Problem(status, NO_JSON if status == 400 else str(error))
        case RequestDataTooBig():
            return Problem(413, "The body is larger than what belongs here.")
        case SuspiciousOperation():
            return Problem(400, describe_refusal(error))
        case UnreadablePostError():
            return Problem(400, "The body ended before its Content-Length. Send it again.")
        case _:
            return _problem_of_layers(error)


def describe_refusal(error: Exception) -> str:
    """Returns the sentence about a request that Django refuses by itself."""
    match error:
        case TooManyFieldsSent():
            most = settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
            return f"A request has at most {most:,} arguments, and as many fields of a form. Send fewer."
        case DisallowedHost():
            return "This host is not in ALLOWED_HOSTS."
        case _:
            return "The request is malformed. Check its address, header fields and body, then send it again."


def _problem_of_layers(error: Exception) -> Problem:
    match error:
        case UnknownLayerError():
            return Problem(404, f"{error} /api/layers lists those that there are.")
        case NoSpeedsError():
            return Problem(409, str(error))
        case SupersededError():
            return Problem(503, str(error), 1)
        case LayerBusyError():
            return Problem(503, str(error), 5)
        case LayerError():
            return Problem(422, f"{error} Nothing was changed.")
        case DatabaseError():
            _log.warning("the database failed", exc_info=error)
            return Problem(503, NO_DATABASE, 1)
        case LayerStorageError() | OSError() if error.errno == errno.EDQUOT:
            _log.warning("the disk has no room", exc_info=error)
            return Problem(503, NO_ROOM, NO_ROOM_SECONDS)
        case LayerStorageError() | OSError():
            _log.warning("the storage failed", exc_info=error)
            return Problem(503, NO_STORAGE, 5)
        case _:
            _log.error("an answer failed", exc_info=error)
            return Problem(500, OUR_FAULT)


def _error_sentence(error: dict[str, Any]) -> str:
    place = ".".join(str(part) for part in error["loc"] if part not in ("body", "query", "path", "part"))
    message = str(error["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{place}: {message}." if place else f"{message}."


def answer_with_problems(view: ApiView, methods: Iterable[str] = ()) -> ApiView:
    """Wraps a view: refuses methods by problems, answers HEAD as GET, and lets no cache keep answers by default."""
    allowed = frozenset(methods)

    @wraps(view)
    def answered(request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponse:
        asked, request.method = request.method, "GET" if request.method == "HEAD" else request.method
        if allowed and request.method not in allowed:
            return _not_allowed(allowed)
        try:
            response = view(request, *arguments, **named)
        finally:
            request.method = asked  # a server leaves the body out of the answer to HEAD
        if isinstance(response, HttpResponseNotAllowed):
            return _not_allowed(response["Allow"].split(", "))
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    answered.csrf_exempt = True  # type: ignore[attr-defined]  # tokens are no cookies: no other site's page has them
    return answered


def _not_allowed(allowed: Iterable[str]) -> HttpResponse:
    names = sorted({*allowed, *(["HEAD"] if "GET" in allowed else [])})
    return Problem(405, f"Answered here: {' and '.join(names)}.", Allow=", ".join(names)).response()


def answer_unknown_address(request: HttpRequest, **_: str) -> HttpResponse:
    return Problem(404, NO_SUCH_ADDRESS).response()


def describe_problems(*statuses: int) -> dict[str, Any]:
    """Returns the OpenAPI description of an operation's problems. Adds 414: any address may be too long for nginx."""
    content = {"application/problem+json": {"schema": PROBLEM_SCHEMA}}
    every = sorted({*statuses, 414})
    return {"responses": {status: {"description": HTTPStatus(status).phrase, "content": content} for status in every}}
