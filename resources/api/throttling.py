"""How often a token may be used: so many calls, and URLs, in each minute of the clock, counted in `state`.

Not in `cache`: strangers can fill it until it forgets. Counts nothing while `state` is away or full: the token is
known, and nobody else is made to wait by it.
"""

import logging
import math

from django.conf import settings
from redis.exceptions import RedisError

from retry import connections

WINDOW_SECONDS = 60

_log = logging.getLogger("tarry.api")


def seconds_to_wait(token_id: int, now_seconds: float) -> float:
    """Counts a call. 0 if it may be answered, else the time until the next minute."""
    return _seconds_to_wait("calls", token_id, 1, settings.API_CALLS_PER_MINUTE, now_seconds)


def seconds_to_wait_for_urls(token_id: int, number: int, now_seconds: float) -> float:
    """Counts so many URLs. 0 if they may be looked at, else the time until the next minute."""
    return _seconds_to_wait("urls", token_id, number, settings.API_URLS_PER_MINUTE, now_seconds)


def _seconds_to_wait(what: str, token_id: int, number: int, most: int, now_seconds: float) -> float:
    if not most:
        return 0
    window = math.floor(now_seconds / WINDOW_SECONDS)
    try:
        counted = _count(f"api:{what}:{token_id}:{window}", number)
    except RedisError:
        _log.warning("calls are not counted: state takes nothing", exc_info=True)
        return 0
    return 0 if counted <= most else (window + 1) * WINDOW_SECONDS - now_seconds


def _count(name: str, number: int) -> int:
    with connections.client("state").pipeline(transaction=False) as pipeline:
        pipeline.incrby(name, number)
        pipeline.expire(name, WINDOW_SECONDS)  # the name is of this window alone
        counted, _ = pipeline.execute()
    return int(counted)
