"""A module of the benchmarks in a process of its own, with an empty database and an empty Redis and nothing else."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.redis_servers import RedisServer
from tests.support.stack import ROOT

SETTINGS = "project.settings"
SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"


def printed(module: str, *arguments: str, database: str = SQLITE, **settings: str) -> str:
    """Returns its output. Raises CalledProcessError, also if PostgreSQL is wanted and not installed."""
    with TemporaryDirectory() as directory:
        state = RedisServer(Path(directory) / "state.sock", "--maxmemory-policy", "noeviction")
        environment = {**os.environ, "DATA_DIR": directory, "SECRET_KEY": "for this run", "DEMO": "0"}
        environment |= {"DATABASE_URL": f"sqlite:///{directory}/rows.sqlite3", "DJANGO_SETTINGS_MODULE": SETTINGS}
        environment |= {"REDIS_URL": f"unix://{state.socket}", "CACHE_URL": f"unix://{state.socket}", **settings}
        state.start()
        try:
            beside = ["-m", "tests.support.postgres", sys.executable] if database == POSTGRESQL else []
            command = [sys.executable, *beside, "-m", module, *arguments]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
        finally:
            state.stop()
    return done.stdout
