"""Where a Tarry's files are. Creates none of them."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """What outlives a restart."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "db.sqlite3"

    @property
    def blobs(self) -> Path:
        return self.root / "blobs"

    @property
    def held(self) -> Path:
        return self.root / "held"

    @property
    def hot(self) -> Path:
        return self.root / "hot"

    @property
    def spool(self) -> Path:
        return self.root / "spool"

    @property
    def uploads(self) -> Path:
        return self.root / "uploads"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def traffic(self) -> Path:
        return self.logs / "traffic.log"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def static(self) -> Path:
        return self.root / "static"

    @property
    def collected(self) -> Path:
        return self.root / "static.sha256"

    @property
    def secret_key(self) -> Path:
        return self.root / "secret_key"

    @property
    def lock(self) -> Path:
        return self.root / "run.lock"

    @property
    def environment(self) -> Path:
        return self.root / "environment.json"

    @property
    def demo_loaded(self) -> Path:
        return self.root / "demo_loaded"


@dataclass(frozen=True, slots=True)
class RuntimeDirectory:
    """Sockets and rendered configurations. Its path is short: a unix socket's may have 107 bytes at most."""

    root: Path

    def socket(self, name: str) -> Path:
        return self.root / f"{name}.sock"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics"

    @property
    def nginx(self) -> Path:
        return self.root / "nginx"

    @property
    def nginx_pid(self) -> Path:
        return self.nginx / "nginx.pid"

    @property
    def supervisor(self) -> Path:
        return self.root / "supervisord.conf"


def runtime_directory(data: Path) -> RuntimeDirectory:
    """The runtime directory that belongs to a data directory and this user."""
    digest = hashlib.sha256(str(data.resolve()).encode()).hexdigest()[:12]
    return RuntimeDirectory(Path(f"/tmp/tarry-{os.getuid()}-{digest}"))  # noqa: S108  owner and mode are checked at use
