"""Servers of feeds for flows: in threads, on loopback, with one record of their requests."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from .server import Handler, serving

MOST_HELD_SECONDS = 25


@dataclass(slots=True)
class FeedServers:
    """Their contents and their requests. Every path is a feed, with entries of the names in `names`.

    Titles of entries end with the `edition`.
    """

    urls: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=lambda: ["one", "two"])
    edition: str = "first"
    more: str = ""
    """What else a feed says of itself."""
    gate: threading.Event = field(default_factory=threading.Event)
    """Requests are held while it is not set: of `held` alone, if that names any paths. It is set at first."""
    held: frozenset[str] = frozenset()
    asked: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)

    def body(self, path: str) -> bytes:
        items = "".join(
            f"<item><guid isPermaLink='false'>{path}/{name}</guid><title>{path}/{name} {self.edition}</title></item>"
            for name in self.names
        )
        return f"<rss version='2.0'><channel><title>{path}</title>{self.more}{items}</channel></rss>".encode()


@contextmanager
def running(number: int, address: str = "127.0.0.1") -> Iterator[FeedServers]:
    """So many feeds, each at a host of its own."""
    books = FeedServers()
    books.gate.set()
    with ExitStack() as stack:
        books.urls = [stack.enter_context(serving(_handler(books), (address, 0))) for _ in range(number)]
        yield books


def _handler(books: FeedServers) -> type[Handler]:
    class Feeds(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            books.asked.append(self.path)
            if not books.held or self.path in books.held:
                books.gate.wait(MOST_HELD_SECONDS)
            body = books.body(self.path)
            etag = f'"{hash(body)}"'
            if self.headers["If-None-Match"] == etag:
                self.send_response(304)
                self.send_header("ETag", etag)
                self.end_headers()
                return
            books.bodies.append(self.path)
            self.answer(200, body, ETag=etag, Content_Type="application/rss+xml")

    return Feeds
