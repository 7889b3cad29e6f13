"""A slow tile server for flows: in a thread, on loopback, with a record of its requests."""

import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from PIL import Image

from .server import Handler, serving

MOST_HELD_SECONDS = 25


@dataclass(slots=True)
class TileServer:
    """Its behaviour, and its requests. Tiles below `/z/x/y.png` are of one colour, which `red` changes."""

    url: str = ""
    seconds: float = 0.3
    status: int = 200
    red: int = 10
    page: bytes = b""
    """What it answers in place of tiles, if anything."""

    headers: dict[str, str] = field(default_factory=lambda: {"Cache-Control": "max-age=3600"})
    gate: threading.Event = field(default_factory=threading.Event)
    """Requests are held while it is not set. It is set at first."""

    asked: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """When each request came, by the monotonic clock."""
    conditional: int = 0
    at_once: int = 0
    peak: int = 0
    """The requests in flight now, and the most so far."""

    _counting: threading.Lock = field(default_factory=threading.Lock)

    @property
    def template(self) -> str:
        return f"{self.url}/{{z}}/{{x}}/{{y}}.png"

    @property
    def tile(self) -> bytes:
        file = io.BytesIO()
        Image.new("RGB", (256, 256), (self.red, 20, 30)).save(file, "png")
        return file.getvalue()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Counts a request while it is in flight."""
        with self._counting:
            self.at_once += 1
            self.peak = max(self.peak, self.at_once)
        try:
            yield
        finally:
            with self._counting:
                self.at_once -= 1


@contextmanager
def running(address: str = "127.0.0.1", **given: object) -> Iterator[TileServer]:
    books = TileServer(**given)  # type: ignore[arg-type]
    books.gate.set()
    with serving(_handler(books), (address, 0)) as books.url:
        yield books


def _handler(books: TileServer) -> type[Handler]:
    class Tiles(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            books.asked.append(self.path)
            books.times.append(time.monotonic())
            with books.counting():
                time.sleep(books.seconds)
                books.gate.wait(MOST_HELD_SECONDS)
            etag = f'"{books.red}"'
            status, body = books.status, (books.page or books.tile) if books.status == 200 else b""
            if status == 200 and self.headers["If-None-Match"] == etag:
                books.conditional += 1
                status, body = 304, b""
            self.answer(status, body, **{**books.headers, "ETag": etag})

    return Tiles
