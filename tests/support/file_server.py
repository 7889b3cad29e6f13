"""An origin of files for flows: in a thread, on loopback, with a record of its requests."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .server import Handler, serving

MOST_HELD_SECONDS = 25


@dataclass(slots=True)
class FileServer:
    """Its files by path, all of type HTML, and the requested paths. `etags` are those of some files."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    known: list[tuple[str, str]] = field(default_factory=list)
    """The paths that were requested with an ETag, and that ETag."""
    gate: threading.Event = field(default_factory=threading.Event)
    """Requests are held while it is not set. It is set at first."""


@contextmanager
def running(address: str = "127.0.0.1") -> Iterator[FileServer]:
    books = FileServer()
    books.gate.set()
    with serving(_handler(books), (address, 0)) as books.url:
        yield books


def _handler(books: FileServer) -> type[Handler]:
    class Files(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            books.asked.append(self.path)
            books.gate.wait(MOST_HELD_SECONDS)
            body, etag, known = books.files.get(self.path), books.etags.get(self.path), self.headers["If-None-Match"]
            if known:
                books.known.append((self.path, known))
            fields = {"ETag": etag} if etag else {}
            if known and known == etag:
                self.answer(304, b"", **fields)
            else:
                self.answer(404 if body is None else 200, body or b"", Content_Type="text/html", **fields)

    return Files
