"""Which pages of a feed or a combination the hub has been told of, and of what version. In `state`, by their paths.

Where that is lost, the hub is told once more.
"""

from collections.abc import Collection, Sequence
from datetime import timedelta

from resources import locks

KEPT = timedelta(days=2)


def untold(row: str, paths: Sequence[str], version: int) -> list[str]:
    """Those of the paths that the hub is not being told of in that version. Raises StoreUnavailable."""
    with locks.state() as client:
        versions = client.hmget(_told(row), list(paths))
    return [path for path, told in zip(paths, versions, strict=True) if told is None or int(told) < version]


def note(row: str, paths: Collection[str], version: int) -> None:
    """The hub is being told of these. Raises StoreUnavailable."""
    with locks.state() as client, client.pipeline(transaction=False) as pipeline:
        pipeline.hset(_told(row), mapping=dict.fromkeys(paths, version))
        pipeline.expire(_told(row), KEPT)
        pipeline.execute()


def forget(row: str, *paths: str) -> None:
    """The hub could not be told of these. Raises StoreUnavailable."""
    with locks.state() as client:
        client.hdel(_told(row), *paths)


def _told(row: str) -> str:
    return f"feeds:told:{row}"
