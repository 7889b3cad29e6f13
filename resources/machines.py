"""The registry of machines in `state`: a record for each, which its supervisord renews every ten seconds.

Times are those of the clock of `state`: a machine whose own clock is wrong is heard like any other, and its skew is
known. Records have digests of the settings that all machines must share, never the settings. A machine that ends says
so; one that falls silent is overdue, and is remembered for a day.

All records are fields of one hash, since a Redis Cluster has each key on one node. Imports nothing of Django:
supervisord has this in memory.
"""

import hmac
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import scrypt
from threading import Thread
from typing import Any, cast

from redis import Redis
from redis.exceptions import RedisError

KEY = "machines:{machines}"
HEARD_EVERY_SECONDS = 10
OVERDUE_SECONDS = 30.0
REMEMBERED_SECONDS = 86_400.0
MAX_SKEW_SECONDS = 2.0
"""The greatest skew of a clock without a warning."""

RUNNING, DRAINING, STOPPED = "running", "draining", "stopped"

_DIGEST_LABEL = b"tarry: a setting that all machines share"
_DIGEST_BYTES = 8

_NOTE_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local skew = string.format('%.3f', ARGV[2] - now)
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.3f', now) .. ' ' .. skew .. ' ' .. ARGV[3])
return skew"""
_READ_SCRIPT = """
local time = redis.call('TIME')
return {string.format('%.3f', time[1] + time[2] / 1000000), redis.call('HGETALL', KEYS[1])}"""

_FACTS = (
    *("installation", "condition", "version", "up_seconds", "digests"),
    *("disk_free_bytes", "disk_bytes", "disk_max_bytes", "disk_parts", "disk_trouble"),
)
"""The facts of a record that are kept as they are."""

Digests = Mapping[str, Sequence[str]]
"""By the name of a setting its digest, and those of other values that this machine accepts from others."""


@dataclass(frozen=True, slots=True)
class MachineProcess:
    """A supervised process. `workers` of it take from each of the `queues`."""

    name: str
    role: str
    is_running: bool = False
    queues: tuple[str, ...] = ()
    workers: int = 1


@dataclass(frozen=True, slots=True)
class HeardMachine:
    """The record of a machine, with the seconds since it was heard.

    `skew_seconds` is by how much its clock is ahead of that of `state`.
    """

    name: str
    heard_ago_seconds: float
    skew_seconds: float
    installation: str = ""
    condition: str = RUNNING
    version: str = ""
    roles: tuple[str, ...] = ()
    processes: tuple[MachineProcess, ...] = ()
    disk_free_bytes: int = 0
    disk_bytes: int = 0
    up_seconds: float = 0
    disk_max_bytes: int = 0
    """DISK_MAX_BYTES; 0 without a bound. `disk_parts` has the bytes of each part then."""
    disk_parts: Mapping[str, int] = field(default_factory=dict)
    disk_trouble: str = ""
    digests: Digests = field(default_factory=dict)

    @property
    def is_alive(self) -> bool:
        return self.condition != STOPPED and self.heard_ago_seconds <= OVERDUE_SECONDS

    @property
    def is_overdue(self) -> bool:
        return self.condition != STOPPED and self.heard_ago_seconds > OVERDUE_SECONDS

    @property
    def is_skewed(self) -> bool:
        return abs(self.skew_seconds) > MAX_SKEW_SECONDS

    @property
    def running(self) -> tuple[MachineProcess, ...]:
        return tuple(process for process in self.processes if process.is_running) if self.is_alive else ()

    @property
    def queues(self) -> list[str]:
        """The queues of Celery that it consumes."""
        return sorted({queue for process in self.running for queue in process.queues})

    def count_by_role(self) -> dict[str, tuple[int, int]]:
        """Counts its processes by role: those that run, and those that should."""
        wanted = {process.role for process in self.processes}
        return {
            role: (
                sum(process.role == role for process in self.running),
                sum(process.role == role for process in self.processes),
            )
            for role in sorted(wanted)
        }


def note_machine(client: Redis, name: str, facts: Mapping[str, Any]) -> float:
    """Writes the machine's record. Returns the skew of this clock in seconds. Raises RedisError."""
    return float(cast(bytes, client.eval(_NOTE_SCRIPT, 1, KEY, name, repr(time.time()), json.dumps(facts))))


def read_machines(client: Redis) -> list[HeardMachine]:
    """Reads the records, in the order of names. Forgets machines without a word for a day. Raises RedisError."""
    now, found = cast("tuple[bytes, list[bytes]]", client.eval(_READ_SCRIPT, 1, KEY))
    records = dict(zip(found[::2], found[1::2], strict=True))
    parsed = (_parse_record(name.decode(), text, float(now)) for name, text in records.items())
    machines = [machine for machine in parsed if machine is not None]
    if old := [one.name for one in machines if one.heard_ago_seconds > REMEMBERED_SECONDS]:
        client.hdel(KEY, *old)
    return sorted((one for one in machines if one.name not in old), key=lambda one: one.name)


def forget_machine(client: Redis, name: str) -> bool:
    """Forgets a machine that is not heard. Returns False for one that is, or is not known. Raises RedisError."""
    silent = {one.name for one in read_machines(client) if not one.is_alive}
    return name in silent and bool(client.hdel(KEY, name))


def read_clock(client: Redis) -> float:
    """Returns the time of `state` in Unix seconds. Raises RedisError."""
    now, _ = cast("tuple[bytes, object]", client.eval(_READ_SCRIPT, 1, f"{KEY}:none"))
    return float(now)


def _parse_record(name: str, text: bytes, now: float) -> HeardMachine | None:
    """Parses a record. None if another version has written it in a way that is not known here."""
    try:
        heard, skew, facts = text.decode().split(" ", 2)
        return _make_machine(name, max(0.0, now - float(heard)), float(skew), json.loads(facts))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _make_machine(name: str, ago_seconds: float, skew_seconds: float, given: Mapping[str, Any]) -> HeardMachine:
    known = {fact: given[fact] for fact in _FACTS if fact in given}
    processes = tuple(
        MachineProcess(one["name"], one["role"], one["is_running"], tuple(one["queues"]), one["workers"])
        for one in given.get("processes", ())
    )
    roles = tuple(given.get("roles", ()))
    return HeardMachine(name, ago_seconds, skew_seconds, roles=roles, processes=processes, **known)


def count_workers(machines: Iterable[HeardMachine]) -> dict[str, int]:
    """Counts the workers of living machines by queue."""
    counts: dict[str, int] = {}
    for process in (process for machine in machines for process in machine.running):
        for queue in process.queues:
            counts[queue] = counts.get(queue, 0) + process.workers
    return counts


def list_differences(name: str, digests: Digests, machines: Iterable[HeardMachine]) -> Iterator[tuple[str, str]]:
    """Yields each setting that a living machine has otherwise than this one, with that machine's name."""
    for machine in machines:
        if machine.is_alive and machine.name != name:
            for setting, own in digests.items():
                if setting in machine.digests and not _agree(own, machine.digests[setting]):
                    yield setting, machine.name


def _agree(one: Sequence[str], other: Sequence[str]) -> bool:
    """Tells whether each has the value of the other, or accepts it: as a secret key that is being rotated."""
    return one[0] in other and other[0] in one


def list_troubles(machines: Sequence[HeardMachine]) -> Iterator[tuple[str, str]]:
    """Yields what is wrong with machines: a name, and a clause about it."""
    for machine in machines:
        if machine.is_overdue:
            yield machine.name, f"not heard for {machine.heard_ago_seconds:.0f} s"
        elif machine.is_alive:
            if machine.is_skewed:
                yield machine.name, describe_skew(machine.skew_seconds)
            if machine.disk_trouble:
                yield machine.name, machine.disk_trouble
            for setting, other in list_differences(machine.name, machine.digests, machines):
                if machine.name < other:  # once for both
                    yield machine.name, f"has another {setting} than {other}"


def describe_skew(skew_seconds: float) -> str:
    return f"its clock is {abs(skew_seconds):.1f} s {'ahead' if skew_seconds > 0 else 'behind'}"


def digest_setting(name: str, value: object) -> str:
    """Returns a digest of a value that is no secret."""
    return hmac.new(_DIGEST_LABEL, f"{name}\0{value}".encode(), "sha256").hexdigest()[: 2 * _DIGEST_BYTES]


def digest_secret(name: str, value: str) -> str:
    """Returns a digest of a secret that takes 50 ms, so that a weak one cannot be guessed from it any sooner.

    Every ticket and session is signed with the secret key by a faster function: this digest tells no more.
    """
    return scrypt(value.encode(), salt=_DIGEST_LABEL + name.encode(), n=2**14, r=8, p=1, dklen=_DIGEST_BYTES).hex()


class WorkerCounts:
    """The counts of workers by queue, read again every few seconds by a thread: no caller waits for `state`."""

    def __init__(self, open_state: Callable[[], Redis], kept_seconds: float = HEARD_EVERY_SECONDS) -> None:
        self._open_state = open_state
        self._kept_seconds = kept_seconds
        self._next_at = -math.inf
        self._counts: dict[str, int] = {}

    def count(self, queue: str, now_seconds: float) -> int:
        """Returns the number of workers of living machines; 0 if none is known. `now_seconds` is monotonic."""
        if now_seconds >= self._next_at:
            self._next_at = now_seconds + self._kept_seconds
            Thread(target=self._read, daemon=True, name="worker-counts").start()
        return self._counts.get(queue, 0)

    def _read(self) -> None:
        try:
            self._counts = count_workers(read_machines(self._open_state()))
        except RedisError:
            self._counts = {}
