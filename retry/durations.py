"""How long work has taken, by its kind, as the ends of claims record it in `state`. Records nothing itself."""

from collections.abc import Collection

from redis.exceptions import RedisError

from . import connections
from .errors import StoreUnavailable

_NAME = "retry:duration:"


def recorded(kinds: Collection[str]) -> dict[str, float]:
    """Seconds by kind, the later ones weighing more; of those that are known. Raises StoreUnavailable."""
    asked = list(kinds)
    if not asked:
        return {}
    try:
        found = connections.client("state").mget([f"{_NAME}{kind}" for kind in asked])
    except RedisError as error:
        raise StoreUnavailable(f"state: {error}") from error
    return {kind: float(ms) / 1000 for kind, ms in zip(asked, found, strict=True) if ms is not None}
