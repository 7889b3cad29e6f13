"""gunicorn's worker class for the waiting instance: a reload or shutdown loses nobody."""

import socket

from uvicorn.server import Server
from uvicorn_worker import UvicornWorker

from .asgi import application


class ReleasingServer(Server):
    """Stops listening, then answers everyone who waits, then shuts down.

    In this order: whoever comes back finds the successor, not this process.
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for listening in sockets or ():
            listening.close()
        application.close()
        await super().shutdown(sockets)


class RetryWorker(UvicornWorker):  # type: ignore[misc]  # an untyped library
    CONFIG_KWARGS = {"loop": "uvloop", "http": "httptools", "lifespan": "on", "ws": "none", "access_log": False}

    async def _serve(self) -> None:
        self.config.app = self.wsgi
        server = ReleasingServer(config=self.config)
        self._install_sigquit_handler()
        await server.serve(sockets=self.sockets)
        if not server.started:
            raise SystemExit(3)  # gunicorn's WORKER_BOOT_ERROR: it does not start the worker again and again
