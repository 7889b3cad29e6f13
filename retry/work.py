"""What is to be prepared, and how its records are named. PURE."""

from dataclasses import dataclass

Argument = str | int | float


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of work. Does not say which contents come out of it: several can.

    `key` names the work and includes the version of the data it rests on; durations are recorded
    under `kind`; `task(key, token, *arguments)` is the call that does it, in `lane` when somebody
    waits for the result and in `refresh_lane` when stale content bridges the time.
    """

    key: str
    kind: str
    lane: str
    refresh_lane: str
    task: str
    arguments: tuple[Argument, ...] = ()
