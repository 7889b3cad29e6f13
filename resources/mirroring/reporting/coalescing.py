"""Lists whose URLs end many times a second are settled every two seconds: whoever ends one leaves their names.

All in `state`; what it loses is healed.
"""

from typing import cast

from redis.exceptions import RedisError

from retry import connections

from ..knowing.continuing import GOING_ON as NAMES

MOST_AT_ONCE = 500


def take() -> list[str]:
    """The names that were left."""
    try:
        found = cast(list[bytes], connections.client("state").spop(NAMES, MOST_AT_ONCE))
    except RedisError:
        return []
    return [name.decode() for name in found]
