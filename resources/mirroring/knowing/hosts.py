"""What is learnt of hosts: whether their validators can be trusted, and whether asking for heads first pays."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

from django.db.models import Exists, F, OuterRef

from .. import conf
from . import seen
from .models import MirroredHost, Resource, State, Step, Validator

FADING = 0.99
"""Of each body, what the ones before it still count: about the last hundred do."""
MOST_KNOWN = 10_000
DIGESTS_AT_ONCE = 500
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
            distrust(host, now)


def refuses_heads(host: str) -> None:
    """It does not answer HEAD as it answers GET. Raises DatabaseError."""
    MirroredHost.objects.bulk_create([MirroredHost(host=host)], ignore_conflicts=True)
    MirroredHost.objects.filter(pk=host, heads_refused=False).update(heads_refused=True)


def distrust(host: str, now: datetime) -> int:
    """The host has lied, as its row says: what its validators settled is fetched; how many URLs. Raises DatabaseError.

    With it goes what was concluded from that: URLs met on the way, redirects there, copies under other keys. Whoever
    still believed one writes its row first and reads then that the host has lied. The validators go last: as long as
    there are any, `finish_distrusting` does it again.
    """
    vouched_for = Resource.objects.filter(vouched_by=host, state=State.STORED).order_by()
    digests = sorted(set(vouched_for.values_list("blob_digest", flat=True)))
    number = 0
    for start in range(0, len(digests), DIGESTS_AT_ONCE):
        number += _want_again(digests[start : start + DIGESTS_AT_ONCE], now)
    Validator.objects.filter(host=host).delete()
    return number


def finish_distrusting(now: datetime) -> int:
    """Distrusts the hosts anew of which that was begun, and not ended; how many. Raises DatabaseError."""
    begun = MirroredHost.objects.filter(Exists(Validator.objects.filter(host=OuterRef("pk"))), lies__gt=0)
    hosts = list(begun.values_list("pk", flat=True))
    for host in hosts:
        distrust(host, now)
    return len(hosts)


def _want_again(contents: Sequence[str], now: datetime) -> int:
    """URLs of these contents that were not downloaded themselves; how many. Of one content all at once, or none."""
    doubtful = Resource.objects.filter(blob_digest__in=contents, state=State.STORED).exclude(step__in=DOWNLOADED)
    urls = list(doubtful.order_by().values_list("pk", flat=True))
    nothing = {"blob_digest": "", "step": "", "vouched_by": None, "etag": "", "last_modified": ""}
    doubtful.update(state=State.WANTED, due_at=now, attempts=0, **nothing)
    seen.forget(urls)
    return len(urls)


def liars(hosts: Iterable[str]) -> set[str]:
    """Those that were ever found lying, as it is now. Raises DatabaseError."""
    return set(MirroredHost.objects.filter(pk__in=set(hosts), lies__gt=0).values_list("pk", flat=True))
