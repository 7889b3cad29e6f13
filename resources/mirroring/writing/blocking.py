"""Hosts that nothing is mirrored from, by an admin's decision. It counts for the host and all below it.

Blocking fails what waits; what is stored stays, and can be taken down. Does not keep anybody from fetching: who
is about to asks `is_blocked`.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

from django.db.models import QuerySet

from .. import conf
from ..knowing import continuing, ordering, seen
from ..knowing.models import MirroredHost, Resource, State

FAILURE = "blocked"
"""What `Resource.failure` says of those that were not fetched for this."""

SAID = "An admin has blocked its host."
SLICE = 500


@dataclass(slots=True)
class _Known:
    """The blocked hosts as this process knows them, and until when (monotonic)."""

    hosts: frozenset[str] = frozenset()
    until: float = 0.0


_known = _Known()
_lock = Lock()


def blocked_hosts() -> frozenset[str]:
    """All of them, at most MIRROR_KNOWN_SECONDS old. Raises DatabaseError."""
    with _lock:
        if time.monotonic() >= _known.until:
            rows = MirroredHost.objects.filter(blocked=True).values_list("host", flat=True)
            _known.hosts = frozenset(rows)
            _known.until = time.monotonic() + conf.known_seconds()
        return _known.hosts


def is_blocked(host: str, blocked: frozenset[str] | None = None) -> bool:
    """Whether the host, or one that it is below, is blocked. Raises DatabaseError where it has to ask."""
    blocked = blocked_hosts() if blocked is None else blocked
    if not blocked:
        return False
    labels = host.split(".")
    return any(".".join(labels[start:]) in blocked for start in range(len(labels)))


def block(host: str, note: str = "", *, now: datetime) -> int:
    """Blocks the host, and fails what waits for it and for those below; how many URLs. Raises DatabaseError."""
    fields = {"blocked": True, **({"note": note} if note else {})}
    MirroredHost.objects.update_or_create(host=host, defaults=fields)
    forget()
    return fail_waiting(host, now=now)


def unblock(host: str) -> int:
    """Ends a block. What it has failed is forgotten, so that the next report asks for it; how many URLs.

    So are URLs elsewhere that redirected to a blocked host, whichever it was: they fail again if it is still blocked.
    """
    MirroredHost.objects.filter(host=host).update(blocked=False)
    forget()
    blocked = blocked_hosts()
    failed = Resource.objects.filter(state=State.FAILED, failure=FAILURE).order_by()
    free = [one for one in failed.values_list("host", flat=True).distinct() if not is_blocked(one, blocked)]
    return sum(_drop(digests) for one in free for digests in _slices(failed.filter(host=one)))


def fail_waiting(host: str, *, now: datetime) -> int:
    """Fails the wanted URLs of the host and of those below it. One that is stored is only not fetched again."""
    waiting = Resource.objects.filter(state=State.WANTED)
    return sum(_fail(digests, now) for one in _below(host) for digests in _slices(waiting.filter(host=one)))


def forget() -> None:
    """Makes this process ask again."""
    with _lock:
        _known.until = 0.0


def _below(host: str) -> list[str]:
    """It and those below it that there are rows of. Read from the index of hosts: what they end with, none finds."""
    known = Resource.objects.order_by("host").values_list("host", flat=True).distinct()
    return [one for one in known if is_blocked(one, frozenset({host}))]


def _slices(rows: QuerySet[Resource]) -> Iterable[list[str]]:
    """The digests of rows that are changed slice by slice, until none is left."""
    while digests := list(rows.order_by().values_list("url_digest", flat=True)[:SLICE]):
        yield digests


def _fail(digests: Sequence[str], now: datetime) -> int:
    wanted = Resource.objects.filter(url_digest__in=digests, state=State.WANTED)
    ordering.update(wanted.exclude(blob_digest=""), state=State.STORED, due_at=None)
    ordering.update(wanted, state=State.FAILED, failure=FAILURE, detail=SAID, due_at=None, fetched_at=now)
    seen.forget(digests)
    continuing.resume(digests)
    return len(digests)


def _drop(digests: Sequence[str]) -> int:
    """Removes rows that say no more than that their host was blocked."""
    ordering.delete(Resource.objects.filter(url_digest__in=digests, state=State.FAILED, failure=FAILURE))
    seen.forget(digests)
    return len(digests)
