"""Facts about hosts: trust in their validators, whether a HEAD pays, lanes of their URLs, and admins' blocks.

A lane is chosen by the URL's file name, else by the size of earlier files from its host.

A block applies to the host and all hosts below it. It fails waiting URLs; stored content stays, and can be taken
down. It does not stop requests itself: code that is about to fetch calls `is_host_blocked`.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from .. import database
from ..fetch.frontier import queue
from ..fetch.http import limit_scopes
from ..fetch.http.limit_scopes import scope_via, url_scopes
from ..fetch.models import FetchTiming
from . import lookup
from .models import DedupeStep, MirroredHost, Resource, UrlLane, UrlState, Validator

FADING_PER_BODY = 0.99
"""Weight of earlier bodies after each new one: about the last hundred count."""
MAX_KNOWN_FACTS = 10_000
DIGESTS_PER_QUERY = 500
DISTRUST_SECONDS = 0.5
"""Time that a process's writer spends on the URLs of a lying host: others wait for it. Workers do the rest."""
DOWNLOAD_STEPS = (DedupeStep.NEW, DedupeStep.CONTENT)
NO_CONTENT = {"blob_digest": "", "step": "", "vouched_by": None, "etag": "", "last_modified": ""}


@dataclass(frozen=True, slots=True)
class HostRecord:
    """The record of a host. Validators could have spared `asked` recent bodies, and did spare `spared`."""

    host: str
    confirmed: int = 0
    confirmed_opaque: int = 0
    lies: int = 0
    asked: float = 0.0
    spared: float = 0.0
    heads_refused: bool = False


@dataclass(frozen=True, slots=True)
class HostEvidence:
    asked: int = 0
    spared: int = 0
    confirmed: int = 0
    confirmed_opaque: int = 0
    lies: int = 0


Fact = TypeVar("Fact")


class FactMemory(Generic[Fact]):
    """Facts by key in the memory of this process, each for a time. Forgets all of them when there are too many."""

    def __init__(self) -> None:
        self._facts: dict[str, tuple[float, Fact]] = {}
        self._lock = Lock()

    def recall(self, key: str, read: Callable[[str], Fact], seconds: float) -> Fact:
        """Returns the fact of that key, read anew if it is older than `seconds`."""
        now = time.monotonic()
        known = self._facts.get(key)
        if known is not None and known[0] >= now:
            return known[1]
        fact = read(key)
        with self._lock:
            if len(self._facts) >= MAX_KNOWN_FACTS:
                self._facts.clear()
            self._facts[key] = (now + seconds, fact)
        return fact

    def recall_many(
        self, keys: Iterable[str], read: Callable[[Sequence[str]], Mapping[str, Fact]], seconds: float
    ) -> None:
        """Reads the facts of those keys that are not known, together: `recall` knows them then."""
        now = time.monotonic()
        unknown = [key for key in keys if (known := self._facts.get(key)) is None or known[0] < now]
        if not unknown:
            return
        facts = read(unknown)
        with self._lock:
            if len(self._facts) + len(facts) > MAX_KNOWN_FACTS:
                self._facts.clear()
            self._facts.update({key: (now + seconds, fact) for key, fact in facts.items()})

    def clear(self) -> None:
        with self._lock:
            self._facts.clear()


_known_hosts = FactMemory[HostRecord]()


def read_host(host: str) -> HostRecord:
    """Returns the host's present record. Raises DatabaseError."""
    return _read_hosts([host])[host]


def _read_hosts(hosts: Sequence[str]) -> dict[str, HostRecord]:
    fields = ("host", "confirmed", "confirmed_opaque", "lies", "asked", "spared", "heads_refused")
    found = {host: HostRecord(host) for host in hosts}
    for some in database.split_portions(hosts):
        found |= {row["host"]: HostRecord(**row) for row in MirroredHost.objects.filter(pk__in=some).values(*fields)}
    return found


def recall_host(host: str) -> HostRecord:
    """Returns the host's record, at most MIRROR_KNOWN_SECONDS old. Raises DatabaseError."""
    return _known_hosts.recall(host, read_host, settings.MIRROR_KNOWN_SECONDS)


def recall_hosts(hosts: Iterable[str]) -> None:
    """Reads unknown records of these hosts with one query, for recall_host. Raises DatabaseError."""
    _known_hosts.recall_many(hosts, _read_hosts, settings.MIRROR_KNOWN_SECONDS)


def record_evidence(learnt: Mapping[str, HostEvidence], now: datetime) -> None:
    """Adds evidence to the hosts' records. Distrusts hosts that lied. Raises DatabaseError."""
    hosts = sorted(learnt)
    MirroredHost.objects.bulk_create([MirroredHost(host=host) for host in hosts], ignore_conflicts=True)
    for host in hosts:
        one = learnt[host]
        fading = FADING_PER_BODY**one.asked
        MirroredHost.objects.filter(pk=host).update(
            asked=F("asked") * fading + one.asked,
            spared=F("spared") * fading + one.spared,
            confirmed=F("confirmed") + one.confirmed,
            confirmed_opaque=F("confirmed_opaque") + one.confirmed_opaque,
            lies=F("lies") + one.lies,
            learnt_at=now,
            **({"lied_at": now} if one.lies else {}),
        )
        if one.lies:
            distrust_host(host, now, DISTRUST_SECONDS)


def record_refused_heads(host: str) -> None:
    """Records that the host does not answer HEAD as it answers GET. Raises DatabaseError."""
    MirroredHost.objects.bulk_create([MirroredHost(host=host)], ignore_conflicts=True)
    MirroredHost.objects.filter(pk=host, heads_refused=False).update(heads_refused=True)


def find_unused_hosts(before: datetime) -> QuerySet[MirroredHost]:
    """Finds the hosts without evidence since then, and without an admin's choice or note.

    A host with validators, or with URLs that it vouched for, stays: its wrong validators would be believed again.
    """
    validators = Validator.objects.filter(host=OuterRef("pk"))
    vouched_for = Resource.objects.filter(vouched_by=OuterRef("pk"))
    unused = MirroredHost.objects.filter(blocked=False, recheck=None, note="", learnt_at__lt=before)
    return unused.exclude(Exists(validators) | Exists(vouched_for))


def distrust_host(host: str, now: datetime, seconds: float) -> int:
    """Has URLs fetched again that a lying host's validators settled, within `seconds`. Returns how many URLs.

    The host's row must already say that it lied: a process that still believed it writes the URL's row first and reads
    the lie then. Conclusions drawn from those URLs go too: URLs met on the way, redirects there, copies under other
    keys. They go first, then the URLs that the host vouched for, then its validators: as long as any of these are left,
    `finish_distrusting` continues. Raises DatabaseError.
    """
    until, number = time.monotonic() + seconds, 0
    again = {"wanted_at": now, "due_at": now, "attempts": 0}
    for urls in _doubtful_urls(host):
        with lookup.forget_around_change(urls):
            stored = Resource.objects.filter(pk__in=urls, state=UrlState.STORED)
            number += database.update_in_order(stored, state=UrlState.WANTED, **again, **NO_CONTENT)
        if time.monotonic() >= until:
            return number
    database.delete_all_in_order(Validator.objects.filter(host=host), until)
    return number


def find_distrusted() -> list[str]:
    """Returns the hosts for which distrusting has begun and not ended. Raises DatabaseError."""
    validators = Validator.objects.filter(host=OuterRef("pk"))
    vouched_for = Resource.objects.filter(vouched_by=OuterRef("pk"), state=UrlState.STORED)
    begun = MirroredHost.objects.filter(Exists(validators) | Exists(vouched_for), lies__gt=0)
    return list(begun.values_list("pk", flat=True))


def finish_distrusting(now: datetime, seconds: float) -> list[str]:
    """Continues to distrust these hosts for about `seconds`; returns the hosts that are left. Raises DatabaseError."""
    until = time.monotonic() + seconds
    for host in find_distrusted():
        distrust_host(host, now, until - time.monotonic())
    return find_distrusted()


def _doubtful_urls(host: str) -> Iterator[list[str]]:
    """Yields some of the URLs at a time. The caller changes them before the next ones are read."""
    vouched_for = Resource.objects.filter(vouched_by=host, state=UrlState.STORED).order_by()
    while contents := set(vouched_for.values_list("blob_digest", flat=True)[:DIGESTS_PER_QUERY]):
        same = Resource.objects.filter(blob_digest__in=contents, state=UrlState.STORED).order_by()
        yield from database.key_portions(same.exclude(step__in=DOWNLOAD_STEPS).exclude(vouched_by=host))
        yield from database.key_portions(vouched_for.filter(blob_digest__in=contents))


_LARGE_SUFFIXES_TEXT = """
    3gp 7z apk avi bin bz2 deb dmg exe flac flv gz img iso m2ts m4v mkv mov mp4 mpeg mpg mts ogv rar rpm tar tgz ts vob
    wav webm wmv xz zip zst
"""
LARGE_SUFFIXES = frozenset(_LARGE_SUFFIXES_TEXT.split())
LARGE_BYTES = 5_000_000
"""Size of a large file. A host has large files if its last ones had this size on average."""
SAMPLED_FILES = 20
MAX_HOSTS_AT_ONCE = 20
"""Hosts looked up for one report. The fetchers soon notice which of the others are slow."""
LANE_KNOWN_SECONDS = 300.0

_known_scopes = FactMemory[bool]()


def file_suffix(url: str) -> str:
    """Returns the suffix of the file's name in lower case; empty if it has none."""
    name = urlsplit(url).path.rpartition("/")[2].lower()
    return name.rpartition(".")[2] if "." in name else ""


def choose_content_lane(media_type: str, size: int) -> UrlLane:
    """Returns the lane that would have suited a URL with this content."""
    return UrlLane.LARGE if size >= LARGE_BYTES or media_type.startswith("video/") else UrlLane.FAST


def choose_lanes(urls: Iterable[tuple[str, str]]) -> list[UrlLane]:
    """Returns the lanes of URLs, given with their hosts, in their order. Raises DatabaseError."""
    asked, left = dict[str, bool](), MAX_HOSTS_AT_ONCE
    lanes = []
    for url, host in urls:
        suffix = file_suffix(url)
        if not suffix and host not in asked and left:
            asked[host] = _known_scopes.recall(_file_scope(url), _has_large_files, LANE_KNOWN_SECONDS)
            left -= 1
        lanes.append(UrlLane.LARGE if suffix in LARGE_SUFFIXES or (not suffix and asked.get(host)) else UrlLane.FAST)
    return lanes


def _file_scope(url: str) -> str:
    """Returns the scope under which the files of its host are recorded: the host and its egress."""
    found = url_scopes(url)
    chosen = limit_scopes.choose_egress(queue.configured_egresses(), found.registrable)
    return scope_via(found.host, chosen.name if chosen else "")


def _has_large_files(scope: str) -> bool:
    last = FetchTiming.objects.filter(scope=scope, kind=FetchTiming.Kind.FILE, outcome=FetchTiming.FETCHED)
    sizes = list(last.order_by("-started_at").values_list("wire_bytes", flat=True)[:SAMPLED_FILES])
    return bool(sizes) and sum(sizes) / len(sizes) >= LARGE_BYTES


BLOCKED_FAILURE = "blocked"
"""The value of `Resource.failure` for URLs not fetched because of a block."""

BLOCKED_DETAIL = "The host is blocked by an admin."


@dataclass(frozen=True, slots=True)
class HostChoices:
    """The choices of admins: blocked hosts, and hosts whose stored files are checked for new content, or are not."""

    blocked: frozenset[str]
    recheck: Mapping[str, bool]


_choices = FactMemory[HostChoices]()


def _recall_choices() -> HostChoices:
    return _choices.recall("all", _read_choices, settings.MIRROR_KNOWN_SECONDS)


def _read_choices(_: str) -> HostChoices:
    chosen = MirroredHost.objects.filter(Q(blocked=True) | Q(recheck__isnull=False)).order_by()
    rows = list(chosen.values_list("host", "blocked", "recheck"))
    blocked = frozenset(host for host, is_blocked, _ in rows if is_blocked)
    return HostChoices(blocked, {host: recheck for host, _, recheck in rows if recheck is not None})


def find_blocked_hosts() -> frozenset[str]:
    """Returns all blocked hosts, at most MIRROR_KNOWN_SECONDS old. Raises DatabaseError."""
    return _recall_choices().blocked


def is_host_blocked(host: str, blocked: frozenset[str] | None = None) -> bool:
    """Tells whether the host, or one above it, is blocked. Raises DatabaseError if it has to read the rows."""
    blocked = find_blocked_hosts() if blocked is None else blocked
    if not blocked:
        return False
    return any(name in blocked for name in _hosts_above(host))


def is_rechecked(host: str) -> bool:
    """Tells whether stored files of the host are checked for new content. Raises DatabaseError.

    The choice of an admin for the host, or else for the nearest host above it, goes before MIRROR_RECHECK. Nothing is
    requested of blocked hosts.
    """
    choices = _recall_choices().recheck
    chosen = next((choices[name] for name in _hosts_above(host) if name in choices), settings.MIRROR_RECHECK)
    return bool(chosen) and not is_host_blocked(host)


def _hosts_above(host: str) -> Iterator[str]:
    """Yields the host, and those above it."""
    labels = host.split(".")
    return (".".join(labels[start:]) for start in range(len(labels)))


def block_host(host: str, *, now: datetime) -> int:
    """Blocks the host, and fails the waiting URLs there and below; returns their number. Raises DatabaseError."""
    MirroredHost.objects.update_or_create(host=host, defaults={"blocked": True})
    forget_host_choices()
    return fail_waiting_urls(host, now=now)


def unblock_host(host: str) -> int:
    """Ends a block. Forgets the URLs that it failed, so that the next report fetches them; returns their number.

    Also forgets URLs elsewhere that redirected to any blocked host: they fail again if it is still blocked.
    """
    MirroredHost.objects.filter(host=host).update(blocked=False)
    forget_host_choices()
    blocked = find_blocked_hosts()
    failed = Resource.objects.filter(state=UrlState.FAILED, failure=BLOCKED_FAILURE).order_by()
    free = [one for one in failed.values_list("host", flat=True).distinct() if not is_host_blocked(one, blocked)]
    return sum(_drop_urls(some) for one in free for some in database.key_portions(failed.filter(host=one)))


def fail_waiting_urls(host: str, *, now: datetime) -> int:
    """Fails the wanted URLs of the host and those below. Stored ones keep their content and are not fetched again."""
    known = Resource.objects.order_by("host").values_list("host", flat=True).distinct()  # no index searches suffixes
    below = [one for one in known if is_host_blocked(one, frozenset({host}))]
    waiting = Resource.objects.filter(state=UrlState.WANTED)
    return sum(_fail_urls(some, now) for one in below for some in database.key_portions(waiting.filter(host=one)))


def forget_host_choices() -> None:
    """Makes this process read the choices of admins again."""
    _choices.clear()


def _fail_urls(digests: Sequence[str], now: datetime) -> int:
    wanted = Resource.objects.filter(url_digest__in=digests, state=UrlState.WANTED)
    database.update_in_order(wanted.exclude(blob_digest=""), state=UrlState.STORED, due_at=None)
    database.update_in_order(
        wanted, state=UrlState.FAILED, failure=BLOCKED_FAILURE, detail=BLOCKED_DETAIL, due_at=None, fetched_at=now
    )
    lookup.forget_statuses(digests)
    lookup.resume_batches(digests)
    return len(digests)


def _drop_urls(digests: Sequence[str]) -> int:
    """Deletes rows that only say that their host was blocked."""
    rows = Resource.objects.filter(url_digest__in=digests, state=UrlState.FAILED, failure=BLOCKED_FAILURE)
    database.delete_in_order(rows)
    lookup.forget_statuses(digests)
    return len(digests)
