"""Named continuations: what goes on when a URL ends. They stand in `state` beside the mark that it is in flight.

The rows of batches are the truth: what is lost here, a later look at the rows finds.
"""

import logging
from collections.abc import Iterable
from itertools import islice

from celery import current_app
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from retry import connections

SETTLE_TASK = "resources.settle_batches"
QUEUE = "work"
KEPT_SECONDS = 86_400
MOST_OF_ONE_URL = 10_000
NAMES_AT_ONCE = 500
"""In one message."""

_log = logging.getLogger("tarry.mirroring")


def leave(url_digests: Iterable[str], name: str) -> None:
    """Whoever ends one of these URLs has `name` go on. Look once more after this: it may have ended just before.

    Never fails.
    """
    try:
        with connections.client("state").pipeline(transaction=False) as pipeline:
            for digest in url_digests:
                pipeline.sadd(_after(digest), name)
                pipeline.expire(_after(digest), KEPT_SECONDS)
            pipeline.execute()
    except RedisError as error:
        _log.warning("continuations are not left", extra={"continuation": name, "error": str(error)})


def pop(url_digests: Iterable[str]) -> set[str]:
    """The names that were left beside these URLs, which are gone now. Never fails."""
    try:
        with connections.client("state").pipeline(transaction=False) as pipeline:
            for digest in url_digests:
                pipeline.spop(_after(digest), MOST_OF_ONE_URL)
            return {name.decode() for names in pipeline.execute() for name in names}
    except RedisError as error:
        _log.warning("continuations are not taken", extra={"error": str(error)})
        return set()


def go_on(names: Iterable[str]) -> None:
    """Has a worker settle what has these names. Never fails."""
    left = iter(sorted(names))
    while some := list(islice(left, NAMES_AT_ONCE)):
        try:
            current_app.send_task(SETTLE_TASK, args=[some], queue=QUEUE, retry=False, ignore_result=True)
        except (OperationalError, OSError) as error:
            _log.warning("continuations are not published", extra={"error": str(error)})
            return


def resume(url_digests: Iterable[str]) -> None:
    """These URLs have ended: what waits for them goes on. Never fails."""
    if digests := list(url_digests):
        go_on(pop(digests))


def _after(url_digest: str) -> str:
    return f"mirror:after:{url_digest}"
