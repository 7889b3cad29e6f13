"""An origin of files for flows: in a thread, on loopback, with the books of what it was asked."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MOST_HELD_SECONDS = 25


@dataclass(slots=True)
class FileServer:
    """Its files by path, all of which it calls HTML, and the paths that it was asked for."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    """Requests are held while it is not set. It is set at first."""


@contextmanager
def running() -> Iterator[FileServer]:
    books = FileServer()
    books.gate.set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(books))
    books.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield books
    finally:
        server.shutdown()
        server.server_close()


def _handler(books: FileServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            books.asked.append(self.path)
            books.gate.wait(MOST_HELD_SECONDS)
            body = books.files.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002  as the library calls it

    return Handler
