"""An origin for the front: it answers with the request it got, and behaves as a test wants."""

import json
import os
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ..support.server import Handler

HOT = {"Cache-Control": "public, max-age=1, s-maxage=60"}
PRIVATE = {"Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The origin's answer. Without a body it repeats the request."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: dict(HOT))
    body: bytes | None = None
    hang_up: bool = False
    goes_on: threading.Event | None = None
    """Its connection stays open until then: what its length promises more does not come."""


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    target: str
    headers: dict[str, str]


class Origin:
    """Listens on a unix socket, as an instance of the site does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread: threading.Thread | None = None
        self.renew()

    def renew(self) -> None:
        """Forgets all requests and the last test's answer, and listens."""
        self.asked: list[Asked] = []
        self.answer: Callable[[Asked], Answer] = lambda _: Answer()
        if self._thread is None:
            self._server = _Server(str(self._path), self)
            self._thread = threading.Thread(target=self._server.serve_until_closed, daemon=True)
            self._thread.start()

    def close(self) -> None:
        if self._thread is not None:
            self._server.socket.shutdown(socket.SHUT_RDWR)
            self._thread.join()
            self._server.server_close()
            self._thread = None
            self._path.unlink(missing_ok=True)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, origin: Origin) -> None:
        self.origin = origin
        super().__init__(path, _Handler)
        os.chmod(path, 0o600)

    def serve_until_closed(self) -> None:
        """Waits for connections without waking now and then, as serve_forever does."""
        with suppress(OSError):
            while True:
                self.process_request(*self.get_request())


class _Handler(Handler):
    def do_GET(self) -> None:  # noqa: N802  as the library calls it
        assert isinstance(self.server, _Server)
        origin = self.server.origin
        asked = Asked(self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
        self.rfile.read(int(self.headers.get("Content-Length", 0)))  # else the proxy fails to send it, now and then
        origin.asked.append(asked)
        answer = origin.answer(asked)
        self.close_connection = True
        if answer.hang_up:
            return
        body = answer.body
        if body is None:
            body = json.dumps([asked.target, asked.headers.get("host")]).encode()
        self.send_response(answer.status)
        for name, value in {"Content-Length": str(len(body)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            if answer.goes_on is not None:
                answer.goes_on.wait(30)

    do_HEAD = do_POST = do_OPTIONS = do_GET  # noqa: N815
