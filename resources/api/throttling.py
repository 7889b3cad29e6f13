"""How often a token may be used: so many calls in each minute of the clock, counted in `cache`.

Counts nothing while `cache` cannot be reached: the token is known, and nobody else is made to wait by it.
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
    most = settings.API_CALLS_PER_MINUTE
    if not most:
        return 0
    window = math.floor(now_seconds / WINDOW_SECONDS)
    name = f"api:calls:{token_id}:{window}"
    try:
        calls = _count(name)
    except RedisError:
        _log.warning("calls are not counted: cache does not answer", exc_info=True)
        return 0
    return 0 if calls <= most else (window + 1) * WINDOW_SECONDS - now_seconds


def _count(name: str) -> int:
    with connections.client("cache").pipeline(transaction=False) as pipeline:
        pipeline.incr(name)
        pipeline.expire(name, 2 * WINDOW_SECONDS)
        calls, _ = pipeline.execute()
    return int(calls)
