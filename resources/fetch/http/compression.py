"""Unpacks bodies (RFC 9110, 8.4) in steps of bounded size.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import sys
import zlib
from collections.abc import Iterator
from typing import Protocol

import brotli

from .messages import Failure, FetchError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ACCEPTED_CODINGS = "gzip, deflate, br, zstd"
UNPACK_STEP_BYTES = 262_144
"""Unpacked bytes of one step."""
MAX_MEMBERS = 1000
"""A body of very many tiny members costs far more to unpack than to send."""

_ZSTD_WINDOW_LOG = 23  # 8 MB, the most that RFC 9659 lets servers ask for


class BodyDecoder(Protocol):
    """Unpacks a body as it comes. Raises FetchError for a broken body."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields the unpacked data in steps. Each step is unpacked at its request."""
        ...

    def finish(self) -> None:
        """Checks that nothing is missing at the end."""
        ...


def build_decoder(content_encoding: str) -> BodyDecoder:
    """Returns the decoder for a Content-Encoding. Raises FetchError for an unknown one, and for more than one."""
    if not content_encoding:
        return PlainDecoder()
    codings = [coding for part in content_encoding.split(",") if (coding := part.strip(" \t").lower())]
    match [coding for coding in codings if coding != "identity"]:
        case []:
            return PlainDecoder()
        case ["gzip" | "x-gzip"]:
            return GzipDecoder()
        case ["deflate"]:
            return DeflateDecoder()
        case ["br"]:
            return BrotliDecoder()
        case ["zstd"]:
            return ZstdDecoder()
    raise FetchError(Failure.PERMANENT, "a content coding that was not asked for")


class PlainDecoder:
    """Passes data through."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def finish(self) -> None:
        return


class GzipDecoder:
    """One gzip member or several. Other bytes after the last are ignored, as browsers do, unless `must_be_whole`."""

    def __init__(self, *, must_be_whole: bool = False) -> None:
        self._member = zlib.decompressobj(31)
        self._members = 1
        self._started = False
        self._ended = False
        self._must_be_whole = must_be_whole

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._started = True
        while data and not self._ended:
            if self._member.eof and not data.startswith(b"\x1f"):
                self._end()
                return
            if self._member.eof:
                self._next_member()
            yield from _inflate(self._member, data)
            data = self._member.unused_data if self._member.eof else b""

    def finish(self) -> None:
        if self._started and not self._member.eof:
            raise _cut_short_error()

    def _end(self) -> None:
        if self._must_be_whole:
            raise _broken_error()
        self._ended = True

    def _next_member(self) -> None:
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise FetchError(Failure.TOO_BIG, f"a compressed body of more than {MAX_MEMBERS:,} parts")
        self._member = zlib.decompressobj(31)


class DeflateDecoder:
    """Deflate with zlib's header, as it should be, or without, as some servers send it."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj()
        self._started = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        if data and not self._started:
            self._started = True
            if data[0] & 0x0F != 8:  # zlib's header begins with the method, which is 8
                self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        if not self._stream.eof:
            yield from _inflate(self._stream, data)

    def finish(self) -> None:
        if self._started and not self._stream.eof:
            raise _cut_short_error()


class BrotliDecoder:
    """Brotli (RFC 7932)."""

    def __init__(self) -> None:
        self._stream = brotli.Decompressor()
        self._started = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._started = True
        if self._stream.is_finished():
            return
        try:
            yield self._stream.process(data, output_buffer_limit=UNPACK_STEP_BYTES)
            while not self._stream.can_accept_more_data():
                yield self._stream.process(b"", output_buffer_limit=UNPACK_STEP_BYTES)
        except brotli.error as error:
            raise _broken_error() from error

    def finish(self) -> None:
        if self._started and not self._stream.is_finished():
            raise _cut_short_error()


class ZstdDecoder:
    """Zstandard (RFC 8878), one frame or several."""

    def __init__(self) -> None:
        self._frame = _new_frame()
        self._frames = 1
        self._started = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._started = True
        try:
            while data:
                if self._frame.eof:
                    self._next_frame()
                yield self._frame.decompress(data, UNPACK_STEP_BYTES)
                while not self._frame.eof and not self._frame.needs_input:
                    yield self._frame.decompress(b"", UNPACK_STEP_BYTES)
                data = self._frame.unused_data if self._frame.eof else b""
        except zstd.ZstdError as error:
            raise _broken_error() from error

    def finish(self) -> None:
        if self._started and not self._frame.eof:
            raise _cut_short_error()

    def _next_frame(self) -> None:
        self._frames += 1
        if self._frames > MAX_MEMBERS:
            raise FetchError(Failure.TOO_BIG, f"a compressed body of more than {MAX_MEMBERS:,} parts")
        self._frame = _new_frame()


def _new_frame() -> zstd.ZstdDecompressor:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG})


def _inflate(stream: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
    """Unpacks data by zlib. Some may be left inside when a step was full and all input was taken."""
    full = True
    while (data or full) and not stream.eof:
        try:
            unpacked = stream.decompress(data, UNPACK_STEP_BYTES)
        except zlib.error as error:
            raise _broken_error() from error
        data, full = stream.unconsumed_tail, len(unpacked) == UNPACK_STEP_BYTES
        yield unpacked


def _broken_error() -> FetchError:
    return FetchError(Failure.TRANSIENT, "a compressed body that is broken")


def _cut_short_error() -> FetchError:
    return FetchError(Failure.TRANSIENT, "a compressed body that ends too early")
