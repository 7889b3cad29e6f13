"""The sweeper: publishes work again whose message or worker was lost, and ends what loses its worker twice."""

import logging
import random

from . import claims, connections, lanes, observing
from .errors import QueueUnavailable

MOST_AT_ONCE = 200

_log = logging.getLogger("tarry.sweeping")


def sweep() -> int:
    """One pass over the claims whose time has come; how many there were. Raises StoreUnavailable."""
    found = connections.execute_patiently(claims.sweeping(MOST_AT_ONCE))
    assert isinstance(found, list)
    for what, work_key, token, lane, spec in found:
        if what == b"lapsed":
            _give_up(work_key.decode(), int(token))
        else:
            _publish_again(work_key.decode(), int(token), lane.decode(), spec)
    return len(found)


def _publish_again(work_key: str, token: int, lane: str, spec: bytes) -> None:
    observing.republished("again")
    try:
        lanes.publish_again(spec, work_key, token, lane)
    except QueueUnavailable as error:  # it stays due: a later pass publishes it
        _log.warning("not published", extra={"work": work_key, "error": str(error)})


def _give_up(work_key: str, token: int) -> None:
    observing.republished("given up")
    _log.error("lost its worker twice", extra={"work": work_key})
    detail = "The preparation ended its worker twice."
    connections.execute_patiently(
        claims.finishing_failed(work_key, token, status=502, detail=detail, luck=random.random())
    )
