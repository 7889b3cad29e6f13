"""Has done in a process of its own what is risky: what takes strangers' data apart has no secrets, and bounded memory.

The child imports nothing of Django. `python -m MODULE BYTES PARENT` is its side; the module ends with a call of
`serve`. It does one thing after the other, and ends with the process that started it.
"""

import json
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

from .parents import end_with

ROOT = Path(__file__).resolve().parents[1]
IDLE_SECONDS = 60.0
CHUNK_BYTES = 1024 * 1024

_ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "1",  # threads of decoders share one
    "MALLOC_MMAP_THRESHOLD_": "1048576",  # what was large goes back to the system at once
}


class DiedError(Exception):
    """The child has ended in the middle of it."""


class TooLongError(DiedError):
    """It took longer than it may, and was ended."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one thing may take: memory as address space, and time."""

    memory_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Message:
    """What one says to the other: some words (JSON), and bytes."""

    said: Mapping[str, Any]
    body: bytes = b""


class Child:
    """A child that runs a module: started when there is something to do, ended when there was nothing for a while."""

    def __init__(self, module: str, idle_seconds: float = IDLE_SECONDS) -> None:
        self._module = module
        self._idle_seconds = idle_seconds
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._leisure: Timer | None = None

    def ask(self, said: Mapping[str, Any], body: IO[bytes], size: int, allowance: Allowance) -> Message:
        """Its answer to those words and so many bytes. One at a time. Raises DiedError, and what reading raises.

        There will be another child for the next.
        """
        with self._lock:
            self._rest(None)
            try:
                return self._ask(said, body, size, allowance)
            finally:
                self._rest(self._idle_seconds)

    def close(self) -> None:
        """Ends the child, if there is one."""
        with self._lock:
            self._rest(None)
            self._end()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def _ask(self, said: Mapping[str, Any], body: IO[bytes], size: int, allowance: Allowance) -> Message:
        process = self._running(allowance.memory_bytes)
        late = Event()
        timer = Timer(allowance.seconds, _kill, (process, late))
        timer.start()
        try:
            return _answer(process, said, body, size)
        except (BrokenPipeError, EOFError, ValueError) as error:
            self._end()
            raise (TooLongError() if late.is_set() else DiedError()) from error
        except BaseException:  # the body could not be read: the child waits for the rest of it
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
                [sys.executable, "-E", "-s", "-W", "ignore", "-m", self._module, str(memory_bytes), str(os.getpid())],
                cwd=ROOT,
                env=_ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # warnings of decoders, in the words of whoever made the data
            )
        return self._process

    def _rest(self, seconds: float | None) -> None:
        if self._leisure is not None:
            self._leisure.cancel()
        self._leisure = None
        if seconds is not None and self._process is not None:
            self._leisure = Timer(seconds, self.close)
            self._leisure.daemon = True
            self._leisure.start()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _kill(process: subprocess.Popen[bytes], late: Event) -> None:
    late.set()
    process.kill()


def _answer(process: subprocess.Popen[bytes], said: Mapping[str, Any], body: IO[bytes], size: int) -> Message:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(_line(said, size))
    while size:
        chunk = body.read(min(size, CHUNK_BYTES))
        if not chunk:
            raise EOFError
        process.stdin.write(chunk)
        size -= len(chunk)
    process.stdin.flush()
    message = _read(process.stdout)
    if message is None:
        raise EOFError
    return message


def _line(said: Mapping[str, Any], size: int) -> bytes:
    return json.dumps([said, size]).encode() + b"\n"


def _read(pipe: IO[bytes]) -> Message | None:
    """The next message; None where the other side has ended."""
    line = pipe.readline()
    if not line:
        return None
    said, size = json.loads(line)
    body = pipe.read(size)
    return Message(said, body) if len(body) == size else None


def serve(memory_bytes: int, parent: int, do: Callable[[Message], Message]) -> None:
    """The child's side: does what it is asked, within limits that are set first, until its parent closes the pipe."""
    _finish_alone()
    end_with(parent)  # elsewhere than on Linux the pipe ends it
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes if most < 0 else min(memory_bytes, most), most))
    orders, replies = sys.stdin.buffer, sys.stdout.buffer
    while (order := _read(orders)) is not None:
        answer = do(order)
        replies.write(_line(answer.said, len(answer.body)) + answer.body)
        replies.flush()


def _finish_alone() -> None:
    """A worker that is stopped finishes what it does, with this."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
