"""An origin of files, and a receiver of webhooks, for flows: in a thread, on loopback, with the books of both."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .server import Handler, serving


@dataclass(frozen=True, slots=True)
class Call:
    """A webhook's call, as it came."""

    path: str
    body: bytes
    headers: dict[str, str]


@dataclass(slots=True)
class ReportingServer:
    """Files at any address but `/missing…`, each of its own path. `troubles` are its answers to the first calls."""

    url: str = ""
    troubles: list[int] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    referers: set[str] = field(default_factory=set)
    calls: list[Call] = field(default_factory=list)


@contextmanager
def running() -> Iterator[ReportingServer]:
    books = ReportingServer()
    with serving(_handler(books)) as books.url:
        yield books


def _handler(books: ReportingServer) -> type[Handler]:
    class Reporting(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            books.asked.append(self.path)
            books.referers.add(self.headers.get("Referer", ""))
            path = self.path.partition("?")[0]
            self.answer(404 if path.startswith("/missing") else 200, f"the file {path}\n".encode())

        def do_POST(self) -> None:  # noqa: N802  as the library calls it
            body = self.rfile.read(int(self.headers["Content-Length"]))
            books.calls.append(Call(self.path, body, dict(self.headers)))
            self.answer(books.troubles.pop(0) if books.troubles else 200, b"thanks")

    return Reporting
