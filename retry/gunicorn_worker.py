"""The gunicorn worker class of the waiting instance: a reload, a shutdown or a lost master loses no client.

gunicorn's master imports this module and keeps it. The module must not load the application: a reload would go
on with the old code.
"""

import gc
import logging
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import Server
from uvicorn_worker import UvicornWorker

from .headers import MALFORMED_ANSWER, NO_FRONT_ANSWER

ORPHAN_TICKS = 100
"""The longest wait for a successor after the master was killed, in tenths of a second."""


class ReleasingServer(Server):
    """Stops listening, then answers all waiting clients, then shuts down.

    In this order a returning client finds the successor, not this process.
    """

    def __init__(self, config: Config, *, release: Callable[[], None], master: int, addresses: Sequence[Any]) -> None:
        super().__init__(config)
        self._release = release
        self._master = master
        self._addresses = addresses
        self._files = _socket_files(addresses)
        self._orphan_ticks = 0

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._is_superseded()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for listening in sockets or ():
            listening.close()
        self._release()
        await super().shutdown(sockets)

    def _is_superseded(self) -> bool:
        """Tells whether the master was killed and its successor listens by now, or none will come."""
        if os.getppid() == self._master:
            return False
        self._orphan_ticks += 1
        return not self._files or _socket_files(self._addresses) != self._files or self._orphan_ticks > ORPHAN_TICKS


REFUSED_SECONDS = 1.0
"""The time that a refused client has to read its answer before its connection ends."""


class ProblemProtocol(HttpToolsProtocol):
    """Answers a malformed request by a problem. The fields of such a request are not known: nobody gets a page.

    Refuses at once, by 403, connections over TCP from other machines than the site's fronts.
    """

    _is_refused = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        application: Any = self.config.app
        if isinstance(peer, tuple) and not application.admits(peer[0]):
            self._is_refused = True
            transport.write(NO_FRONT_ANSWER)
            self.loop.call_later(REFUSED_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        if not self._is_refused:
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        self.transport.write(MALFORMED_ANSWER)
        self.transport.close()


class RetryWorker(UvicornWorker):  # type: ignore[misc]  # an untyped library
    CONFIG_KWARGS = {
        "loop": "uvloop",
        "http": ProblemProtocol,
        "lifespan": "on",
        "ws": "none",
        "access_log": False,
        "proxy_headers": False,  # asgi.py reads addresses itself; a wrapper would cost 0.3 KB per waiting client
    }

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        logger = logging.getLogger("uvicorn.error")  # it gets gunicorn's handlers, but gunicorn has none
        logger.handlers, logger.propagate = [], True

    async def _serve(self) -> None:
        self.config.app = self.wsgi
        addresses = [listening.getsockname() for listening in self.sockets]
        server = ReleasingServer(self.config, release=self.wsgi.close, master=self.ppid, addresses=addresses)
        self._install_sigquit_handler()
        gc.freeze()  # collections would visit all loaded objects and copy pages shared with the master
        await server.serve(sockets=self.sockets)
        if not server.started:
            raise SystemExit(3)  # gunicorn's WORKER_BOOT_ERROR: it does not start the worker again and again


def _socket_files(addresses: Sequence[Any]) -> list[tuple[int, int]]:
    """Inode and change time of unix sockets, which tell them from their replacements: inodes are used again."""
    paths = [Path(address) for address in addresses if isinstance(address, str)]
    found = [path.stat() for path in paths if path.exists()]
    return [(file.st_ino, file.st_ctime_ns) for file in found]
