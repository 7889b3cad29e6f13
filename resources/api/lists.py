"""Lists of URLs as the API takes them: read, bounded, counted. Knows nothing of what is done with them."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from django.conf import settings
from django.http import HttpRequest
from ninja import Schema
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from resources.api.models import ApiToken
from resources.mirroring.reporting.reports import MOST_URLS

from . import bodies, problems, throttling
from .problems import Problem

EXAMPLE = ["https://images.example/a.jpg", "https://images.example/b.png?utm_source=x"]
"""Of a domain that nobody has (RFC 2606): examples are tried out."""

Urls = Annotated[list[str], Field(min_length=1, max_length=MOST_URLS, examples=[EXAMPLE])]


class ToSign(Schema):
    model_config = ConfigDict(extra="forbid", strict=True)

    urls: Urls


class ToMirror(ToSign):
    """URLs, with what holds for all of them."""

    referer: str = Field(default="", description="Sent as Referer to the origins of the URLs.")
    webhook: str = Field(
        default="", description="An http or https address, called by POST when nothing of the list is open any more."
    )


Form = TypeVar("Form", bound=ToSign)


def read(request: HttpRequest, token: ApiToken, form: type[Form]) -> Form:
    """The body; a bare list stands for its `urls`.

    Raises Problem for one that is too large, no JSON, not of the form, or too many URLs in a minute.
    """
    if request.content_type not in ("application/json", ""):
        raise Problem(415, "Send URLs as application/json, named in Content-Type.", Accept_Post="application/json")
    data = bodies.in_memory(request, settings.MIRROR_REPORT_MAX_BYTES, "URLs")
    try:
        # Not pydantic's own reader, which refuses half surrogates: one such URL would refuse the whole list.
        given = json.loads(data)
        body = form.model_validate({"urls": given} if isinstance(given, list) else given)
    except ValidationError as error:
        raise Problem(422, _first(error)) from error
    except (ValueError, RecursionError) as error:
        raise Problem(400, problems.NO_JSON) from error
    _throttle(token, len(body.urls))
    return body


def described(form: type[ToSign], example: Any) -> dict[str, Any]:
    """What the OpenAPI description says of the body."""
    schema = {"anyOf": [form.json_schema(), TypeAdapter(Urls).json_schema()]}
    content = {"application/json": {"schema": schema, "example": example}}
    text = f"May be compressed: `Content-Encoding: gzip`. At most {MOST_URLS:,} URLs."
    return {"requestBody": {"required": True, "description": text, "content": content}}


def _first(error: ValidationError) -> str:
    """The first thing that is wrong: ten thousand may be."""
    found = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, found["loc"]))
    message = found["msg"].rstrip(".")
    return f"{place}: {message}." if place else f"{message}."


def _throttle(token: ApiToken, number: int) -> None:
    wait_seconds = throttling.seconds_to_wait_for_urls(token.pk, number, datetime.now(UTC).timestamp())
    if wait_seconds:
        raise Problem(429, f"This token sent too many URLs in this minute. Wait {wait_seconds:.0f} s.", wait_seconds)
