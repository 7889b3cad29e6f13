"""`python -m project.supervisor HOT DRAIN SECONDS MACHINE [LOG MAX_BYTES PID_FILE] -c FILE`: an extended supervisord.

Told to end, it drains first: all goes on for so many seconds, and the file DRAIN has balancers send no more requests.
A closed terminal ends it as Ctrl-C does: by itself supervisord takes HUP for a restart, in a terminal that is gone.
A client that waits until a process has stopped costs no processor: supervisord by itself looks without a pause.
It removes files that a killed nginx worker left in the hot cache. It bounds the traffic log if no worker does. It
renews this machine's record in `state`, with what the file MACHINE tells of it. Where the disk has a bound, it measures
the site's parts, and sets the room for new files.
Where it has programs of the site in Python, it loads the site, and forks them from itself (`program`).
"""

import gc
import json
import math
import os
import re
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from supervisor import events, options, process, supervisord, xmlrpc
from supervisor.states import ProcessStates

from resources import machines
from resources.disk.account import DiskAccount
from resources.disk.meter import DiskMeter, DiskPlaces, DiskUse
from resources.disk.shares import DiskShares
from resources.traffic import log_files
from retry import servers

from . import program

UNFINISHED_FILE_NAME = re.compile(r"[0-9a-f]{32}\.[0-9]{10}")
"""The name of the file of an answer until nginx has all of it."""

STATE_TIMEOUT_SECONDS = 0.5
"""supervisord waits so long for `state`, once in ten seconds."""

LEFT_FACTOR = 2
"""A log of so many times the workers' limit was left alone by all workers: it is rotated here."""


class EndingReceiver(options.SignalReceiver):  # type: ignore[misc]  # untyped
    """Takes HUP for TERM. The first TERM or INT begins the drain; its end, or a second one, ends supervisord."""

    def __init__(self, drain_file: Path, drain_seconds: float) -> None:
        super().__init__()
        self._drain_file = drain_file
        self._left_seconds = drain_seconds
        self._until = math.inf

    def receive(self, number: int, frame: FrameType | None) -> None:
        number = signal.SIGTERM if number == signal.SIGHUP else number
        if number in (signal.SIGTERM, signal.SIGINT) and self._left_seconds:
            self._drain_file.touch()
            self._until, self._left_seconds = time.monotonic() + self._left_seconds, 0
        else:
            super().receive(number, frame)

    def get_signal(self) -> int | None:
        if time.monotonic() >= self._until:
            self._until = math.inf
            return signal.SIGTERM
        found: int | None = super().get_signal()
        return found


class ForkingOptions(options.ServerOptions):  # type: ignore[misc]  # untyped
    """supervisord that forks the site's programs with their modules loaded, unless these have changed on the disk."""

    loaded_files: frozenset[int] = frozenset()
    """The descriptors of files that the loaded modules have opened, as prometheus_client does."""

    def load_site(self) -> None:
        """Loads the site. Where that fails, and once supervisord was reloaded, each program loads its code by itself.

        supervisord closes all files then, also those of the loaded modules, which may be old.
        """
        program.note_loaded_code()
        if not self.first:
            return
        before, digest = _own_descriptors(), program.digest_code()
        try:
            import_module("project.preload").load_site()
        except Exception as error:  # noqa: BLE001  the programs tell of it in their logs
            gc.enable()  # which loading it had disabled
            self.logger.warn(f"the site cannot be loaded: {error!r}")
            return
        self.loaded_files = frozenset(_own_descriptors() - before)
        program.note_loaded_code(digest)

    def close_fd(self, descriptor: int) -> None:
        """Closes one in a child. Those of loaded modules stay: they would close other files of the same number."""
        if descriptor not in self.loaded_files:
            super().close_fd(descriptor)

    def execve(self, filename: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Becomes the process, in a child."""
        if is_program(command) and program.is_code_current():
            program.run_forked(command, environment)
        super().execve(filename, command, environment)


def _own_descriptors() -> set[int]:
    folder = Path("/proc/self/fd")
    named = os.listdir(folder) if folder.is_dir() else []
    return {int(name) for name in named if os.path.lexists(folder / name)}  # not that of the list itself


def is_program(command: Sequence[str]) -> bool:
    return list(command[1:3]) == ["-m", program.__name__]


class PacedReply(xmlrpc.DeferredXMLRPCResponse):  # type: ignore[misc]  # untyped
    def __init__(self, request: object, callback: Callable[[], object]) -> None:
        super().__init__(request, callback)
        self.delay: float = self.delay or 0.05  # seconds


@dataclass(frozen=True, slots=True)
class TrafficLog:
    """The log of traffic that nginx writes, and the size at which a worker puts it aside."""

    path: Path
    max_bytes: int
    nginx_pid_file: Path

    def keep_bounded(self) -> int:
        """Rotates the log if no worker has, and drops the oldest files. Returns the number of dropped bytes."""
        if not log_files.rotate_log(self.path, LEFT_FACTOR * self.max_bytes, self.nginx_pid_file, time.time()):
            return 0
        return log_files.drop_oldest(self.path, log_files.MAX_KEPT_LOGS * self.max_bytes, {})


class MachineRecord:
    """This machine's record in `state`. The file has its URL and the facts that do not change while it runs."""

    def __init__(self, file: Path, drain_file: Path) -> None:
        given = json.loads(file.read_text())
        self._name, self._facts, self._data = given["machine"], given["facts"], given["data"]
        self.meter = _make_meter(given["disk"]) if "disk" in given else None
        self._drain_file = drain_file
        self._began = time.monotonic()
        self._state_url = given["state"]
        self._state: redis.Redis | None = None

    def renew(self, running: set[str], *, is_stopping: bool = False, use: DiskUse | None = None) -> float:
        """Writes the record. Returns the skew of this clock in seconds. Raises RedisError, OSError."""
        condition = machines.DRAINING if self._drain_file.exists() else machines.RUNNING
        disk = shutil.disk_usage(self._data)
        facts: dict[str, Any] = {
            **self._facts,
            "condition": machines.STOPPED if is_stopping else condition,
            "up_seconds": round(time.monotonic() - self._began),
            "disk_bytes": disk.total,
            "disk_free_bytes": disk.free,
            **(use.to_facts() if use else {}),
            "processes": [{**one, "is_running": one["name"] in running} for one in self._facts["processes"]],
        }
        if self._state is None:  # a Cluster must answer before there is a client
            self._state = servers.make_client(self._state_url, STATE_TIMEOUT_SECONDS, Retry(NoBackoff(), 0))
        return machines.note_machine(self._state, self._name, facts)


class TarrySupervisor(supervisord.Supervisor):  # type: ignore[misc]  # untyped
    """supervisord that bounds the traffic log every 5 seconds, and cleans the hot cache every minute.

    Every 10 seconds, and at its end, it renews the machine's record. Results and failures are in supervisord's own log.
    """

    def __init__(
        self, hot: Path, log: TrafficLog | None, record: MachineRecord | None, given: options.ServerOptions
    ) -> None:
        super().__init__(given)
        self._hot = hot
        self._log = log
        self._record = record
        self._next_record, self._told = 0.0, ""
        self._use: DiskUse | None = None
        self._disk_troubles = set[str]()

    def runforever(self) -> None:
        if any(is_program(shlex.split(one.config.command)) for _, one in self._processes()):
            self.options.load_site()
        events.subscribe(events.Tick60Event, self.remove_unfinished)
        if self._record is not None and self._record.meter is not None:  # first: the record has its figures
            events.subscribe(events.Tick5Event, partial(self.measure_disk, self._record.meter))
        if self._record is not None:
            events.subscribe(events.Tick5Event, partial(self.renew_record, self._record))
            events.subscribe(events.SupervisorStoppingEvent, partial(self.renew_record, self._record))
        if self._log is not None:
            events.subscribe(events.Tick5Event, partial(self.keep_bounded, self._log))
        super().runforever()

    def remove_unfinished(self, _: events.Tick60Event) -> None:
        try:
            removed = remove_unfinished_files(self._hot)
        except OSError as error:
            self.options.logger.warn(f"unfinished files of killed nginx workers cannot be removed: {error}")
            return
        if removed:
            self.options.logger.info(f"unfinished files of killed nginx workers were removed: {removed}")

    def renew_record(self, record: MachineRecord, event: events.Event) -> None:
        """Renews the record, unless it is recent. What hinders it, or a skew, is told once."""
        now = time.monotonic()
        if now < self._next_record and not isinstance(event, events.SupervisorStoppingEvent):
            return
        self._next_record = now + machines.HEARD_EVERY_SECONDS - 1
        try:
            skew = record.renew(self._running(), is_stopping=bool(self.stopping), use=self._use)
        except (redis.RedisError, OSError) as error:
            self._tell("not heard", f"the machine's record cannot be renewed: {error}")
            return
        is_skewed = abs(skew) > machines.MAX_SKEW_SECONDS
        self._tell("skewed" if is_skewed else "", f"this machine: {machines.describe_skew(skew)} of that of state")

    def _running(self) -> set[str]:
        return {name for name, one in self._processes() if one.get_state() == ProcessStates.RUNNING}

    def _processes(self) -> list[tuple[str, process.Subprocess]]:
        return [each for group in self.process_groups.values() for each in group.processes.items()]

    def _tell(self, subject: str, text: str) -> None:
        """Warns of a subject when it is another one than before. Says nothing of none."""
        if subject and subject != self._told:
            self.options.logger.warn(text)
        self._told = subject

    def measure_disk(self, meter: DiskMeter, _: events.Tick5Event) -> None:
        """Measures the site's parts on the disk. A trouble is told when it begins."""
        try:
            self._use = meter.measure(time.monotonic())
        except OSError as error:
            self.options.logger.warn(f"the disk cannot be measured: {error}")
            return
        found = {"above"} if self._use.is_above else set[str]()
        found |= {"full"} if self._use.is_full else set()
        if found - self._disk_troubles:
            self.options.logger.warn(f"this machine: {self._use.trouble}")
        self._disk_troubles = found

    def keep_bounded(self, log: TrafficLog, _: events.Tick5Event) -> None:
        try:
            lost = log.keep_bounded()
        except OSError as error:
            self.options.logger.warn(f"the log of traffic cannot be put aside: {error}")
            return
        if lost:
            self.options.logger.warn(f"no worker counts traffic: {lost} bytes of its log were dropped")


def _make_meter(given: Mapping[str, Any]) -> DiskMeter:
    places = DiskPlaces.from_json(given["places"])
    return DiskMeter(places, DiskShares(**given["shares"]), DiskAccount(Path(given["account"])))


def remove_unfinished_files(hot: Path) -> int:
    """Removes unfinished files that no process has open. Returns their number."""
    listed = ((folder, name) for folder, _, names in os.walk(hot) for name in names)
    found = [os.path.join(folder, name) for folder, name in listed if UNFINISHED_FILE_NAME.fullmatch(name)]
    held = set(_open_files()) if found else set()  # after the search: no process opens an earlier file again
    gone = [path for path in found if os.path.realpath(path) not in held]
    for path in gone:
        Path(path).unlink(missing_ok=True)
    return len(gone)


def _open_files() -> Iterator[str]:
    """Paths that processes have open: those of this user, as nginx is, and of others if they are visible."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(PermissionError, FileNotFoundError, ProcessLookupError):
            for number in os.listdir(folder / "fd"):
                with suppress(OSError):  # it was closed meanwhile, or has no path
                    yield os.readlink(folder / "fd" / number)


def main(*arguments: str) -> None:
    own = arguments.index("-c")
    (hot, drain_file, drain_seconds, machine, *traffic), given = arguments[:own], list(arguments[own:])
    record = MachineRecord(Path(machine), Path(drain_file))
    log = TrafficLog(Path(traffic[0]), int(traffic[1]), Path(traffic[2])) if traffic else None
    supervisord.Supervisor = partial(TarrySupervisor, Path(hot), log, record)
    supervisord.ServerOptions = ForkingOptions
    options.SignalReceiver = partial(EndingReceiver, Path(drain_file), float(drain_seconds))
    xmlrpc.DeferredXMLRPCResponse = PacedReply
    supervisord.main(given)


if __name__ == "__main__":
    main(*sys.argv[1:])
