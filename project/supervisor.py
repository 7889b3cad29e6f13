"""`python -m project.supervised HOT [LOG MAX_BYTES NGINX_PID_FILE] -c FILE`: supervisord, with three ways of its own.

A closed terminal ends it as Ctrl-C does: by itself it takes HUP for the wish to start everything again, in a terminal
that is gone. It removes what a killed nginx worker left in the hot cache. And it keeps the log of traffic bounded where
no worker does, as it does the logs of the processes.

Imports nothing of Django, which would stay in memory for nothing.
"""

import signal
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from supervisor import events, options, supervisord

from resources.traffic import rotating

from . import unfinished

LEFT_TO_WORKERS = 2
"""So many times as large as the log is when a worker puts it aside, nobody does: it is put aside here."""


class Receiver(options.SignalReceiver):  # type: ignore[misc]  # untyped
    """Notes signals for supervisord's loop."""

    def receive(self, number: int, frame: FrameType | None) -> None:
        super().receive(signal.SIGTERM if number == signal.SIGHUP else number, frame)


@dataclass(frozen=True, slots=True)
class TrafficLog:
    """The log of traffic that nginx writes, and the size at which a worker puts it aside."""

    path: Path
    max_bytes: int
    nginx_pid_file: Path

    def keep_bounded(self) -> int:
        """Rotates it if no worker has; how many bytes were dropped, for what is put aside is bounded as well."""
        if not rotating.rotate(self.path, LEFT_TO_WORKERS * self.max_bytes, self.nginx_pid_file, time.time()):
            return 0
        return rotating.drop(self.path, rotating.KEPT_LOGS * self.max_bytes, {})


class Keeper(supervisord.Supervisor):  # type: ignore[misc]  # untyped
    """Looks after the log of traffic every 5 seconds, and after the hot cache every minute.

    What it did, or could not do, is in supervisord's own log.
    """

    def __init__(self, hot: Path, log: TrafficLog | None, given: options.ServerOptions) -> None:
        super().__init__(given)
        self._hot = hot
        self._log = log

    def runforever(self) -> None:
        events.subscribe(events.Tick60Event, self.remove_unfinished)
        if self._log is not None:
            events.subscribe(events.Tick5Event, partial(self.keep_bounded, self._log))
        super().runforever()

    def remove_unfinished(self, _: events.Tick60Event) -> None:
        try:
            removed = unfinished.remove(self._hot)
        except OSError as error:
            self.options.logger.warn(f"what a killed nginx worker was writing cannot be removed: {error}")
            return
        if removed:
            self.options.logger.info(f"what killed nginx workers were writing was removed: {removed}")

    def keep_bounded(self, log: TrafficLog, _: events.Tick5Event) -> None:
        try:
            lost = log.keep_bounded()
        except OSError as error:
            self.options.logger.warn(f"the log of traffic cannot be put aside: {error}")
            return
        if lost:
            self.options.logger.warn(f"nobody counts traffic: {lost} bytes of its log were dropped")


def main(*arguments: str) -> None:
    """Becomes supervisord."""
    own = arguments.index("-c")
    (hot, *traffic), given = arguments[:own], list(arguments[own:])
    log = None
    if traffic:
        path, max_bytes, nginx_pid_file = traffic
        log = TrafficLog(Path(path), int(max_bytes), Path(nginx_pid_file))
    supervisord.Supervisor = partial(Keeper, Path(hot), log)
    options.SignalReceiver = Receiver
    supervisord.main(given)


if __name__ == "__main__":
    main(*sys.argv[1:])
