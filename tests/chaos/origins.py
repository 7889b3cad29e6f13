"""The servers that the site fetches from: their contents follow from the addresses, and they can be switched off."""

import hashlib
import io
import ssl
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache

from PIL import Image

from ..support.server import Handler, serving

FILE_BYTES, HEAVY_BYTES, LARGE_BYTES = 3000, 500_000, 8_000_000
HEAVY_PIECES, HEAVY_SECONDS = 10, 0.5
"""The number of pieces of a heavy file, and its duration: its fetcher may be killed meanwhile."""
HEAVY = "/files/heavy/"
FEEDS = "/feeds/"
ENTRIES = ("one", "two")


def file_at(path: str) -> bytes:
    """The content at `/files/…`: another one at each path. Fetchers take in heavy ones on the disk."""
    digest = hashlib.sha256(path.encode()).hexdigest().encode()
    size = HEAVY_BYTES if path.startswith(HEAVY) else FILE_BYTES
    return (digest * (size // len(digest) + 1))[:size]


@lru_cache(4096)
def tile_at(path: str) -> bytes:
    """The tile at `/tiles/<z>/<x>/<y>.png`: of one colour, another at each path."""
    red, green, blue = hashlib.sha256(path.encode()).digest()[:3]
    file = io.BytesIO()
    Image.new("RGB", (256, 256), (red, green, blue)).save(file, "png")
    return file.getvalue()


@dataclass(slots=True)
class Origin:
    """A server at an address of its own. `more` are further parts of its feeds."""

    host: str
    tls: ssl.SSLContext | None = None
    url: str = ""
    more: str = ""
    is_away: bool = False
    editions: dict[str, int] = field(default_factory=dict)
    asked: dict[str, list[float]] = field(default_factory=dict)
    """The times of requests for each feed, in seconds of the monotonic clock. Other requests are not recorded."""
    _open: ExitStack = field(default_factory=ExitStack)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def come(self) -> None:
        """Listens, from the second time on at the same port."""
        self.is_away = False
        port = self.port if self.url else 0
        self.url = self._open.enter_context(serving(_handler(self), (self.host, port), self.tls))

    def go(self) -> None:
        """Connections are refused; connected clients are answered nothing more."""
        self.is_away = True
        self._open.close()

    def edit(self, path: str) -> int:
        with self._lock:
            self.editions[path] = self.editions.get(path, 0) + 1
            return self.editions[path]

    def note(self, path: str) -> None:
        if path.startswith(FEEDS):
            with self._lock:
                self.asked.setdefault(path, []).append(time.monotonic())

    def body(self, path: str) -> bytes:
        kind = path.split("/")[1]
        match kind:
            case "files":
                return file_at(path)
            case "tiles":
                return tile_at(path.removeprefix("/tiles"))
            case "large":
                return bytes(LARGE_BYTES)
            case _:
                return self._feed(path)

    def _feed(self, path: str) -> bytes:
        edition = self.editions.get(path, 0)
        items = "".join(
            f"<item><guid isPermaLink='false'>{path}/{name}</guid><title>{path} {name} {edition}</title></item>"
            for name in ENTRIES
        )
        return f"<rss version='2.0'><channel><title>{path}</title>{self.more}{items}</channel></rss>".encode()


def _handler(origin: Origin) -> type[Handler]:
    class Everything(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            origin.note(self.path)
            self.close_connection = True  # so that its name and its certificate matter each time
            if origin.is_away:
                return
            body = origin.body(self.path.partition("?")[0])
            types = {"files": "text/plain", "tiles": "image/png", "feeds": "application/rss+xml"}
            content_type = types.get(self.path.split("/")[1], "text/plain")
            self.begin(200, len(body), Content_Type=content_type, Cache_Control="max-age=3600", Connection="close")
            is_heavy = self.path.startswith(HEAVY)
            step = len(body) // HEAVY_PIECES if is_heavy else len(body)
            for place in range(0, len(body), step):
                self.wfile.write(body[place : place + step])
                time.sleep(HEAVY_SECONDS / HEAVY_PIECES if is_heavy else 0)

    return Everything
