"""Takes the body of a request, to the disk or into memory: its form, size and compression are checked on the way."""

import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import BadGzipFile, GzipFile
from pathlib import Path
from typing import BinaryIO, cast

from django.http import HttpRequest

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
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ENCODINGS:
        raise Problem(415, "Send the body compressed by gzip, or not at all.", Accept_Encoding="gzip")
    body = cast(BinaryIO, request)  # it can be read as one
    source = GzipFile(fileobj=body, mode="rb") if encoding == "gzip" else body
    try:
        taken = 0
        while chunk := source.read(CHUNK_BYTES):
            taken += len(chunk)
            if taken > most_bytes:
                raise Problem(413, f"More than {most_bytes:,} bytes of {what}. Send them in parts.")
            file.write(chunk)
    except (BadGzipFile, EOFError, zlib.error) as error:
        raise Problem(400, "The body is not gzip, or not all of it. Send it again.") from error
