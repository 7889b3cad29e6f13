"""Repeats what the demo does, for as long as somebody wants to look, whatever is away meanwhile."""

import logging
from collections.abc import Callable
from threading import Event

from django.core.exceptions import ValidationError
from django.db import Error as DatabaseError
from django.db import close_old_connections
from redis.exceptions import RedisError

from resources.tiles.errors import LayerError

LONGEST_PAUSE_SECONDS = 60.0
AWAY = (DatabaseError, RedisError, OSError, LayerError, ValidationError)
"""What passes: a store that is away, a layer that an admin has deleted or is replacing."""

_log = logging.getLogger("tarry.demo")


def repeat(action: Callable[[], object], stopped: Event, every_seconds: float) -> None:
    """Does something every so many seconds until `stopped` is set.

    A failure is logged once and ends nothing; the pauses grow while it lasts. Does not catch what no
    outage explains.
    """
    failures, said = 0, ""
    while not stopped.is_set():
        try:
            action()
        except AWAY as error:
            failures += 1
            if said != str(error):
                said = str(error)
                _log.warning("the demo waits", extra={"error": said})
        else:
            if failures:
                _log.info("the demo goes on", extra={"failures": failures})
            failures, said = 0, ""
        close_old_connections()  # a connection that an outage broke is not used again
        stopped.wait(pause_seconds(failures, every_seconds))


def pause_seconds(failures: int, every_seconds: float) -> float:
    """Returns the usual pause, doubled for each failure in a row up to a minute."""
    return min(every_seconds * 2.0 ** min(failures, 10), max(every_seconds, LONGEST_PAUSE_SECONDS))
