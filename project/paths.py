"""The paths of an installation's files. Creates none of them."""

import hashlib
import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent


class DataDirectory:
    """The files that outlive a restart."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.database = root / "db.sqlite3"
        self.blobs = root / "blobs"
        self.held = root / "held"
        self.hot = root / "hot"
        self.spool = root / "spool"
        self.uploads = root / "uploads"
        self.logs = root / "logs"
        self.traffic = self.logs / "traffic.log"
        self.state = root / "state"
        self.static = root / "static"
        self.collected = root / "static.sha256"
        self.machine = root / "machine"
        self.secret_key = root / "secret_key"
        self.lock = root / "run.lock"
        self.environment = root / "environment.json"
        self.demo_loaded = root / "demo_loaded"
        self.release_lock = root / "release.lock"
        self.disk_account = root / "disk_account"
        self.disk_shares = root / "disk_shares.json"


class RuntimeDirectory:
    """Sockets and rendered configurations. Its path is short: a unix socket's may have 107 bytes at most."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.metrics = root / "metrics"
        self.nginx = root / "nginx"
        self.nginx_pid = self.nginx / "nginx.pid"
        self.draining = root / "draining"
        self.supervisor = root / "supervisord.conf"
        self.machine = root / "machine.json"

    def redis_configuration(self, name: str) -> Path:
        return self.root / f"{name}.conf"

    def socket(self, name: str) -> Path:
        return self.root / f"{name}.sock"


def runtime_directory(data: Path) -> RuntimeDirectory:
    digest = hashlib.sha256(str(data.resolve()).encode()).hexdigest()[:12]
    return RuntimeDirectory(Path(f"/tmp/tarry-{os.getuid()}-{digest}"))  # noqa: S108  owner and mode are checked at use
