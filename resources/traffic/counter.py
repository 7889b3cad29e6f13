"""Counts the front's traffic log: hits by kind and group, popularity by content key.

`log_format traffic` in nginx/nginx.conf defines the lines. TRAFFIC has, by the beginning of an address, the
function that names its content; TRAFFIC_NOTED has, by kind, the function that is told which names were asked
for.

Lines are counted in the same step in `state` that moves the position behind them: a pass that is killed at any
moment neither loses nor doubles a line. If `state` accepts nothing for so long that the files would fill the
disk, the oldest files are dropped. Prometheus gets the totals of all machines from `state`.
"""

import json
import logging
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.utils.module_loading import import_string
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from retry import conf, popularity, stores
from retry.errors import StoreUnavailable
from retry.popularity import PeriodHits

from ..disk import room
from . import log_files, prepared
from .asked import Asked
from .log_files import LogFile, LogSlice

HOT_CACHE_STATUSES = frozenset({b"HIT", b"STALE", b"UPDATING", b"REVALIDATED", b"FILE"})
"""Words of $upstream_cache_status for answers of nginx alone, and our word for a file that it serves straight."""

_MOMENT = rb"([0-9]{1,12}\.[0-9]{3})"
_STATUS, _CACHE_STATUS, _METHOD = rb"([0-9]{3})", rb"([A-Z-]*)", rb"([A-Z_-]+)"
_READER = rb"(?: ([0-9]{6}))?"
_LINE = re.compile(
    rb"^%b %b %b [0-9]+ [0-9.]+ %b%b (/[ -~]*)$" % (_MOMENT, _STATUS, _CACHE_STATUS, _METHOD, _READER), re.MULTILINE
)
_ESCAPE = re.compile(rb"\\x([0-9A-F]{2})")

LineFields = tuple[bytes, bytes, bytes, bytes, bytes, bytes]
"""One line: end of the request (Unix seconds), status, cache status, method, reader, address as nginx wrote it.

The reader is a number that stands for the client where readers are counted; else it is empty.
"""


@dataclass(frozen=True, slots=True)
class FrontAnswer:
    """The kind of an answer, in retry's words for hits. `wanted`: there is such content, and the client wanted it."""

    name: str
    wanted: bool


def parse_lines(data: bytes) -> list[LineFields]:
    """The fields of all lines in our format. Others are left out."""
    found: list[LineFields] = _LINE.findall(data)
    return found


@lru_cache(maxsize=1024)  # few combinations occur; invented ones are evicted
def front_answer(status: bytes, cache_status: bytes, method: bytes) -> FrontAnswer:
    asked = method in {b"GET", b"HEAD"}
    match int(status):
        case 200 | 206 | 304 if asked:
            return FrontAnswer("hot" if cache_status in HOT_CACHE_STATUSES else "passed", wanted=True)
        case 202 | 302 if asked:
            return FrontAnswer("waiting", wanted=True)
        case 404 | 410:
            return FrontAnswer("missing", wanted=False)
        case 429 | 503:
            return FrontAnswer("busy", wanted=False)
        case 500 | 501 | 502 | 504:
            return FrontAnswer("failed", wanted=False)
        case _:
            return FrontAnswer("other", wanted=False)


def unescape_address(escaped: bytes) -> str | None:
    """The requested address; None if it is not UTF-8. nginx writes other bytes as `\\xC3`."""
    plain = _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), escaped) if b"\\" in escaped else escaped
    try:
        return plain.decode()
    except UnicodeDecodeError:
        return None


Namer = Callable[[str], Asked | None]
"""Names the content of an address; None if it is not counted by name."""

Group = tuple[str, str]
"""Kind and group."""

ASKED_OTHER = Asked("other")
AT_ONCE = ("hot", "passed")
"""The answers that are content."""

MAX_KEY_CHARACTERS = 500
MAX_GROUP_CHARACTERS = 100

_BLANK = re.compile(r"\s")


@dataclass(slots=True)
class TrafficTally:
    """Requests by group, answer and period; weights by content key; noted names by kind; unreadable lines.

    A weight is of the requests that were answered with the content.
    """

    hits: dict[tuple[Group, FrontAnswer, int], int] = field(default_factory=lambda: defaultdict(int))
    weights: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    noted: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    at_once: dict[tuple[str, FrontAnswer, int], int] = field(default_factory=lambda: defaultdict(int))
    """Requests that got content at once, by content key, answer and period."""
    unreadable: int = 0


def tally_lines(data: bytes, now: float, half_life_seconds: float, name: Namer) -> TrafficTally:
    """Adds up whole lines, with weights as of now."""
    alike: dict[tuple[bytes, ...], list[float]] = defaultdict(list)
    for moment, *rest in parse_lines(data):
        alike[tuple(rest)].append(float(moment))
    whole = TrafficTally(unreadable=data.count(b"\n") + 1 - sum(len(moments) for moments in alike.values()))
    for (status, cache_status, method, reader, address), moments in alike.items():
        asked, answer = read_asked(address, name), front_answer(status, cache_status, method)
        groups = [(asked.kind, asked.group)]
        if asked.part:
            groups.append((f"{asked.kind}{popularity.PARTS_SUFFIX}", f"{asked.group}/{asked.part}"))
        for ended, group in product(moments, groups):
            whole.hits[group, answer, popularity.period_number(ended, now)] += 1
        if asked.content_key and answer.name in AT_ONCE:  # a client that was sent to wait comes back for it
            weights = (popularity.decay_weight(now - each, half_life_seconds) for each in moments)
            whole.weights[asked.content_key] += sum(weights)
            for ended in moments:
                whole.at_once[asked.content_key, answer, popularity.period_number(ended, now)] += 1
        if asked.noted and answer.wanted:
            whole.noted[asked.kind].add(f"{asked.noted} {reader.decode()}" if reader else asked.noted)
    return whole


def read_asked(escaped_address: bytes, name: Namer) -> Asked:
    """The content that the address asks for, in a form that can be counted."""
    address = unescape_address(escaped_address)
    asked = name(address) if address is not None else None
    if asked is None or not asked.kind or _BLANK.search(asked.kind):
        return ASKED_OTHER
    group = _BLANK.sub("_", asked.group)[:MAX_GROUP_CHARACTERS]
    content_key = asked.content_key if len(asked.content_key) <= MAX_KEY_CHARACTERS else ""
    return Asked(asked.kind, group, content_key, asked.noted, _BLANK.sub("_", asked.part)[:MAX_GROUP_CHARACTERS])


Noter = Callable[[Collection[str], datetime], None]
"""Notes that all of these were wanted, as of now. May be called twice for the same requests."""

_log = logging.getLogger("tarry.traffic")


def name_address(address: str) -> Asked | None:
    """Returns the content that the address asks for; None if no function knows it."""
    namers = load_namers(tuple(settings.TRAFFIC.items()))
    naming = next((naming for beginning, naming in namers if address.startswith(beginning)), None)
    try:
        return naming(address) if naming else None
    except Exception:  # noqa: BLE001  an app's own function: one odd address must not stop the count for good
        _log.exception("could not name", extra={"address": address[:200]})
        return None


@lru_cache(maxsize=4)  # tests change the setting
def load_namers(traffic: tuple[tuple[str, str], ...]) -> list[tuple[str, Namer]]:
    """Loads the functions by the beginnings of their addresses, the longest first. Raises ImportError."""
    found: Mapping[str, Namer] = {beginning: import_string(path) for beginning, path in traffic}
    return sorted(found.items(), key=lambda item: -len(item[0]))


def note_wanted(noted: Mapping[str, Collection[str]], now: datetime) -> None:
    """Tells each kind's function which names were wanted. Never fails: a lost note comes again with later requests."""
    for kind, wanted in noted.items():
        try:
            if noter := load_noters(tuple(settings.TRAFFIC_NOTED.items())).get(kind):
                noter(wanted, now)
        except Exception:  # noqa: BLE001  an app's own function, as above
            _log.exception("could not note", extra={"kind": kind})


@lru_cache(maxsize=4)
def load_noters(noted: tuple[tuple[str, str], ...]) -> dict[str, Noter]:
    """Loads the functions by kind. Raises ImportError."""
    return {kind: import_string(path) for kind, path in noted}


ADDRESS_BEGINNING = re.compile(r"/(?:[A-Za-z0-9._~-]+/)*[A-Za-z0-9._~-]*")


def check_traffic(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Checks TRAFFIC (beginnings of addresses, and their naming functions), TRAFFIC_NOTED, TRAFFIC_LOG_MAX_BYTES."""
    found: list[CheckMessage] = []
    if bad := [beginning for beginning in settings.TRAFFIC if not ADDRESS_BEGINNING.fullmatch(beginning)]:
        found.append(Error(f"TRAFFIC must have beginnings of addresses, as /tiles/: {bad}.", id="resources.E001"))
    try:
        load_namers(tuple(settings.TRAFFIC.items()))
        load_noters(tuple(settings.TRAFFIC_NOTED.items()))
    except ImportError as error:
        text = f"TRAFFIC or TRAFFIC_NOTED names a function that is not there: {error}."
        found.append(Error(text, id="resources.E002"))
    if settings.TRAFFIC_LOG_MAX_BYTES < 1_000_000 and room.disk_shares() is None:
        found.append(Error("TRAFFIC_LOG_MAX_BYTES must be at least 1,000,000.", id="resources.E003"))
    return found


SLICE_BYTES = 64 * 1024
"""About a thousand lines: the script that counts them blocks `state` for a few milliseconds."""

MAX_PASS_BYTES = 32 * 1024 * 1024
MAX_PASS_SECONDS = 1.0
POSITION_KEPT_SECONDS = 86_400
"""The position in a missing file is kept for this long: the file may be in the middle of a rename."""

UNREADABLE_KIND = "unreadable"


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The progress in one log's files: by identity, the counted bytes and the time when the file was last seen."""

    source: str
    text: bytes = b""
    counted: dict[str, tuple[int, float]] = field(default_factory=dict)

    @classmethod
    def load(cls, source: str) -> "LogPosition":
        """Loads the position from `state`. Raises StoreUnavailable."""
        text = popularity.load_position(source)
        held = json.loads(text or b"{}")
        return cls(source, text, {identity: (int(end), float(seen)) for identity, (end, seen) in held.items()})

    def of(self, file: LogFile) -> int:
        return self.counted.get(file.identity, (0, 0.0))[0]

    def advanced(self, file: LogFile, end: int, present: Sequence[LogFile], now: float) -> "LogPosition":
        """The position with that file counted up to `end`, without files that have been gone for long."""
        recent = {known: held for known, held in self.counted.items() if abs(now - held[1]) < POSITION_KEPT_SECONDS}
        seen = {one.identity: (self.of(one), now) for one in present}
        counted = {**recent, **seen, file.identity: (end, now)}
        return LogPosition(self.source, json.dumps(counted, separators=(",", ":")).encode(), counted)


def read_traffic() -> int:
    """Counts the lines since the last pass. Returns the number of bytes. Raises StoreUnavailable.

    Does nothing while another pass holds the log. Bounded in bytes and seconds. The log is rotated even if the pass
    fails.
    """
    log: Path = settings.TRAFFIC_LOG
    if not settings.OBSERVE or not log.parent.is_dir():
        return 0
    with log_files.hold_log(log) as source:
        if source is None:
            return 0
        one = LogPass(LogPosition(source))
        try:
            return one.read(log)
        finally:
            _keep_bounded(log, one.position)


def _keep_bounded(log: Path, position: LogPosition) -> None:
    """Rotates the log, and logs the bytes that were dropped from too large files. Unknown bytes count as lost."""
    max_bytes: int = settings.TRAFFIC_LOG_MAX_BYTES
    log_files.rotate_log(log, max_bytes, settings.NGINX_PID_FILE, time.time())
    counted_bytes = {identity: end for identity, (end, _) in position.counted.items()}
    if lost := log_files.drop_oldest(log, log_files.MAX_KEPT_LOGS * max_bytes, counted_bytes):
        _log.error("lines were dropped before they were counted", extra={"bytes": lost})


@dataclass(slots=True)
class LogPass:
    """One pass and its progress."""

    position: LogPosition
    """Empty before `read`."""

    deadline: float = field(default_factory=lambda: time.monotonic() + MAX_PASS_SECONDS)
    bytes_read: int = 0

    def read(self, log: Path) -> int:
        """Counts file by file, and removes counted files that were put aside. Returns the number of bytes."""
        self.position = LogPosition.load(self.position.source)
        with log_files.open_logs(log, time.time()) as files:
            for file in files:
                if not self._read_file(file, files):
                    break
                log_files.remove_counted(file.path, log, time.time())
        return self.bytes_read

    def _read_file(self, file: LogFile, files: Sequence[LogFile]) -> bool:
        """Counts the file to its end. Returns False if the pass has to end before."""
        while self.bytes_read < MAX_PASS_BYTES and time.monotonic() < self.deadline:
            found = log_files.read_slice(file, self.position.of(file), SLICE_BYTES)
            if found is None or not file.is_still_the_same():  # another one now: for the next pass
                return True
            if not self._count(file, found, files):
                return False
        return False

    def _count(self, file: LogFile, found: LogSlice, files: Sequence[LogFile]) -> bool:
        """Counts a slice. Returns False if another process has moved the position."""
        now = time.time()
        tally = tally_lines(found.data, now, conf.conf().POPULARITY_HALF_LIFE_SECONDS, name_address)
        after = self.position.advanced(file, found.end, files, now)
        hits = [*_tally_hits(tally, now), *_prepared_hits(tally)]
        call = popularity.count_call(after.source, self.position.text, after.text, hits, tally.weights)
        if stores.execute_patiently(call) != 1:
            return False
        self.bytes_read += found.end - self.position.of(file)
        self.position = after
        note_wanted(tally.noted, datetime.fromtimestamp(now, UTC))
        return True


def _tally_hits(tally: TrafficTally, now: float) -> list[PeriodHits]:
    """The tally's hits. Those that prove the existence of their group come first."""
    found = [
        PeriodHits(*group, answer.name, answer.wanted, period, number)
        for (group, answer, period), number in tally.hits.items()
    ]
    if tally.unreadable:
        period = popularity.period_number(now, now)
        found.append(PeriodHits(UNREADABLE_KIND, "", "other", exists=False, period=period, number=tally.unreadable))
    return sorted(found, key=lambda hit: not hit.exists)


def _prepared_hits(tally: TrafficTally) -> list[PeriodHits]:
    """The tally's requests that found content which pre-warming had prepared. None while a store is away."""
    try:
        found = prepared.find_prepared({content_key for content_key, _, _ in tally.at_once})
    except StoreUnavailable:
        return []
    return [
        PeriodHits(prepared.found_kind(popularity.content_kind(key)), "", answer.name, True, period, number)
        for (key, answer, period), number in tally.at_once.items()
        if key in found
    ]


class RequestsCollector(Collector):
    """Asks `state` at each scrape. Gives nothing if it does not answer: other figures must not wait."""

    def collect(self) -> Iterator[CounterMetricFamily]:
        try:
            totals = popularity.load_totals()
        except StoreUnavailable:
            return
        text = "Requests by what they asked for and how the front answered"
        family = CounterMetricFamily("tarry_requests", text, labels=["kind", "group", "answer"])
        for one in totals:
            family.add_metric([one.kind, one.group, one.answer], one.number)
        if totals:
            yield family


requests_registry = CollectorRegistry()
requests_registry.register(RequestsCollector())
