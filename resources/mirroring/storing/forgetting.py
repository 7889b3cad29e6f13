"""Removes thumbnails of what was taken down from `cache`. Nobody is served them by then: this is about the bytes.

Redis has to look at all its keys for it, so a worker does it. Where that fails they go when they expire.
"""

import logging

from celery import current_app
from kombu.exceptions import OperationalError

from retry import connections
from retry.contents import content_name

from ..contents.thumbnail import content_keys

TASK = "resources.forget_thumbnails"
QUEUE = "work"
LOOKED_AT = 1000
"""Keys in one step: some tenths of a millisecond, in which Redis answers nobody else."""

_log = logging.getLogger("tarry.mirroring")


def forget_soon(digest: str) -> None:
    """Has a worker do it. Never fails."""
    try:
        current_app.send_task(TASK, [digest], queue=QUEUE, retry=False, ignore_result=True)
    except (OperationalError, OSError) as error:
        _log.warning("thumbnails stay in the cache", extra={"digest": digest, "error": str(error)})


def forget(digest: str) -> int:
    """Does it; how many there were. Raises RedisError."""
    client, pattern = connections.patient_client("cache"), content_name(content_keys(digest))
    return sum(client.unlink(key) for key in client.scan_iter(match=pattern, count=LOOKED_AT))
