"""Records of machines in a test's `state`."""

import json
import time
from typing import Any

from redis import Redis

from resources import machines


def process(name: str, role: str, *queues: str, workers: int = 1, is_running: bool = True) -> dict[str, Any]:
    return {"name": name, "role": role, "is_running": is_running, "queues": queues, "workers": workers}


def note(client: Redis, name: str, *processes: dict[str, Any], ago_seconds: float = 0, **facts: Any) -> None:
    """Writes a record as the machine's supervisord does, so long ago."""
    machines.note_machine(client, name, {"processes": processes, "disk_bytes": 100, "disk_free_bytes": 40, **facts})
    if ago_seconds:
        _, skew, rest = client.hget(machines.KEY, name).decode().split(" ", 2)  # type: ignore[union-attr]
        client.hset(machines.KEY, name, f"{time.time() - ago_seconds:.3f} {skew} {rest}")


def note_skewed(client: Redis, name: str, skew_seconds: float, **facts: Any) -> None:
    """Writes the record of a machine whose clock is ahead."""
    client.hset(machines.KEY, name, f"{time.time():.3f} {skew_seconds:.3f} {json.dumps(facts)}")
