"""Receives answers. Small bodies stay in memory, larger ones go to a file as they come, digested on the way.

Never holds a large body in memory, and never lets the event loop wait for the disk. A body whose announced length
is too large, or would not come in time, is not begun.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import IO

import aiohttp
from aiohttp.connector import Connection
from aiohttp.hdrs import CONTENT_ENCODING
from aiohttp.http import RawResponseMessage

from resources import folders

from . import guard
from .compression import BodyDecoder
from .deadlines import FetchPace, take_any_room
from .messages import Body, Failure, FetchError, FetchLimits, FetchRequest, Head

MAX_DRAINED_BYTES = 16_384
MAX_DRAIN_SECONDS = 0.2


class Response:
    """The head of an answer, and its body as it comes. Then its connection is free, or ends if it is not reusable."""

    __slots__ = ("_is_reusable", "connection", "content", "headers", "raw_headers", "status")

    def __init__(
        self,
        message: RawResponseMessage,
        content: aiohttp.StreamReader,
        connection: Connection,
        *,
        is_reusable: bool,
    ) -> None:
        self.status = message.code
        self.headers = message.headers
        self.raw_headers = message.raw_headers
        self.content = content
        self.connection: Connection | None = connection
        self._is_reusable = is_reusable
        content.on_eof(self._release)

    def _release(self) -> None:
        connection = self.connection
        if connection is None or connection.protocol is None or connection.protocol.upgraded:
            return
        if self._is_reusable:
            self.connection = None
            connection.release()
        else:
            self.close()

    def close(self) -> None:
        """Ends the body and the connection, unless they have ended."""
        connection, self.connection = self.connection, None
        if connection is None:
            return
        _end_body(self.content, "closed")  # else its callbacks would keep it in memory
        abort_connection(connection)


def abort_connection(connection: Connection) -> None:
    """Ends the connection at once. What is not sent yet is dropped."""
    if connection.protocol is not None:
        connection.protocol.abort()
    connection.close()


async def drain_body(response: Response, length: int | None) -> None:
    """Reads the rest of a small unwanted body of that length, so that its connection can be used again."""
    if response.content.is_eof() or length is None or length > MAX_DRAINED_BYTES:
        return
    try:
        async with asyncio.timeout(MAX_DRAIN_SECONDS):
            await response.content.read()
    except (aiohttp.ClientError, OSError) as error:
        error.with_traceback(None)  # in which the answer would keep itself in memory


@contextmanager
def watch_connection(response: Response) -> Iterator[None]:
    """Ends the body when the connection has ended: after malformed chunks aiohttp leaves its reader waiting."""
    content, connection = response.content, response.connection
    protocol = connection.protocol if connection is not None else None
    closed = protocol.closed if protocol is not None else None
    if closed is None or content.is_eof():
        yield
        return

    def check(_: "asyncio.Future[None]") -> None:
        closed.get_loop().call_soon(_end_body, content, "malformed")

    closed.add_done_callback(check)
    try:
        yield
    finally:
        closed.remove_done_callback(check)
        # The connection lives on. If it breaks later, asyncio must not complain of an unread exception.
        closed.remove_done_callback(_retrieve_exception)
        closed.add_done_callback(_retrieve_exception)


def _end_body(content: aiohttp.StreamReader, reason: str) -> None:
    if not content.is_eof() and content.exception() is None:
        content.set_exception(aiohttp.ClientPayloadError(reason))


def _retrieve_exception(closed: "asyncio.Future[None]") -> None:
    if not closed.cancelled():
        closed.exception()


def needs_slow_limits(fetch: FetchRequest, head: Head, seconds_so_far: float) -> bool:
    """Tells whether a body, as announced, needs the limits for slow bodies.

    Raises FetchError if it exceeds those too.
    """
    if head.content_length is None:
        return False
    speed = fetch.limits.learnt_bytes_per_second
    too_much = _refuse_length(head.content_length, fetch.limits, speed, seconds_so_far)
    if too_much is None:
        return False
    if fetch.slow_limits is None:
        raise too_much
    if too_much := _refuse_length(head.content_length, fetch.slow_limits, speed, seconds_so_far):
        raise too_much
    return True


def too_big_error(max_bytes: int) -> FetchError:
    """Returns the error of a body with more bytes, announced or not."""
    return FetchError(Failure.TOO_BIG, f"more than {max_bytes:,} bytes")


def _refuse_length(length: int, limits: FetchLimits, speed: float | None, seconds_so_far: float) -> FetchError | None:
    """Returns the error of a body that is too large for these limits, or would not come in time; else None."""
    if length > limits.max_body_bytes:
        return too_big_error(limits.max_body_bytes)
    if speed and seconds_so_far + length / speed > limits.deadline_seconds:
        return FetchError(Failure.TOO_SLOW, f"{length:,} bytes would not be there in time")
    return None


SPOOL_PREFIX = "fetch-"
WRITE_BATCH_BYTES = 262_144
"""Bytes written to a file at a time."""
BOMB_RATIO, BOMB_BYTES = 200, 10_000_000
"""A body that unpacks to so many times its size is a bomb, once it is so large. Text reaches 20, rarely 100."""


class SpoolFolder:
    """The folder of one client's spools, from the first of them until it is closed: then they are removed.

    If the process is killed before that, the next client with such a folder in that directory removes it.
    """

    def __init__(self, directory: Path, take_room: Callable[[int], None] = take_any_room) -> None:
        self.take_room = take_room
        self._directory = directory
        self._lock = Lock()
        self._held = ExitStack()
        self._folder: Path | None = None

    def folder(self) -> Path:
        """Makes the folder at the first call. Waits for the disk. Raises OSError."""
        with self._lock:
            if self._folder is None:
                self._folder = self._held.enter_context(folders.hold_folder(self._directory))
            return self._folder

    def close(self) -> None:
        """Removes the folder. Waits for the disk."""
        self._held.close()


class BodySpool:
    """Collects one body. Needs `discard` unless it was finished."""

    def __init__(self, spools: SpoolFolder, spool_bytes: int) -> None:
        self.size = 0
        self._spools = spools
        self._spool_bytes = spool_bytes
        self._digest = hashlib.sha256()
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._file: IO[bytes] | None = None
        self._writing: asyncio.Future[None] | None = None

    async def add(self, data: bytes) -> None:
        """Adds data. Raises FetchError if the disk does not take it."""
        self.size += len(data)
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes > (self._spool_bytes if self._file is None else WRITE_BATCH_BYTES):
            await self._write()

    async def finish(self) -> Body:
        """Returns the body; its file belongs to the caller from now on. Raises FetchError."""
        if self._file is None:
            data = b"".join(self._pending)
            return Body(self.size, data=data)
        await self._write(last=True)
        return Body(self.size, self._digest.hexdigest(), path=Path(self._file.name))

    def discard(self) -> None:
        """Discards everything. A write that is going on ends first: its file is still open."""
        if self._writing is not None and not self._writing.done():
            self._writing.add_done_callback(self._remove)
        else:
            self._remove()

    async def _write(self, *, last: bool = False) -> None:
        batch, self._pending, self._pending_bytes = self._pending, [], 0
        self._writing = asyncio.get_running_loop().run_in_executor(None, self._write_now, batch, last)
        try:
            await asyncio.shield(self._writing)  # a thread goes on writing when its fetch is cancelled
        except OSError as error:
            raise FetchError(Failure.OURS, f"the body could not be kept: {error.strerror or error}") from error

    def _write_now(self, batch: list[bytes], last: bool) -> None:
        if self._file is None:
            folder = self._spools.folder()
            self._file = tempfile.NamedTemporaryFile(prefix=SPOOL_PREFIX, dir=folder, delete=False)  # noqa: SIM115
        self._spools.take_room(sum(map(len, batch)))
        for data in batch:
            self._digest.update(data)
            self._file.write(data)
        if last:
            self._file.close()

    def _remove(self, written: "asyncio.Future[None] | None" = None) -> None:
        if written is not None and not written.cancelled():
            written.exception()  # no task waits for it any longer
        if self._file is not None:
            with suppress(OSError):  # a full disk
                self._file.close()
            Path(self._file.name).unlink(missing_ok=True)


async def receive_body(content: aiohttp.StreamReader, decoder: BodyDecoder, spool: BodySpool, pace: FetchPace) -> Body:
    """Returns the whole body, unpacked, within the limits of its pace. Raises FetchError.

    Leaves the spool to its owner.
    """
    loop = asyncio.get_running_loop()
    received = 0
    pace.begins_body(loop.time())
    while data := await content.readany():
        received += len(data)
        pace.received(len(data), loop.time())
        _check_size(received, pace)
        for place, unpacked in enumerate(decoder.feed(data)):
            if place:
                await asyncio.sleep(0)  # other tasks run: a little data may unpack to very much
            await spool.add(unpacked)
            _check_unpacked_size(spool.size, received, pace)
        if content.at_eof():
            break
        pace.awaits_more(loop.time())
    pace.has_body()
    decoder.finish()
    return await spool.finish()


def take_whole_body(response: Response, pace: FetchPace) -> Body | None:
    """Returns the body if all of it came with the head, as small ones do, and nothing has to be unpacked or written.

    Raises FetchError.
    """
    content = response.content
    if not content.is_eof() or CONTENT_ENCODING in response.headers or content.total_bytes > pace.limits.spool_bytes:
        return None
    try:
        data = content.read_nowait()
    except aiohttp.ClientError as error:
        raise guard.failure_of_error(error) from error
    pace.wire_bytes = len(data)
    _check_size(len(data), pace)
    return Body(len(data), data=data)


def _check_size(size: int, pace: FetchPace) -> None:
    """Raises FetchError for a body that is too large. One that may go on as a slow one does."""
    if size > pace.limits.max_body_bytes:
        pace.slow_down(asyncio.get_running_loop().time())
        if size > pace.limits.max_body_bytes:
            raise too_big_error(pace.limits.max_body_bytes)


def _check_unpacked_size(size: int, received: int, pace: FetchPace) -> None:
    _check_size(size, pace)
    if size > BOMB_BYTES and size > BOMB_RATIO * received:
        raise FetchError(Failure.TOO_BIG, f"a body that unpacks to more than {BOMB_RATIO} times its size")
