"""An origin for flows whose answers depend on the request: by method, by secrets. In threads, on loopback."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from hashlib import sha256

from .server import Handler, serving

MOST_HELD_SECONDS = 25
PUBLIC, PAGE_OF_HUB = b"for everybody\n", b"a page about the hub\n"
PUBLISHED = formatdate(usegmt=True)


@dataclass(frozen=True, slots=True)
class Question:
    """A request as it came."""

    method: str
    path: str
    is_authorised: bool = False


@dataclass(slots=True)
class GuardedServer:
    """`/feed` is a feed for those with a password, `/open` one that names the hub at `/hub`; `/large` is one of `size`.

    While the gate is closed, requests with a password, requests to the hub, and the first for `/large` are held.
    """

    url: str = ""
    size: int = 0
    gate: threading.Event = field(default_factory=threading.Event)
    asked: list[Question] = field(default_factory=list)

    @property
    def private(self) -> bytes:
        return rss("for ann alone")

    @property
    def large(self) -> bytes:
        return rss("large", "x" * self.size)

    @property
    def large_digest(self) -> str:
        return sha256(self.large).hexdigest()


def rss(title: str, text: str = "") -> bytes:
    entry = f"<item><guid>1</guid><title>{title}</title><pubDate>{PUBLISHED}</pubDate></item>"
    return f"<rss version='2.0'><!--{text}--><channel><title>{title}</title>{entry}</channel></rss>".encode()


@contextmanager
def running(address: str = "127.0.0.1") -> Iterator[GuardedServer]:
    books = GuardedServer()
    with serving(_handler(books), (address, 0)) as books.url:
        yield books
        books.gate.set()


def _handler(books: GuardedServer) -> type[Handler]:
    class Guarded(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            asked = Question("GET", self.path, "Authorization" in self.headers)
            is_first = asked not in books.asked
            books.asked.append(asked)
            if asked.is_authorised or (self.path == "/large" and is_first):
                books.gate.wait(MOST_HELD_SECONDS)
            match self.path:
                case "/feed":
                    self.answer(200, books.private if asked.is_authorised else PUBLIC)
                case "/open":
                    links = f'<{books.url}/hub>; rel="hub", <{books.url}/open>; rel="self"'
                    self.answer(200, rss("open"), Link=links, Content_Type="application/rss+xml")
                case "/large":
                    self.answer(200, books.large, Content_Type="application/rss+xml")
                case _:
                    self.answer(200, PAGE_OF_HUB)

        def do_POST(self) -> None:  # noqa: N802  as the library calls it
            self.rfile.read(int(self.headers["Content-Length"]))
            books.asked.append(Question("POST", self.path))
            books.gate.wait(MOST_HELD_SECONDS)
            self.answer(202, b"accepted")

    return Guarded
