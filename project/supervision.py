"""supervisord's configuration for a list of processes. Does not start it."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from .paths import BASE_DIR
from .processes import Process

LOG_MAX_BYTES = 10_000_000
LOG_BACKUPS = 2


def configuration(processes: Sequence[Process], *, logs: Path, runtime: Path, user: str) -> str:
    """The text of supervisord.conf. `user` is empty unless run by root, who has to say so."""
    programs = [_program(process, logs) for process in processes]
    return "\n".join([_supervisord(logs, runtime, user), *programs, *_groups(processes)])


def _supervisord(logs: Path, runtime: Path, user: str) -> str:
    return _section(
        "supervisord",
        nodaemon="true",
        silent="true",
        logfile=logs / "supervisord.log",
        logfile_maxbytes=LOG_MAX_BYTES,
        logfile_backups=LOG_BACKUPS,
        pidfile=runtime / "supervisord.pid",
        childlogdir=logs,
        directory=BASE_DIR,
        **({"user": user} if user else {}),
    ) + "\n".join(
        [
            _section("unix_http_server", file=runtime / "supervisor.sock", chmod="0700"),
            _section("supervisorctl", serverurl=f"unix://{runtime / 'supervisor.sock'}"),
            "[rpcinterface:supervisor]",
            "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface",
            "",
        ]
    )


def _groups(processes: Sequence[Process]) -> Iterator[str]:
    """One group per name: supervisord stops group after group, and all that is in one at once."""
    for name in dict.fromkeys(process.group for process in processes):
        members = [process for process in processes if process.group == name]
        first = min(process.priority for process in members)
        yield _section(f"group:{name}", programs=",".join(process.name for process in members), priority=first)


def _program(process: Process, logs: Path) -> str:
    return _section(
        f"program:{process.name}",
        command=shlex.join(process.command),
        directory=BASE_DIR,
        priority=process.priority,
        autorestart="true",
        startsecs=1,
        startretries=1000,  # a missing part, as a full disk, may come back
        stopsignal=process.stop_signal,
        stopwaitsecs=process.stop_wait_seconds,
        killasgroup="true",
        redirect_stderr="true",
        stdout_logfile=logs / f"{process.name}.log",
        stdout_logfile_maxbytes=LOG_MAX_BYTES,
        stdout_logfile_backups=LOG_BACKUPS,
        environment=",".join(f'{name}="{value}"' for name, value in process.environment.items()),
    )


def _section(name: str, **options: object) -> str:
    lines = [f"{key} = {_escaped(str(value))}" for key, value in options.items() if value != ""]
    return "\n".join([f"[{name}]", *lines, "", ""])


def _escaped(value: str) -> str:
    return value.replace("%", "%%")
