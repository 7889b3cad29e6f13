"""Lists whose URLs end many times a second are settled once a second: whoever comes meanwhile leaves their names.

All in `state`, and only to spare work: while it is away lists are settled each time, and what it loses is healed.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import cast

from redis.exceptions import RedisError

from retry import connections

from ..keeping.continuing import GOING_ON as NAMES

TURN_MS = 1000
MOST_AT_ONCE = 500

_log = logging.getLogger("tarry.mirroring")


def whose_turn(names: Iterable[str]) -> list[str]:
    """Those that were not settled within the last second. The others are left for `take`."""
    wanted = list(dict.fromkeys(names))
    try:
        with connections.client("state").pipeline(transaction=False) as pipeline:
            for name in wanted:
                pipeline.set(f"mirror:settling:{name}", 1, nx=True, px=TURN_MS)
            replies = pipeline.execute()
    except RedisError:
        return wanted
    later([name for name, is_first in zip(wanted, replies, strict=True) if not is_first])
    return [name for name, is_first in zip(wanted, replies, strict=True) if is_first]


def later(names: Sequence[str]) -> None:
    """Leaves the names for `take`, which comes within two seconds."""
    if not names:
        return
    try:
        connections.client("state").sadd(NAMES, *names)
    except RedisError as error:
        _log.warning("lists are settled later", extra={"error": str(error)})


def take() -> list[str]:
    """The names that were left."""
    try:
        found = cast(list[bytes], connections.client("state").spop(NAMES, MOST_AT_ONCE))
    except RedisError:
        return []
    return [name.decode() for name in found]
