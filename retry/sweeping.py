"""The sweeper: publishes work again whose message or worker was lost, ends what loses its worker twice,
and moves work one lane up from lanes whose turn does not come.
"""

import logging
import random

from . import claims, connections, lanes, observing
from .conf import conf
from .errors import PreparationError, QueueUnavailable

MOST_AT_ONCE = 200

MOST_AGED = 5
"""Pieces of work that move up from one lane in RETRY_AGE_SECONDS."""

_log = logging.getLogger("tarry.sweeping")


def sweep() -> int:
    """One pass over the claims whose time has come; how many there were. Raises StoreUnavailable."""
    found = connections.execute_patiently(claims.sweeping(MOST_AT_ONCE))
    assert isinstance(found, list)
    for what, work_key, token, lane, spec in found:
        if what == b"lapsed":
            _give_up(work_key.decode(), int(token))
        else:
            _publish_again("again", work_key.decode(), int(token), lane.decode(), spec)
    return len(found)


def age() -> int:
    """Moves the oldest work of lanes in which nothing starts one lane up; how much. Raises StoreUnavailable."""
    moved = 0
    for name, lane in conf().RETRY_LANES.items() if conf().RETRY_AGE_SECONDS else ():
        if up := lane.get("up"):
            moved += _age(name, up)
    return moved


def _age(lane: str, up: str) -> int:
    found = connections.execute_patiently(claims.ageing(lane, up, MOST_AGED))
    assert isinstance(found, list)
    for work_key, token, spec in found:
        _publish_again("aged", work_key.decode(), int(token), up, spec)
    return len(found)


def _publish_again(reason: str, work_key: str, token: int, lane: str, spec: bytes) -> None:
    observing.republished(reason)
    try:
        lanes.publish_again(spec, work_key, token, lane)
    except QueueUnavailable as error:
        if error.retry_seconds is not None:  # nothing comes of waiting
            _fail(work_key, token, PreparationError(str(error), status=503, retry_seconds=error.retry_seconds))
        else:  # it stays due: a later pass publishes it
            _log.warning("not published", extra={"work": work_key, "error": str(error)})


def _give_up(work_key: str, token: int) -> None:
    observing.republished("given up")
    _log.error("lost its worker twice", extra={"work": work_key})
    _fail(work_key, token, PreparationError("The preparation ended its worker twice."))


def _fail(work_key: str, token: int, error: PreparationError) -> None:
    connections.execute_patiently(claims.finishing_failed(work_key, token, error, luck=random.random()))
