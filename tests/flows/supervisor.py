"""XML-RPC with the stack's supervisord, over its unix socket."""

import socket
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from xmlrpc.client import ServerProxy, Transport

PATIENCE_SECONDS = 60


def supervisor(path: Path) -> ServerProxy:
    """A proxy for the supervisord that listens there. Close it, or use it in a `with`."""
    return ServerProxy("http://supervisor", transport=_UnixTransport(path))


class _UnixTransport(Transport):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def make_connection(self, host: Any) -> HTTPConnection:
        connection = HTTPConnection("supervisor")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE_SECONDS)
        connection.sock.connect(str(self._path))
        self._connection = host, connection  # close() closes this one
        return connection
