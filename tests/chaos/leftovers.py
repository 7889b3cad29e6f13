"""Leftovers of running work in Redis and on the disk. None may remain after its end."""

from pathlib import Path

import redis

MARKS = (
    *("retry:{*}:claim:*", "retry:{*}:claims", "retry:{*}:queued:*", "retry:{*}:leases"),
    *("fetch:{0}:job:*", "fetch:{0}:wanted:*", "fetch:{0}:jobs:*", "fetch:{0}:leases"),
    "mirror:unsettled",
)
QUEUED, DOMAINS = "fetch:{0}:queued", "fetch:{0}:domain:*"
IN_FLIGHT = ("in_flight", "slow_in_flight")
"""Counts in the record of each domain."""
TEMPORARY = (
    *(".new-*", "*.aside", "spool/*/fetch-*", "uploads/new-*", "uploads/held-*", "uploads/*.upload*"),
    f"hot/*/{'?' * 32}.{'[0-9]' * 10}",
)
"""Temporary files and folders in DATA_DIR, by the names of `blobs`, `bodies`, `uploads`, Django and nginx."""
BODIES = ("body", "proxy")
"""Folders of nginx: request bodies, and answers to slow clients."""


def marks(state: "redis.Redis | redis.RedisCluster") -> list[str]:
    return [f"{key!r}" for name in MARKS for key in state.scan_iter(name)]


def counts(state: "redis.Redis | redis.RedisCluster") -> list[str]:
    """The frontier's counts of queued jobs, and of jobs in flight at each domain, where they are not 0."""
    found = {QUEUED: _number(state.get(QUEUED))}
    for key in state.scan_iter(DOMAINS):
        found |= {f"{key.decode()} {name}": _number(state.hget(key, name)) for name in IN_FLIGHT}
    return [f"{name} {number:g}" for name, number in found.items() if number]


def temporary_files(data: Path, runtime: Path) -> list[str]:
    of_site = [path for name in TEMPORARY for path in data.rglob(name)]
    of_nginx = [path for name in BODIES for path in (runtime / "nginx" / name).rglob("*") if not path.is_dir()]
    return [str(path) for path in (*of_site, *of_nginx)]


def _number(held: object) -> float:
    return float(held) if isinstance(held, bytes) else 0
