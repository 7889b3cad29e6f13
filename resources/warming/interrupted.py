"""When runs began that have not ended, in `state`, so that --continue knows what they have done already."""

import json
from datetime import UTC, datetime
from hashlib import sha256

from resources import locks

KEPT_SECONDS = 14 * 86_400


def name_of(asked: object) -> str:
    """The name of all runs that were asked for the same, as JSON."""
    return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def begun(name: str) -> datetime | None:
    """When the run began that was interrupted; None when there is none. Raises StoreUnavailable."""
    with locks.state() as client:
        found = client.get(_key(name))
    return datetime.fromtimestamp(float(found), UTC) if found else None


def begin(name: str, now: datetime) -> None:
    """Raises StoreUnavailable."""
    with locks.state() as client:
        client.set(_key(name), now.timestamp(), ex=KEPT_SECONDS)


def end(name: str) -> None:
    """Nothing is left to continue. Raises StoreUnavailable."""
    with locks.state() as client:
        client.delete(_key(name))


def _key(name: str) -> str:
    return f"tiles:warming:{name}"
