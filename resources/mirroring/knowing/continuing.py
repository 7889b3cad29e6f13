"""Named continuations: what goes on when a URL ends. They stand in `state` beside the mark that it is in flight.

The rows of batches are the truth: what is lost here, a later look at the rows finds. So nothing here fails; it is
left, or logged.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

from redis.exceptions import RedisError

from retry import connections, scripts
from retry.errors import StoreUnavailable
from retry.scripts import Call

KEPT_SECONDS = 86_400
GOING_ON = "mirror:unsettled"
"""The names that are to go on. Workers take them every two seconds: fetchers hand nothing to Celery."""
URLS_AT_ONCE = 500
"""In one call of the script."""

scripts.register(Path(__file__).parent / "lua", "mirror")

_log = logging.getLogger("tarry.mirroring")


def leave(url_digests: Iterable[str], name: str) -> None:
    """Whoever ends one of these URLs has `name` go on. Look once more after this: it may have ended just before."""
    try:
        with connections.client("state").pipeline(transaction=False) as pipeline:
            for digest in url_digests:
                pipeline.sadd(_after(digest), name)
                pipeline.expire(_after(digest), KEPT_SECONDS)
            pipeline.execute()
    except RedisError as error:
        _log.warning("continuations are not left", extra={"continuation": name, "error": str(error)})


def resume(url_digests: Iterable[str]) -> None:
    """These URLs have ended, and their rows say so: what waits for them is to go on."""
    keys = [_after(digest) for digest in url_digests]
    slices = [keys[start : start + URLS_AT_ONCE] for start in range(0, len(keys), URLS_AT_ONCE)]
    if not slices:
        return
    try:
        calls = [Call("state", "mirror.resume", [GOING_ON, *some]) for some in slices]
        connections.execute_all_patiently("state", calls)
    except StoreUnavailable as error:
        _log.warning("continuations do not go on", extra={"error": str(error)})


def _after(url_digest: str) -> str:
    return f"mirror:after:{url_digest}"
