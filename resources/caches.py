"""Caches of rows: a snapshot held in a process's memory, and look-ups of many keys behind Redis.

`Snapshot` is read again now and then while it is used. While the database is unreachable, its rows only grow older.

A call of a `cached_batch` costs one trip to Redis for the keys that the process does not know, and one call of the
loader for the keys that Redis does not know. Keys that the loader does not find are not cached. An unreachable
Redis costs its timeout once, then nothing for a second: the loader answers. Writes that Redis missed are made up
for by deleting those keys before the next read. Of two writers of a key the slower may have the older value: where
another value is held, the loader is asked again.

Django's cache does not replace this: it cannot write many keys only where there are none, each with a lifetime of its
own, nor tell which writes an outage has lost.
"""

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import update_wrapper
from threading import Lock
from typing import Generic, TypeVar, cast

from django.db import Error as DatabaseError
from redis import Redis
from redis.exceptions import RedisError

from retry import metrics, servers, stores
from retry.servers import CircuitBreaker

SNAPSHOT_WAIT_SECONDS = 2.0
"""The time that a caller waits for another thread's reading, if the rows held are too old."""

Known = TypeVar("Known")

_snapshot_log = logging.getLogger("tarry.snapshots")


class Snapshot(Generic[Known]):
    """The result of `read`, read again every `seconds` while it is used. `what` names it in the log."""

    def __init__(self, what: str, read: Callable[[], Known], seconds: Callable[[], float]) -> None:
        self._what = what
        self._read = read
        self._seconds = seconds
        self._lock = Lock()
        self._sent = -math.inf
        self.forget()

    def get(self) -> Known:
        """Returns the rows. Raises DatabaseError only if they could never be read."""
        if not self._known or self._is_due():
            self._renew()
        if not self._known:
            raise DatabaseError(f"{self._what} could not be read")
        return self._known[0]

    def current(self) -> Known | None:
        """Returns the rows; or None to a caller that is to `get` them, since they are due. Never waits.

        While they are nearly new, one caller is to get them, and the others have what is known.
        """
        known = self._known  # another thread may forget it
        if not known or not self._is_due():
            return known[0] if known else None
        now = time.monotonic()
        if self._is_nearly_new() and now - self._sent < SNAPSHOT_WAIT_SECONDS:
            return known[0]
        self._sent = now
        return None

    def forget(self) -> None:
        with self._lock:
            self._known: tuple[Known] | tuple[()] = ()
            self._taken = self._tried = -math.inf

    def _is_due(self) -> bool:
        return time.monotonic() - self._tried >= self._seconds()

    def _renew(self) -> None:
        """Reads, or waits a short time for the thread that is reading."""
        if not self._lock.acquire(timeout=self._patience_seconds()):
            return
        try:
            if self._is_due():  # no other thread has asked while this one waited
                self._take()
        finally:
            self._lock.release()

    def _patience_seconds(self) -> float:
        """Returns 0 for rows that are nearly new, and while the database fails: waiting would bring nothing better."""
        failing = self._tried > self._taken
        return 0 if self._known and (self._is_nearly_new() or failing) else SNAPSHOT_WAIT_SECONDS

    def _is_nearly_new(self) -> bool:
        return time.monotonic() - self._taken < 2 * self._seconds()

    def _take(self) -> None:
        try:
            self._known = (self._read(),)
        except DatabaseError:
            self._tried = time.monotonic()  # after the attempt: a database that fails slowly is not asked again at once
            _snapshot_log.warning("%s could not be read", self._what, exc_info=True)
        else:
            self._taken = self._tried = time.monotonic()
            self._sent = -math.inf


Value = TypeVar("Value")
Loader = Callable[[Sequence[str]], Mapping[str, Value]]

KEYS_PER_MGET = 1000
"""Keys of one MGET: the server has other clients. All MGETs go in one trip."""
MAX_PIPELINE_COMMANDS = 10_000
"""Commands in one trip: a million at once would take longer than the server's timeout."""
FORGOTTEN_VALUE = b""
"""The value of a key forgotten a moment ago: a process that had read the old value does not write it back."""
FORGOTTEN_SECONDS = 10
MAX_UNTOLD_KEYS = 100_000
"""Keys remembered for an unreachable server to forget. Beyond that, it may serve the oldest of them until they expire.
"""

NOTE_SCRIPT = """
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] and (ARGV[3] == '' or string.sub(held, 1, #ARGV[3]) ~= ARGV[3]) then
  return redis.call('SET', KEYS[1], '', 'EX', ARGV[4])
end
return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
"""
"""Caches a value, or marks the key as forgotten if it holds another one, or was forgotten a moment ago.

ARGV: value lifetime_ms provisional forgotten_seconds
"""

_batch_log = logging.getLogger("tarry.cached_batch")


@dataclass(frozen=True, slots=True)
class CacheFormat(Generic[Value]):
    """The form in which values are cached (bytes that are never empty), and for how long.

    `read` raises ValueError for bytes of another version, which count as absent. `seconds` is the time that Redis
    keeps a value; `memory_seconds` and `memory_size` bound the memory of the process. Values that begin with
    `provisional`, in bytes, give way to any other one.
    """

    prefix: str
    write: Callable[[Value], bytes]
    read: Callable[[bytes], Value]
    seconds: Callable[[Value], float]
    memory_seconds: Callable[[], float]
    memory_size: int = 100_000
    provisional: bytes = b""


@dataclass(slots=True)
class _ProcessMemory(Generic[Value]):
    """The values used last, each until a moment (monotonic)."""

    size: int
    held: "OrderedDict[str, tuple[float, Value]]" = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def find(self, keys: Iterable[str], now: float) -> dict[str, Value]:
        found = {}
        with self.lock:
            for key in keys:
                until, value = self.held.get(key, (0.0, None))
                if until > now:
                    found[key] = cast(Value, value)
        return found

    def keep(self, values: Mapping[str, Value], until: float) -> None:
        with self.lock:
            for key, value in values.items():
                self.held.pop(key, None)
                self.held[key] = (until, value)
            while len(self.held) > self.size:
                self.held.popitem(last=False)

    def forget(self, keys: Iterable[str]) -> None:
        with self.lock:
            for key in keys:
                self.held.pop(key, None)


class CachedBatch(Generic[Value]):
    """The loader behind both caches. Call it with keys; `note` written values, `forget` removed ones."""

    def __init__(self, load: Loader[Value], kept: CacheFormat[Value], address: Callable[[], str], at_once: int) -> None:
        update_wrapper(self, load)
        self._load = load
        self._kept = kept
        self._address = address
        self._at_once = at_once
        self._memory: _ProcessMemory[Value] = _ProcessMemory(kept.memory_size)
        self._breaker = CircuitBreaker()
        self._untold: dict[str, None] = {}

    def __call__(self, keys: Iterable[str]) -> dict[str, Value]:
        """Returns the known values by key. Raises only the loader's errors."""
        now = time.monotonic()
        asked = list(dict.fromkeys(keys))
        found = self._memory.find(asked, now)
        missing = [key for key in asked if key not in found]
        if not missing:
            return found
        self._send_missed_forgets()
        cached = self._read(missing)
        left = [key for key in missing if key not in cached]
        loaded = self._loaded(left)
        if loaded:
            self.note_new(loaded)
        fresh = cached | loaded
        self._memory.keep(fresh, now + self._kept.memory_seconds())
        return found | fresh

    def note(self, values: Mapping[str, Value]) -> None:
        """Caches values just written to the loader's source, where no other process has cached others. Never fails."""
        self._memory.keep(values, time.monotonic() + self._kept.memory_seconds())
        self._tell(list(values), [self._noting(key, value) for key, value in values.items()])

    def note_new(self, values: Mapping[str, Value]) -> None:
        """Caches values in Redis without overwriting any: one written or forgotten meanwhile is newer. Never fails."""
        commands = [("SET", self._name(key), *self._packed(value), "NX") for key, value in values.items()]
        self._execute(commands)

    def forget(self, keys: Iterable[str]) -> None:
        """Has the loader asked again. Other processes follow once their own memory has expired. Never fails."""
        names = list(keys)
        self._memory.forget(names)
        self._tell(names, self._forgetting(names))

    def _name(self, key: str) -> str:
        return f"{self._kept.prefix}:{key}"

    def _loaded(self, keys: Sequence[str]) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for start in range(0, len(keys), self._at_once):
            found |= self._load(keys[start : start + self._at_once])
        return found

    def _read(self, keys: Sequence[str]) -> dict[str, Value]:
        slices = [keys[start : start + KEYS_PER_MGET] for start in range(0, len(keys), KEYS_PER_MGET)]
        replies = self._execute([("MGET", *map(self._name, some)) for some in slices])
        found: dict[str, Value] = {}
        for some, reply in zip(slices, replies, strict=False):  # an unreachable server sends none
            for key, packed in zip(some, cast(list[bytes | None], reply), strict=True):
                if packed:
                    with suppress(ValueError):  # of another version: counts as absent
                        found[key] = self._kept.read(packed)
        return found

    def _noting(self, key: str, value: Value) -> tuple[object, ...]:
        packed, _, milliseconds = self._packed(value)
        rest = (self._kept.provisional, FORGOTTEN_SECONDS)
        return ("EVAL", NOTE_SCRIPT, 1, self._name(key), packed, milliseconds, *rest)

    def _packed(self, value: Value) -> tuple[bytes, str, int]:
        """Returns the value and its lifetime as arguments of SET."""
        return self._kept.write(value), "PX", int(self._kept.seconds(value) * 1000)

    def _forgetting(self, keys: Iterable[str]) -> list[tuple[object, ...]]:
        return [("SET", self._name(key), FORGOTTEN_VALUE, "EX", FORGOTTEN_SECONDS) for key in keys]

    def _tell(self, keys: Sequence[str], commands: Sequence[tuple[object, ...]]) -> None:
        """Sends one command per key. Remembers the keys that the server missed: its values of them may be outdated."""
        missed = keys[len(self._execute(commands)) :]
        self._untold.update(dict.fromkeys(missed))
        for key in list(self._untold)[: max(0, len(self._untold) - MAX_UNTOLD_KEYS)]:
            self._untold.pop(key, None)

    def _send_missed_forgets(self) -> None:
        keys = list(self._untold)
        for key in keys[: len(self._execute(self._forgetting(keys)))]:
            self._untold.pop(key, None)

    def _execute(self, commands: Sequence[tuple[object, ...]]) -> list[object]:
        """Sends the commands in as few trips as possible. Returns the replies up to the first failed trip."""
        replies: list[object] = []
        for start in range(0, len(commands), MAX_PIPELINE_COMMANDS):
            found = self._execute_at_once(commands[start : start + MAX_PIPELINE_COMMANDS])
            if not found:
                break
            replies += found
        return replies

    def _execute_at_once(self, commands: Sequence[tuple[object, ...]]) -> list[object]:
        if not self._breaker.allows(time.monotonic()):
            return []
        try:
            with metrics.time_call("redis.seen"):
                replies = _run_pipeline(stores.fast_client_at(self._address()), commands)
        except RedisError as error:
            self._breaker.failed(time.monotonic())
            _batch_log.warning("a cache is away", extra={"cache": self._kept.prefix, "error": str(error)})
            return []
        self._breaker.succeeded()
        return replies


def cached_batch(
    kept: CacheFormat[Value], address: Callable[[], str], *, at_once: int = 900
) -> Callable[[Loader[Value]], CachedBatch[Value]]:
    """Decorates a loader, a function from keys to the values found. `address` is the Redis server's URL.

    The loader gets `at_once` keys at a time: SQLite before version 3.32 takes 999 variables in a statement.
    """

    def decorate(load: Loader[Value]) -> CachedBatch[Value]:
        return CachedBatch(load, kept, address, at_once)

    return decorate


def _run_pipeline(client: Redis, commands: Sequence[tuple[object, ...]]) -> list[object]:
    replies = servers.run_pipeline(client, commands)
    for reply in replies:
        if isinstance(reply, RedisError):
            raise reply
    return replies
