"""What other machines' clients wait for: a lane of the deferral protocol whose work is to upload a blob.

Wishes stand in `state`, in one list for each machine that holds something. A list that is lost is filled again by the
protocol's sweeper.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast
from uuid import uuid4

from redis.exceptions import RedisError

from retry import claims, connections, contents, scripts
from retry.contents import Prepared
from retry.errors import PreparationError, QueueUnavailable, StoreUnavailable
from retry.scripts import Call
from retry.work import Argument, Work

LANE = "upload"
KEPT_SECONDS = 86_400
KNOWN_SECONDS = 10.0
"""How long `cache` knows that it was uploaded: only those who wait for it now look there."""

scripts.register(Path(__file__).parent / "lua", "mirror")


@dataclass(frozen=True, slots=True)
class Wish:
    """That this blob be uploaded, on behalf of a claim of the protocol. `since` is in Unix seconds."""

    digest: str
    token: int
    since: float


def content_key(digest: str) -> str:
    """Of the small content that tells those who wait."""
    return f"blob:{digest}"


def upload_work(digest: str, holder: str) -> Work:
    """The work of uploading a blob that only its holder has."""
    return Work(
        key=_work_key(digest),
        kind="upload",
        lane=LANE,
        refresh_lane=LANE,
        task="resources.upload",
        arguments=(digest, holder),
    )


def publish(task: str, work_key: str, token: int, arguments: Sequence[Argument], lane: str) -> None:
    """A lanes.Publisher: asks the machine that is the second of the arguments. Raises QueueUnavailable."""
    digest, holder = map(str, arguments)
    call = Call("state", "mirror.wish", [_list(holder)], [time.time(), f"{digest} {token}", KEPT_SECONDS])
    try:
        connections.execute(call)
    except StoreUnavailable as error:
        raise QueueUnavailable(f"The lane {lane} does not take work: {error}") from error


def taken(machine: str, most: int, wait_seconds: float) -> list[Wish]:
    """What this machine is asked for, the oldest first; waits so long for a first one. Raises StoreUnavailable."""
    client, name = connections.patient_client("state"), _list(machine)
    try:
        found = cast(list[tuple[bytes, float]], client.zpopmin(name, most))
        if not found and wait_seconds:
            waited = cast(tuple[bytes, bytes, float] | None, client.bzpopmin([name], wait_seconds))
            found = [waited[1:]] if waited else []
    except RedisError as error:
        raise StoreUnavailable(f"state: {error}") from error
    return [_read(member, since) for member, since in found]


def end(wish: Wish, *, is_there: bool) -> None:
    """Ends its claim: those who wait are sent back. Nothing happens if it is ended already. Raises StoreUnavailable."""
    work_key, waited = _work_key(wish.digest), max(0.0, time.time() - wish.since)
    if connections.execute_patiently(claims.starting(work_key, wish.token, uuid4().hex)) != claims.STARTED:
        return
    if is_there:
        told = Prepared(wish.digest.encode(), "text/plain", fresh_seconds=KNOWN_SECONDS, stale_seconds=0)
        writing = contents.writing(content_key(wish.digest), told, wish.token, datetime.now(UTC), 0)
        connections.execute_patiently(writing)
        connections.execute_patiently(claims.finishing_stored(work_key, wish.token, waited))
    else:
        error = PreparationError("The machine that has this file cannot upload it now.", status=503)
        connections.execute_patiently(claims.finishing_failed(work_key, wish.token, error, luck=random.random()))


def _read(member: bytes, since: float) -> Wish:
    digest, _, token = member.decode().partition(" ")
    return Wish(digest, int(token), since)


def _work_key(digest: str) -> str:
    return f"upload:{digest}"


def _list(machine: str) -> str:
    return f"mirror:upload:{machine}"
