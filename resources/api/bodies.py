"""Takes the body of a request, to the disk or into memory: its form, size and compression are checked on the way."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from django.http import HttpRequest

from resources.fetching.errors import FetchError
from resources.fetching.outcomes import Failure
from resources.fetching.transport import decoding
from resources.tiles import conf
from resources.tiles.keeping import uploads
from resources.tiles.reading.patching import Form

from .problems import Problem

FORMS: dict[str, Form] = {
    "text/csv": "csv",
    "application/x-ndjson": "jsonlines",
    "application/jsonl": "jsonlines",
}
ENCODINGS = ("", "identity", "gzip")
CHUNK_BYTES = 1 << 18
"""Read at a time. What cannot be compressed may come by less than that larger than it is."""


def form_of(request: HttpRequest) -> Form:
    """How the body is written. Raises Problem for what is not read here."""
    form = FORMS.get((request.content_type or "").lower())
    if form is None:
        raise Problem(415, f"Send speeds as {', '.join(FORMS)}, named in Content-Type.", Accept_Post=", ".join(FORMS))
    charset = (request.content_params or {}).get("charset", "utf-8").lower()
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise Problem(415, "Send the speeds in UTF-8.")
    return form


@contextmanager
def on_disk(request: HttpRequest) -> Iterator[Path]:
    """The path of a file that holds the body, decompressed. Raises Problem, having read no more than is allowed."""
    with uploads.folder(conf.uploads()) as folder:
        path = folder / "body"
        with path.open("wb") as file:
            _take(request, file, conf.limits().max_bytes, "speeds")
        yield path


def in_memory(request: HttpRequest, most_bytes: int, what: str) -> bytes:
    """The body, decompressed. Raises Problem, having read no more than is allowed; `what` names what is too much."""
    file = io.BytesIO()
    _take(request, file, most_bytes, what)
    return file.getvalue()


def _take(request: HttpRequest, file: BinaryIO, most_bytes: int, what: str) -> None:
    too_much = Problem(413, f"More than {most_bytes:,} bytes of {what}. Send them in parts.")
    decoder, body, taken = _decoder(request), cast(BinaryIO, request), 0  # a request can be read as a file
    with _refused():
        for data in _chunks(body, most_bytes + CHUNK_BYTES, too_much):
            for part in decoder.feed(data):
                taken += len(part)
                if taken > most_bytes:
                    raise too_much
                file.write(part)
        decoder.finish()


def _decoder(request: HttpRequest) -> decoding.Decoder:
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ENCODINGS:
        raise Problem(415, "Send the body compressed by gzip, or not at all.", Accept_Encoding="gzip")
    return decoding.Gzip(must_be_whole=True) if encoding == "gzip" else decoding.Plain()


def _chunks(body: BinaryIO, most_bytes: int, too_much: Problem) -> Iterator[bytes]:
    """The body as it was sent. Raises `too_much` beyond so many bytes: compressed, they can say nothing at all."""
    read = 0
    while data := body.read(CHUNK_BYTES):
        read += len(data)
        if read > most_bytes:
            raise too_much
        yield data


@contextmanager
def _refused() -> Iterator[None]:
    """Says in Problems what is wrong with what is compressed."""
    try:
        yield
    except FetchError as error:
        if error.failure is Failure.TOO_BIG:
            raise Problem(413, f"This is {error.detail}. Compress it in one.") from error
        raise Problem(400, "The body is not gzip, or not all of it. Send it again.") from error
