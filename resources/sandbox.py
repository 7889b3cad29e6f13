"""Runs untrusted parsing in a child process without secrets, and with limits of memory and time.

The child imports nothing of Django, and ends with the process that started it (on Linux, by a signal of the system).
`ChildProcess` runs `python -m MODULE BYTES PARENT`: the module ends with a call of `serve_parent`, which answers one
request after the other. `run_child` runs `python -m MODULE ARGUMENTS… BYTES PARENT SECONDS`: the module begins with a
call of `limit_child`, and its exit status is the answer.
"""

import ctypes
import json
import math
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Timer
from typing import IO, Any

CHILD_IDLE_SECONDS = 60.0
PIPE_CHUNK_BYTES = 1024 * 1024
PR_SET_PDEATHSIG = 1

_PROJECT_ROOT = Path(__file__).resolve().parents[1]
_CHILD_COMMAND = (sys.executable, "-E", "-s", "-W", "ignore", "-m")
_CHILD_ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "1",  # the decoders' threads share one arena
    "MALLOC_MMAP_THRESHOLD_": "1048576",  # large blocks go back to the system at once
    "MIMALLOC_ARENA_RESERVE": "0",  # rensa would take a gigabyte of the addresses that a child may have
}


class ChildDiedError(Exception):
    """The child ended before it had answered."""


class ChildTimeoutError(ChildDiedError):
    """The child took longer than its limit and was killed."""


@dataclass(frozen=True, slots=True)
class ChildAllowance:
    """The limits of one request or run: memory as address space, and time."""

    memory_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ChildMessage:
    """A message between parent and child: JSON values and a body of bytes."""

    values: Mapping[str, Any]
    body: bytes = b""


def run_child(module: str, *arguments: str, allowance: ChildAllowance) -> int:
    """Runs the module once. Returns its exit status, negative after a signal. Raises ChildTimeoutError."""
    limits = (str(allowance.memory_bytes), str(os.getpid()), str(math.ceil(allowance.seconds)))
    command = [*_CHILD_COMMAND, module, *arguments, *limits]
    try:
        status = subprocess.run(
            command,
            cwd=_PROJECT_ROOT,
            env=_CHILD_ENVIRONMENT,
            timeout=allowance.seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        ).returncode
    except subprocess.TimeoutExpired as error:
        raise ChildTimeoutError from error
    if status == -signal.SIGXCPU:
        raise ChildTimeoutError
    return status


def limit_child(memory_bytes: int, parent: int, cpu_seconds: int | None = None) -> None:
    """Sets this process' limits, and ends it with the process that started it."""
    end_with_parent(parent)
    _lower_limit(resource.RLIMIT_AS, memory_bytes)
    if cpu_seconds is not None:  # ends a child whose parent cannot end it
        _lower_limit(resource.RLIMIT_CPU, cpu_seconds)


def end_with_parent(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Has the system send this process the signal when the thread of `parent` that started it ends.

    On other systems than Linux it only exits if `parent` has already ended.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # the parent ended before
        sys.exit("the process that asked for this is gone")


def _lower_limit(kind: int, amount: int) -> None:
    _, most = resource.getrlimit(kind)
    resource.setrlimit(kind, (amount if most == resource.RLIM_INFINITY else min(amount, most), most))


class ChildProcess:
    """A child process that runs a module: started for the first request, ended after `idle_seconds` without any."""

    def __init__(self, module: str, idle_seconds: float = CHILD_IDLE_SECONDS) -> None:
        self._module = module
        self._idle_seconds = idle_seconds
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._idle_timer: Timer | None = None

    def ask(self, values: Mapping[str, Any], body: IO[bytes], size: int, allowance: ChildAllowance) -> ChildMessage:
        """Sends the values and `size` bytes of the body; returns the child's answer. One request at a time.

        Raises ChildDiedError, and any error of reading the body. The next request gets a new child then.
        """
        with self._lock:
            self._rest(None)
            try:
                return self._ask(values, body, size, allowance)
            finally:
                self._rest(self._idle_seconds)

    def close(self) -> None:
        with self._lock:
            self._rest(None)
            self._end()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def _ask(self, values: Mapping[str, Any], body: IO[bytes], size: int, allowance: ChildAllowance) -> ChildMessage:
        process = self._running(allowance.memory_bytes)
        late = Event()
        timer = Timer(allowance.seconds, _kill_late, (process, late))
        timer.start()
        try:
            return _exchange_messages(process, values, body, size)
        except (BrokenPipeError, EOFError, ValueError) as error:
            self._end()
            raise (ChildTimeoutError() if late.is_set() else ChildDiedError()) from error
        except BaseException:  # the body could not be read, and the child waits for the rest of it
            self._end()
            raise
        finally:
            timer.cancel()
            if late.is_set():
                self._end()

    def _running(self, memory_bytes: int) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            self._process = subprocess.Popen(
                [*_CHILD_COMMAND, self._module, str(memory_bytes), str(os.getpid())],
                cwd=_PROJECT_ROOT,
                env=_CHILD_ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # decoders' warnings quote the untrusted data
            )
        return self._process

    def _rest(self, seconds: float | None) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = None
        if seconds is not None and self._process is not None:
            self._idle_timer = Timer(seconds, self.close)
            self._idle_timer.daemon = True
            self._idle_timer.start()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _kill_late(process: subprocess.Popen[bytes], late: Event) -> None:
    late.set()
    process.kill()


def _exchange_messages(
    process: subprocess.Popen[bytes], values: Mapping[str, Any], body: IO[bytes], size: int
) -> ChildMessage:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(_header_line(values, size))
    while size:
        chunk = body.read(min(size, PIPE_CHUNK_BYTES))
        if not chunk:
            raise EOFError
        process.stdin.write(chunk)
        size -= len(chunk)
    process.stdin.flush()
    message = _read_message(process.stdout)
    if message is None:
        raise EOFError
    return message


def _header_line(values: Mapping[str, Any], size: int) -> bytes:
    return json.dumps([values, size]).encode() + b"\n"


def _read_message(pipe: IO[bytes]) -> ChildMessage | None:
    """Returns the next message; None if the other side has ended."""
    line = pipe.readline()
    if not line:
        return None
    values, size = json.loads(line)
    body = pipe.read(size)
    return ChildMessage(values, body) if len(body) == size else None


def serve_parent(memory_bytes: int, parent: int, do: Callable[[ChildMessage], ChildMessage]) -> None:
    """Sets the child's limits, then answers requests until the parent closes the pipe."""
    _ignore_stop_signals()
    limit_child(memory_bytes, parent)  # on other systems than Linux the closed pipe ends it
    orders, replies = sys.stdin.buffer, sys.stdout.buffer
    while (order := _read_message(orders)) is not None:
        answer = do(order)
        replies.write(_header_line(answer.values, len(answer.body)) + answer.body)
        replies.flush()


def _ignore_stop_signals() -> None:
    """Ignores the stop signals: a worker that is stopped still finishes its task, and needs its child for that."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
