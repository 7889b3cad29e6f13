"""A few values, those used last. PURE."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(slots=True, eq=False)
class LastUsed(Generic[Value]):
    """Values by key, of which those used last are kept. Safe to share between threads."""

    _values: OrderedDict[Hashable, Value] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def find(self, key: Hashable) -> Value | None:
        """The value if it is kept. It is then the one used last."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def get(self, key: Hashable, make: Callable[[], Value], *, most: int) -> Value:
        """The value, made if it is not kept: twice when two threads ask at once. Keeps `most` values."""
        value = self.find(key)
        if value is None:
            value = make()
            with self._lock:
                self._values[key] = value
                while len(self._values) > most:
                    self._values.popitem(last=False)
        return value
