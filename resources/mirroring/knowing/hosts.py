"""What is learnt of hosts: whether their validators can be trusted, and whether asking for heads first pays."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Any

from django.db.models import Exists, F, OuterRef

from .. import conf
from . import ordering, seen
from .models import MirroredHost, Resource, State, Step, Validator

FADING = 0.99
"""Of each body, what the ones before it still count: about the last hundred do."""
MOST_KNOWN = 10_000
DIGESTS_AT_ONCE = 500
AT_ONCE_SECONDS = 0.5
"""What the writer of a process spends on what a liar has vouched for: others wait for it. Workers do the rest."""
DOWNLOADED = (Step.NEW, Step.CONTENT)


@dataclass(frozen=True, slots=True)
class Host:
    """A host as it is known. `asked` of late could have been spared by validators, `spared` were."""

    host: str
    confirmed: int = 0
    confirmed_opaque: int = 0
    lies: int = 0
    asked: float = 0.0
    spared: float = 0.0
    heads_refused: bool = False


@dataclass(frozen=True, slots=True)
class Learnt:
    """What some answers of a host have shown."""

    asked: int = 0
    spared: int = 0
    confirmed: int = 0
    confirmed_opaque: int = 0
    lies: int = 0


_known: dict[str, tuple[float, Host]] = {}
_lock = Lock()


def as_it_is(host: str) -> Host:
    """What is known of it now. Raises DatabaseError."""
    fields = ("host", "confirmed", "confirmed_opaque", "lies", "asked", "spared", "heads_refused")
    row = MirroredHost.objects.filter(pk=host).values(*fields).first()
    return Host(**row) if row else Host(host)


def as_it_was(host: str) -> Host:
    """What was known of it a moment ago. Raises DatabaseError."""
    now = time.monotonic()
    until, found = _known.get(host, (0.0, None))
    if found is None or until < now:
        found = as_it_is(host)
        with _lock:
            if len(_known) >= MOST_KNOWN:
                _known.clear()
            _known[host] = (now + conf.known_seconds(), found)
    return found


def forget_all_here() -> None:
    """What this process remembers: for tests."""
    with _lock:
        _known.clear()


def learn(learnt: Mapping[str, Learnt], now: datetime) -> None:
    """Adds to what is known. Hosts that lied lose what they vouched for. Raises DatabaseError."""
    hosts = sorted(learnt)
    MirroredHost.objects.bulk_create([MirroredHost(host=host) for host in hosts], ignore_conflicts=True)
    for host in hosts:
        one = learnt[host]
        fading = FADING**one.asked
        MirroredHost.objects.filter(pk=host).update(
            asked=F("asked") * fading + one.asked,
            spared=F("spared") * fading + one.spared,
            confirmed=F("confirmed") + one.confirmed,
            confirmed_opaque=F("confirmed_opaque") + one.confirmed_opaque,
            lies=F("lies") + one.lies,
            **({"lied_at": now} if one.lies else {}),
        )
        if one.lies:
            distrust(host, now, AT_ONCE_SECONDS)


def refuses_heads(host: str) -> None:
    """It does not answer HEAD as it answers GET. Raises DatabaseError."""
    MirroredHost.objects.bulk_create([MirroredHost(host=host)], ignore_conflicts=True)
    MirroredHost.objects.filter(pk=host, heads_refused=False).update(heads_refused=True)


def distrust(host: str, now: datetime, seconds: float) -> int:
    """The host has lied, as its row says: what its validators settled is fetched, as much as there is time for.

    How many URLs. With it goes what was concluded from that: URLs met on the way, redirects there, copies under other
    keys. Whoever still believed one writes its row first and reads then that the host has lied. What it vouched for
    goes after what was concluded from it, and the validators go last: as long as there are any of these,
    `finish_distrusting` goes on. Raises DatabaseError.
    """
    until, number = time.monotonic() + seconds, 0
    for urls in _doubtful(host):
        with seen.changing(urls):
            number += ordering.update(Resource.objects.filter(pk__in=urls, state=State.STORED), **_wanted(now))
        if time.monotonic() >= until:
            return number
    ordering.delete_all(Validator.objects.filter(host=host), until)
    return number


def distrusted() -> list[str]:
    """The hosts of which that was begun, and not ended. Raises DatabaseError."""
    validators = Validator.objects.filter(host=OuterRef("pk"))
    vouched_for = Resource.objects.filter(vouched_by=OuterRef("pk"), state=State.STORED)
    begun = MirroredHost.objects.filter(Exists(validators) | Exists(vouched_for), lies__gt=0)
    return list(begun.values_list("pk", flat=True))


def finish_distrusting(now: datetime, seconds: float) -> list[str]:
    """Goes on distrusting these for about so long; which are left. Raises DatabaseError."""
    until = time.monotonic() + seconds
    for host in distrusted():
        distrust(host, now, until - time.monotonic())
    return distrusted()


def _doubtful(host: str) -> Iterator[list[str]]:
    """Some of the URLs at a time. Those of before have changed by then."""
    vouched_for = Resource.objects.filter(vouched_by=host, state=State.STORED).order_by()
    while contents := set(vouched_for.values_list("blob_digest", flat=True)[:DIGESTS_AT_ONCE]):
        same = Resource.objects.filter(blob_digest__in=contents, state=State.STORED).order_by()
        yield from ordering.portions(same.exclude(step__in=DOWNLOADED).exclude(vouched_by=host))
        yield from ordering.portions(vouched_for.filter(blob_digest__in=contents))


def _wanted(now: datetime) -> dict[str, Any]:
    nothing = {"blob_digest": "", "step": "", "vouched_by": None, "etag": "", "last_modified": ""}
    return {"state": State.WANTED, "due_at": now, "attempts": 0, **nothing}


def liars(hosts: Iterable[str]) -> set[str]:
    """Those that were ever found lying, as it is now. Raises DatabaseError."""
    return set(MirroredHost.objects.filter(pk__in=set(hosts), lies__gt=0).values_list("pk", flat=True))
