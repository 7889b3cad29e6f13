"""Look-ups of many keys at once, remembered by the process and by a Redis server: `cached_batch`.

A call costs one trip to Redis for what the process does not know, and one call of the loader for what Redis does not
know. Nothing is kept of keys that the loader does not find. A Redis that is away costs its timeout once, then nothing
for a second: the loader answers. What it could not be told it is made to forget, before it is asked again.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper
from threading import Lock
from typing import Generic, TypeVar, cast

from redis import Redis
from redis.exceptions import RedisError

from retry import connections, observing
from retry.circuit import Breaker

Value = TypeVar("Value")
Loader = Callable[[Sequence[str]], Mapping[str, Value]]

ASKED_AT_ONCE = 1000
"""Keys of one MGET: the server has other clients. All of them go in one trip."""
MOST_COMMANDS = 10_000
"""In one trip: a million at once would wait for longer than the server may take."""
GONE = b""
"""Stands for what was forgotten a moment ago: whoever has read it before does not write it back."""
GONE_SECONDS = 10
MOST_UNTOLD = 100_000
"""Keys that a server which is away has to forget. When there are more it may know the first of them until they expire.
"""

_log = logging.getLogger("tarry.cached_batch")


@dataclass(frozen=True, slots=True)
class Kept(Generic[Value]):
    """How values are kept: as bytes that are never empty, and for how long.

    `read` raises ValueError for bytes of another version, which count as absent. `seconds` is how long Redis keeps a
    value; `memory_seconds` and `memory_size` bound what the process trusts its own memory with.
    """

    prefix: str
    write: Callable[[Value], bytes]
    read: Callable[[bytes], Value]
    seconds: Callable[[Value], float]
    memory_seconds: Callable[[], float]
    memory_size: int = 100_000


@dataclass(slots=True)
class _Memory(Generic[Value]):
    """What was used last, until a moment (monotonic)."""

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
    """The loader behind both memories. Call it with keys; `note` what was written, `forget` what was removed."""

    def __init__(self, load: Loader[Value], kept: Kept[Value], address: Callable[[], str], at_once: int) -> None:
        update_wrapper(self, load)
        self._load = load
        self._kept = kept
        self._address = address
        self._at_once = at_once
        self._memory: _Memory[Value] = _Memory(kept.memory_size)
        self._breaker = Breaker()
        self._untold: dict[str, None] = {}

    def __call__(self, keys: Iterable[str]) -> dict[str, Value]:
        """What is known of the keys, by key. Raises only what the loader raises."""
        now = time.monotonic()
        asked = list(dict.fromkeys(keys))
        found = self._memory.find(asked, now)
        missing = [key for key in asked if key not in found]
        if not missing:
            return found
        self._tell_what_it_missed()
        cached = self._read(missing)
        left = [key for key in missing if key not in cached]
        loaded = self._loaded(left)
        if loaded:
            self._write(loaded, only_new=True)
        fresh = cached | loaded
        self._memory.keep(fresh, now + self._kept.memory_seconds())
        return found | fresh

    def note(self, values: Mapping[str, Value]) -> None:
        """Makes known what was just written to where the loader reads. Never fails."""
        self._memory.keep(values, time.monotonic() + self._kept.memory_seconds())
        self._write(values, only_new=False)

    def note_new(self, values: Mapping[str, Value]) -> None:
        """The same for what nobody may have written over meanwhile: what is known already stays. Never fails."""
        self._write(values, only_new=True)

    def forget(self, keys: Iterable[str]) -> None:
        """The loader has to be asked again. Other processes know it once their own memory has run out. Never fails."""
        names = list(keys)
        self._memory.forget(names)
        self._tell(names, self._forgetting(names))

    def forget_all_here(self) -> None:
        """Empties the memory of this process, and closes the circuit: for tests."""
        self._memory.held.clear()
        self._untold.clear()
        self._breaker.succeeded()

    def _name(self, key: str) -> str:
        return f"{self._kept.prefix}:{key}"

    def _loaded(self, keys: Sequence[str]) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for start in range(0, len(keys), self._at_once):
            found |= self._load(keys[start : start + self._at_once])
        return found

    def _read(self, keys: Sequence[str]) -> dict[str, Value]:
        slices = [keys[start : start + ASKED_AT_ONCE] for start in range(0, len(keys), ASKED_AT_ONCE)]
        replies = self._execute([("MGET", *map(self._name, some)) for some in slices])
        found: dict[str, Value] = {}
        for some, reply in zip(slices, replies, strict=False):  # there are none from a server that is away
            for key, packed in zip(some, cast(list[bytes | None], reply), strict=True):
                if packed:
                    self._unpack(key, packed, found)
        return found

    def _unpack(self, key: str, packed: bytes, found: dict[str, Value]) -> None:
        try:
            found[key] = self._kept.read(packed)
        except ValueError:  # of another version: as good as absent
            return

    def _write(self, values: Mapping[str, Value], *, only_new: bool) -> None:
        """`only_new`: what was written actively meanwhile, or forgotten, is newer than what was read."""
        condition = ("NX",) if only_new else ()
        commands = [
            ("SET", self._name(key), self._kept.write(value), "PX", int(self._kept.seconds(value) * 1000), *condition)
            for key, value in values.items()
        ]
        if only_new:
            self._execute(commands)
        else:
            self._tell(list(values), commands)

    def _forgetting(self, keys: Iterable[str]) -> list[tuple[object, ...]]:
        return [("SET", self._name(key), GONE, "EX", GONE_SECONDS) for key in keys]

    def _tell(self, keys: Sequence[str], commands: Sequence[tuple[object, ...]]) -> None:
        """A command for each key. What the server knows of those that it missed may not be right any more."""
        missed = keys[len(self._execute(commands)) :]
        self._untold.update(dict.fromkeys(missed))
        for key in list(self._untold)[: max(0, len(self._untold) - MOST_UNTOLD)]:
            self._untold.pop(key, None)

    def _tell_what_it_missed(self) -> None:
        keys = list(self._untold)
        for key in keys[: len(self._execute(self._forgetting(keys)))]:
            self._untold.pop(key, None)

    def _execute(self, commands: Sequence[tuple[object, ...]]) -> list[object]:
        """The replies, in one trip for all that a list holds; none from where on the server is away."""
        slices = [commands[start : start + MOST_COMMANDS] for start in range(0, len(commands), MOST_COMMANDS)]
        replies: list[object] = []
        for some in slices:
            found = self._execute_at_once(some)
            if not found:
                break
            replies += found
        return replies

    def _execute_at_once(self, commands: Sequence[tuple[object, ...]]) -> list[object]:
        if not self._breaker.allows(time.monotonic()):
            return []
        try:
            with observing.timed("redis.seen"):
                replies = _piped(connections.client_at(self._address()), commands)
        except RedisError as error:
            self._breaker.failed(time.monotonic())
            _log.warning("a cache is away", extra={"cache": self._kept.prefix, "error": str(error)})
            return []
        self._breaker.succeeded()
        return replies


def cached_batch(
    kept: Kept[Value], address: Callable[[], str], *, at_once: int = 900
) -> Callable[[Loader[Value]], CachedBatch[Value]]:
    """Decorates a loader, from keys to what is found of them. `address` is the Redis server's URL.

    The loader gets `at_once` keys at a time: SQLite before version 3.32 takes 999 variables in a statement.
    """

    def decorate(load: Loader[Value]) -> CachedBatch[Value]:
        return CachedBatch(load, kept, address, at_once)

    return decorate


def _piped(client: Redis, commands: Sequence[tuple[object, ...]]) -> list[object]:
    with client.pipeline(transaction=False) as pipeline:
        for command in commands:
            pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
        return list(pipeline.execute())
