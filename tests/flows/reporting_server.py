"""An origin of files, and a receiver of webhooks, for flows: in a thread, on loopback, with the books of both."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Call:
    """A webhook's call, as it came."""

    path: str
    body: bytes
    headers: dict[str, str]


@dataclass(slots=True)
class ReportingServer:
    """Files at any address but `/missing…`, each of its own path. `troubles` are what calls are answered at first."""

    url: str = ""
    troubles: list[int] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    referers: set[str] = field(default_factory=set)
    calls: list[Call] = field(default_factory=list)


@contextmanager
def running() -> Iterator[ReportingServer]:
    books = ReportingServer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(books))
    books.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield books
    finally:
        server.shutdown()
        server.server_close()


def _handler(books: ReportingServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            books.asked.append(self.path)
            books.referers.add(self.headers.get("Referer", ""))
            path = self.path.partition("?")[0]
            self._answer(404 if path.startswith("/missing") else 200, f"the file {path}\n".encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            books.calls.append(Call(self.path, body, dict(self.headers)))
            self._answer(books.troubles.pop(0) if books.troubles else 200, b"thanks")

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002  as the library calls it

    return Handler
