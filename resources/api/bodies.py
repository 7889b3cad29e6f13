"""Reads request bodies, to the disk or into memory, and the lists of URLs in them.

Checks form, size and compression on the way, and the number of URLs. Does not use them.
"""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar, cast

from django.conf import settings
from django.http import HttpRequest
from ninja import Schema
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from .. import problems
from ..fetch.http import compression
from ..fetch.http.messages import Failure, FetchError
from ..mirror.reports.report import MAX_URLS_PER_LIST
from ..problems import Problem
from ..tiles import compile_process, conf
from ..tiles.data.compiler import SpeedsFormat
from ..tokens import auth
from ..tokens.models import ApiToken

SPEED_FORMS: dict[str, SpeedsFormat] = {
    "text/csv": "csv",
    "application/x-ndjson": "jsonlines",
    "application/jsonl": "jsonlines",
}
BODY_ENCODINGS = ("", "identity", "gzip")
CHUNK_BYTES = 1 << 18
"""Bytes read at a time. Data that cannot be compressed grow by less than that."""


def speed_form(request: HttpRequest) -> SpeedsFormat:
    """Returns the format of the body. Raises Problem for any other."""
    form, known = SPEED_FORMS.get((request.content_type or "").lower()), ", ".join(SPEED_FORMS)
    if form is None:
        raise Problem(415, f"Send speeds as {known}, named in Content-Type.", Accept_Post=known)
    charset = (request.content_params or {}).get("charset", "utf-8").lower()
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise Problem(415, "Send the speeds in UTF-8.")
    return form


@contextmanager
def body_on_disk(request: HttpRequest) -> Iterator[Path]:
    """Gives the path of a file with the decompressed body. Raises Problem, having read no more than is allowed."""
    with compile_process.upload_folder(conf.uploads_folder()) as folder:
        path = folder / "body"
        with path.open("wb") as file:
            _take_body(request, file, conf.layer_limits().max_bytes, "speeds")
        yield path


def read_body(request: HttpRequest, most_bytes: int, what: str) -> bytes:
    """Returns the decompressed body. Raises Problem, naming `what`, having read no more than is allowed."""
    file = io.BytesIO()
    _take_body(request, file, most_bytes, what)
    return file.getvalue()


def _take_body(request: HttpRequest, file: BinaryIO, most_bytes: int, what: str) -> None:
    too_much = Problem(413, f"More than {most_bytes:,} bytes of {what}. Send them in parts.")
    decoder, body, taken = _make_decoder(request), cast(BinaryIO, request), 0  # a request can be read as a file
    try:
        for data in _read_chunks(body, most_bytes + CHUNK_BYTES, too_much):
            for part in decoder.feed(data):
                taken += len(part)
                if taken > most_bytes:
                    raise too_much
                file.write(part)
        decoder.finish()
    except FetchError as error:
        if error.failure is Failure.TOO_BIG:
            raise Problem(413, f"This is {error.detail}. Compress it in one.") from error
        raise Problem(400, "The body is not gzip, or is cut short. Send it again.") from error


def _make_decoder(request: HttpRequest) -> compression.BodyDecoder:
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in BODY_ENCODINGS:
        raise Problem(415, "Send the body uncompressed, or compressed by gzip.", Accept_Encoding="gzip")
    return compression.GzipDecoder(must_be_whole=True) if encoding == "gzip" else compression.PlainDecoder()


def _read_chunks(body: BinaryIO, most_bytes: int, too_much: Problem) -> Iterator[bytes]:
    """Yields the body as it was sent. Raises `too_much` beyond so many bytes: compressed, they may hold no data."""
    read = 0
    while data := body.read(CHUNK_BYTES):
        read += len(data)
        if read > most_bytes:
            raise too_much
        yield data


Described = TypeVar("Described", bound=Schema)


def describe(source: object, form: type[Described], **made: Any) -> Described:
    """Returns an answer of that form: with these values, and the others from the attributes of those names."""
    return form(**made, **{name: getattr(source, name) for name in form.model_fields if name not in made})


EXAMPLE_URLS = ["https://images.example/a.jpg", "https://images.example/b.png?utm_source=x"]
"""URLs of a reserved domain (RFC 2606), because users try examples out."""

Urls = Annotated[list[str], Field(min_length=1, max_length=MAX_URLS_PER_LIST, examples=[EXAMPLE_URLS])]


class ToSign(Schema):
    model_config = ConfigDict(extra="forbid", strict=True)

    urls: Urls


class ToMirror(ToSign):
    """URLs, with settings for all of them."""

    referer: str = Field(default="", description="Sent as Referer to the origins of the URLs.")
    webhook: str = Field(
        default="", description="An http or https address, called by POST when the whole list is settled."
    )


BodyForm = TypeVar("BodyForm", bound=ToSign)


def read_url_list(request: HttpRequest, token: ApiToken, form: type[BodyForm]) -> BodyForm:
    """Returns the body; a bare list stands for its `urls`.

    Raises Problem for a body that is too large, no JSON, or not of the form, and for too many URLs in a minute.
    """
    if request.content_type not in ("application/json", ""):
        raise Problem(415, "Send URLs as application/json, named in Content-Type.", Accept_Post="application/json")
    data = read_body(request, settings.MIRROR_REPORT_MAX_BYTES, "URLs")
    try:
        # Not pydantic's own reader, which refuses half surrogates: one such URL would refuse the whole list.
        given = json.loads(data)
        body = form.model_validate({"urls": given} if isinstance(given, list) else given)
    except ValidationError as error:
        raise Problem(422, _first_error(error)) from error
    except (ValueError, RecursionError) as error:
        raise Problem(400, problems.NO_JSON) from error
    if wait_seconds := auth.seconds_to_wait_for_urls(token.pk, len(body.urls), datetime.now(UTC).timestamp()):
        raise Problem(429, f"This token sent too many URLs in this minute. Wait {wait_seconds:.0f} s.", wait_seconds)
    return body


def describe_list_body(form: type[ToSign], example: Any) -> dict[str, Any]:
    schema = {"anyOf": [form.json_schema(), TypeAdapter(Urls).json_schema()]}
    content = {"application/json": {"schema": schema, "example": example}}
    text = f"May be compressed: `Content-Encoding: gzip`. At most {MAX_URLS_PER_LIST:,} URLs."
    return {"requestBody": {"required": True, "description": text, "content": content}}


def _first_error(error: ValidationError) -> str:
    """Returns the first error: there may be ten thousand."""
    found = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, found["loc"]))
    message = found["msg"].rstrip(".")
    return f"{place}: {message}." if place else f"{message}."
