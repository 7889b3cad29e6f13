"""One pass over the traffic log of this machine: reads what is new, counts it, rotates.

Lines are counted in the same step in `state` that moves the position behind them, so that a pass
that is killed at any moment neither loses nor doubles one. Where `state` takes nothing for so long that
the files would fill the disk, the oldest are dropped.
"""

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings

from retry import conf, connections, periods, popularity

from . import journal, naming, rotating, tallying
from .journal import LogFile, Slice

SLICE_BYTES = 64 * 1024
"""About a thousand lines: the script that counts them holds `state` up for a few milliseconds."""

PASS_BYTES = 32 * 1024 * 1024
PASS_SECONDS = 1.0
FORGET_SECONDS = 86_400
"""How long the position in a file that is not there is kept: it may be in the middle of a rename."""

UNREADABLE = "unreadable"

_log = logging.getLogger("tarry.traffic")


@dataclass(frozen=True, slots=True)
class Position:
    """How far the files of one log have been counted: by identity, the bytes and when the file was last seen."""

    source: str
    text: bytes = b""
    counted: dict[str, tuple[int, float]] = field(default_factory=dict)

    @classmethod
    def load(cls, source: str) -> "Position":
        """The position as `state` holds it. Raises StoreUnavailable."""
        text = popularity.position(source)
        held = json.loads(text or b"{}")
        return cls(source, text, {identity: (int(end), float(seen)) for identity, (end, seen) in held.items()})

    def of(self, file: LogFile) -> int:
        return self.counted.get(file.identity, (0, 0.0))[0]

    def advanced(self, file: LogFile, end: int, present: Sequence[LogFile], now: float) -> "Position":
        """The position with that file counted up to `end`, without files that are long gone."""
        recent = {identity: held for identity, held in self.counted.items() if abs(now - held[1]) < FORGET_SECONDS}
        seen = {one.identity: (self.of(one), now) for one in present}
        counted = {**recent, **seen, file.identity: (end, now)}
        return Position(self.source, json.dumps(counted, separators=(",", ":")).encode(), counted)


def read_traffic() -> int:
    """Counts what was logged since the last pass; how many bytes that were. Raises StoreUnavailable.

    Does nothing while another pass is at the same log. Bounded in bytes and seconds. Whatever becomes of it, the log
    is rotated.
    """
    log: Path = settings.TRAFFIC_LOG
    if not settings.OBSERVE or not log.parent.is_dir():
        return 0
    with journal.held(log) as source:
        if source is None:
            return 0
        one = Pass(Position(source))
        try:
            return one.read(log)
        finally:
            _keep_bounded(log, one.position)


def _keep_bounded(log: Path, position: Position) -> None:
    """Rotates, and tells what is lost where it was too much. What the position does not know counts as lost."""
    max_bytes: int = settings.TRAFFIC_LOG_MAX_BYTES
    rotating.rotate(log, max_bytes, settings.NGINX_PID_FILE, time.time())
    counted_bytes = {identity: end for identity, (end, _) in position.counted.items()}
    if lost := rotating.drop(log, rotating.KEPT_LOGS * max_bytes, counted_bytes):
        _log.error("lines were dropped before they were counted", extra={"bytes": lost})


@dataclass(slots=True)
class Pass:
    """How far one pass is."""

    position: Position
    """Of no file before `read`."""

    deadline: float = field(default_factory=lambda: time.monotonic() + PASS_SECONDS)
    bytes_read: int = 0

    def read(self, log: Path) -> int:
        """Counts file by file, and removes those put aside that are counted; how many bytes were counted."""
        self.position = Position.load(self.position.source)
        with journal.opened(log, time.time()) as files:
            for file in files:
                if not self._read_file(file, files):
                    break
                rotating.remove(file.path, log, time.time())
        return self.bytes_read

    def _read_file(self, file: LogFile, files: Sequence[LogFile]) -> bool:
        """Counts the file to its end; False when the pass has to end before."""
        while self.bytes_read < PASS_BYTES and time.monotonic() < self.deadline:
            found = journal.read(file, self.position.of(file), SLICE_BYTES)
            if found is None or not file.is_still_the_same():  # another one now: for the next pass
                return True
            if not self._count(file, found, files):
                return False
        return False

    def _count(self, file: LogFile, found: Slice, files: Sequence[LogFile]) -> bool:
        """Counts a slice; False when the position is not what it was: somebody else has counted."""
        now = time.time()
        tally = tallying.tally(found.data, now, conf.conf().POPULARITY_HALF_LIFE_SECONDS, naming.name)
        after = self.position.advanced(file, found.end, files, now)
        call = popularity.counting(after.source, self.position.text, after.text, _hits(tally, now), tally.wishes)
        if connections.execute_patiently(call) != 1:
            return False
        self.bytes_read += found.end - self.position.of(file)
        self.position = after
        naming.note(tally.noted, datetime.fromtimestamp(now, UTC))
        return True


def _hits(tally: tallying.Tally, now: float) -> list[popularity.Hit]:
    """The tally's hits, those that prove that their group exists first."""
    found = [
        popularity.Hit(kind, group, answer.name, answer.wanted, period, number)
        for ((kind, group), answer, period), number in tally.hits.items()
    ]
    if tally.unreadable:
        period = periods.period(now, now)
        found.append(popularity.Hit(UNREADABLE, "", "other", exists=False, period=period, number=tally.unreadable))
    return sorted(found, key=lambda hit: not hit.exists)
