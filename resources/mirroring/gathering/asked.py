"""The URLs that a fetcher asks for just now, with their rows as they were when it began."""

from threading import Lock

from retry.work import Argument

from .wanted import Wanted

MOST = 1000
"""More than a fetcher has places for. What never came back makes room for what is asked for now."""


class Asked:
    """By the arguments of the work. Whoever needs a row as it is now reads it anew."""

    def __init__(self, most: int = MOST) -> None:
        self._wanted: dict[tuple[Argument, ...], Wanted] = {}
        self._most = most
        self._lock = Lock()

    def note(self, arguments: tuple[Argument, ...], wanted: Wanted) -> None:
        """The oldest goes where there are too many."""
        with self._lock:
            self._wanted.pop(arguments, None)
            self._wanted[arguments] = wanted
            if len(self._wanted) > self._most:
                del self._wanted[next(iter(self._wanted))]

    def take(self, arguments: tuple[Argument, ...]) -> Wanted | None:
        """What was noted, which is forgotten; None when nothing was, or it had to make room."""
        with self._lock:
            return self._wanted.pop(arguments, None)
