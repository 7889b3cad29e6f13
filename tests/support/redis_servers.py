"""Real Redis servers for tests, on unix sockets in a directory of their own."""

import subprocess
import time
from pathlib import Path

import redis


class RedisServer:
    """One server. It dies with the process that started it."""

    def __init__(self, socket: Path, *options: str) -> None:
        self.socket = socket
        self._options = options
        self.process: subprocess.Popen[bytes] | None = None
        self.client = redis.Redis(unix_socket_path=str(socket), socket_timeout=10)

    def start(self) -> None:
        command = ["redis-server", "--port", "0", "--unixsocket", str(self.socket), "--save", "", "--dir"]
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command, str(self.socket.parent), *self._options],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while not self._answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"redis-server did not start on {self.socket}")
            time.sleep(0.01)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False
