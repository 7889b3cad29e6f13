"""Small servers for flows: in a thread, on loopback. The handler makes their answers."""

import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ENDS_WITHIN_SECONDS = 0.05


class Handler(BaseHTTPRequestHandler):
    """Keeps connections open, and logs nothing."""

    protocol_version = "HTTP/1.1"

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        """Sends an answer; `Content_Type` becomes Content-Type."""
        self.begin(status, len(body), **headers)
        self.wfile.write(body)

    def begin(self, status: int, size: int, **headers: str) -> None:
        """Sends the head of an answer with so many bytes to come."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002  as the library calls it


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # clients come by the hundred: by default five may wait

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], (ConnectionError, ssl.SSLError)):  # a client that goes away is no news
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def serving(
    handler: type[Handler], address: tuple[str, int] = ("127.0.0.1", 0), tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """A server that hands its requests to that handler, and its URL."""
    server = _Server(address, handler)
    if tls:  # hands are shaken in the thread of the connection
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, args=(ENDS_WITHIN_SECONDS,), daemon=True).start()
    try:
        yield f"{'https' if tls else 'http'}://{address[0]}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
