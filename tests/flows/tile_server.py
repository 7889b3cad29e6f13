"""A slow tile server for flows: in a thread, on loopback, with the books of what it was asked."""

import io
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from PIL import Image

MOST_HELD_SECONDS = 25


@dataclass(slots=True)
class TileServer:
    """What it does, and what it was asked. Tiles below `/z/x/y.png` are of one colour, which `red` makes anew."""

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
    conditional: int = 0

    @property
    def template(self) -> str:
        return f"{self.url}/{{z}}/{{x}}/{{y}}.png"

    @property
    def tile(self) -> bytes:
        file = io.BytesIO()
        Image.new("RGB", (256, 256), (self.red, 20, 30)).save(file, "png")
        return file.getvalue()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # who goes away is no news
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def running(**given: object) -> Iterator[TileServer]:
    books = TileServer(**given)  # type: ignore[arg-type]
    books.gate.set()
    server = _Server(("127.0.0.1", 0), _handler(books))
    books.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield books
    finally:
        server.shutdown()
        server.server_close()


def _handler(books: TileServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            books.asked.append(self.path)
            time.sleep(books.seconds)
            books.gate.wait(MOST_HELD_SECONDS)
            etag = f'"{books.red}"'
            status, body = books.status, (books.page or books.tile) if books.status == 200 else b""
            if status == 200 and self.headers["If-None-Match"] == etag:
                books.conditional += 1
                status, body = 304, b""
            self.send_response(status)
            for name, value in {**books.headers, "ETag": etag}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002  as the library calls it

    return Handler
