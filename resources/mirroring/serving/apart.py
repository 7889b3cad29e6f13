"""Paints thumbnails in a process of its own: what decodes a stranger's image has no secrets, and bounded memory.

The child imports nothing of Django. `python -m resources.mirroring.serving.apart BYTES PARENT` is its side. It paints
one thumbnail after the other, and ends with the process that started it.
"""

import ctypes
import io
import json
import os
import resource
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Lock, Timer
from typing import IO, Self

from PIL import AvifImagePlugin

from ..contents import pictures
from ..contents.errors import ImageError
from ..contents.pictures import Box

ROOT = Path(__file__).resolve().parents[3]
IDLE_SECONDS = 60.0
CHUNK_BYTES = 1024 * 1024
FATAL, TOO_LONG = "cannot be painted: its decoder failed.", "takes too long to paint."
PR_SET_PDEATHSIG = 1

_ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "1",  # threads of decoders share one
    "MALLOC_MMAP_THRESHOLD_": "1048576",  # what was large goes back to the system at once
}


@dataclass(frozen=True, slots=True)
class Order:
    """A thumbnail of an image of so many bytes, which follow, and pixels at the most."""

    box: Box
    most_pixels: int
    size: int

    def written(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Self:
        held = json.loads(line)
        return cls(Box(**held.pop("box")), **held)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What painting may take: memory as address space, and time for one thumbnail."""

    memory_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Said:
    """The child's answer: a file of so many bytes follows, or why there is none."""

    size: int = 0
    refused: str = ""


class TooLongError(ImageError):
    """Painting took longer than it may."""


class Painter:
    """A child that paints: started when there is something to paint, ended when there was nothing for a while."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._leisure: Timer | None = None

    def paint(self, order: Order, image: IO[bytes], allowance: Allowance) -> bytes:
        """The thumbnail's file. One at a time. Raises ImageError, and what reading the image raises.

        The child may have died of the image. Then there will be another one for the next.
        """
        with self._lock:
            self._rest(None)
            try:
                return self._ask(order, image, allowance)
            finally:
                self._rest(self._idle_seconds)

    def close(self) -> None:
        """Ends the child, if there is one."""
        with self._lock:
            self._rest(None)
            self._end()

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def _ask(self, order: Order, image: IO[bytes], allowance: Allowance) -> bytes:
        child = self._running(allowance.memory_bytes)
        late = Event()
        timer = Timer(allowance.seconds, _kill, (child, late))
        timer.start()
        try:
            said, body = _answer(child, order, image)
        except (BrokenPipeError, EOFError, ValueError) as error:
            self._end()
            raise (TooLongError(TOO_LONG) if late.is_set() else ImageError(FATAL)) from error
        except BaseException:  # the image could not be read: the child waits for the rest of it
            self._end()
            raise
        finally:
            timer.cancel()
            if late.is_set():
                self._end()
        if said.refused:
            raise ImageError(said.refused)
        return body

    def _running(self, memory_bytes: int) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is not None:
            self._end()
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-E", "-s", "-W", "ignore", "-m", __name__, str(memory_bytes), str(os.getpid())],
                cwd=ROOT,
                env=_ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # warnings of decoders, in the words of whoever made the image
            )
        return self._child

    def _rest(self, seconds: float | None) -> None:
        if self._leisure is not None:
            self._leisure.cancel()
        self._leisure = None
        if seconds is not None and self._child is not None:
            self._leisure = Timer(seconds, self.close)
            self._leisure.daemon = True
            self._leisure.start()

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None


def _kill(child: subprocess.Popen[bytes], late: Event) -> None:
    late.set()
    child.kill()


def _answer(child: subprocess.Popen[bytes], order: Order, image: IO[bytes]) -> tuple[Said, bytes]:
    """What the child says to the order, and the file. Raises EOFError when it has ended."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(order.written())
    _send(image, order.size, child.stdin)
    child.stdin.flush()
    line = child.stdout.readline()
    said = Said(**json.loads(line or b"{}"))
    body = child.stdout.read(said.size)
    if not line or len(body) < said.size:
        raise EOFError
    return said, body


def _send(image: IO[bytes], size: int, pipe: IO[bytes]) -> None:
    while size:
        chunk = image.read(min(size, CHUNK_BYTES))
        if not chunk:
            raise EOFError
        pipe.write(chunk)
        size -= len(chunk)


def _main(memory_bytes: int, parent: int) -> None:
    """Paints what is ordered, within limits that are set first, until its parent closes the pipe."""
    _end_with(parent)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes if most < 0 else min(memory_bytes, most), most))
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # each takes memory, and the machine has one painter per core already
    orders, replies = sys.stdin.buffer, sys.stdout.buffer
    while line := orders.readline():
        order = Order.read(line)
        body = orders.read(order.size)
        if len(body) < order.size:
            return
        said, painted = _painted(order, body)
        replies.write(json.dumps(asdict(said)).encode() + b"\n" + painted)
        replies.flush()


def _painted(order: Order, body: bytes) -> tuple[Said, bytes]:
    try:
        painted = pictures.paint(io.BytesIO(body), order.box, order.most_pixels)
    except ImageError as error:
        return Said(refused=str(error)), b""
    except MemoryError:
        return Said(refused="takes more memory than there is for one."), b""
    except Exception:  # noqa: BLE001 - the edge of a process: whatever a decoder raises is about this image
        return Said(refused="is broken."), b""
    return Said(size=len(painted)), painted


def _end_with(parent: int) -> None:
    """Has the system end this process when the thread that started it ends. Linux only; elsewhere the pipe does."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a worker that is stopped finishes its thumbnail
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        sys.exit("the process that asked for this is gone")


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
