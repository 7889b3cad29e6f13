"""Work: one piece of preparation. PURE."""

from .records import frozen_record

Argument = str | int | float


@frozen_record
class Work:
    """One piece of work. Does not name the contents that it prepares: there can be several.

    `key` names the work and includes the version of its data; durations are recorded under `kind`;
    `task(key, token, *arguments)` is the call that does it, in `lane` if a client waits for the result
    and in `refresh_lane` if stale content bridges the time.
    """

    key: str
    kind: str
    lane: str
    refresh_lane: str
    task: str
    arguments: tuple[Argument, ...] = ()
