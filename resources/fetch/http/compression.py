"""Unpacks bodies (RFC 9110, 8.4) in steps of bounded size.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator

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


class BodyDecoder(ABC):
    """Unpacks a body as it comes. Raises FetchError for a broken body."""

    _started = False

    @property
    @abstractmethod
    def _is_whole(self) -> bool:
        """True if the data so far may end here."""

    @abstractmethod
    def _unpack(self, data: bytes) -> Iterator[bytes]: ...

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields the unpacked data in steps. Each step is unpacked at its request."""
        self._started = True
        return self._unpack(data)

    def finish(self) -> None:
        """Checks that nothing is missing at the end."""
        if self._started and not self._is_whole:
            raise FetchError(Failure.TRANSIENT, "a compressed body that ends too early")


def build_decoder(content_encoding: str) -> BodyDecoder:
    """Returns the decoder for a Content-Encoding. Raises FetchError for an unknown one, and for more than one."""
    codings = [part.strip(" \t").lower() for part in content_encoding.split(",")]
    match [coding for coding in codings if coding not in ("", "identity")]:
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


class PlainDecoder(BodyDecoder):
    """Passes data through."""

    _is_whole = True

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        yield data


class GzipDecoder(BodyDecoder):
    """One gzip member or several. Other bytes after the last are ignored, as browsers do, unless `must_be_whole`."""

    def __init__(self, *, must_be_whole: bool = False) -> None:
        self._member = zlib.decompressobj(31)
        self._members = 1
        self._ended = False
        self._must_be_whole = must_be_whole

    @property
    def _is_whole(self) -> bool:
        return self._member.eof

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        while data and not self._ended:
            if self._member.eof and not data.startswith(b"\x1f"):
                if self._must_be_whole:
                    raise _broken_error()
                self._ended = True
                return
            if self._member.eof:
                self._members = _count_part(self._members)
                self._member = zlib.decompressobj(31)
            yield from _inflate(self._member, data)
            data = self._member.unused_data if self._member.eof else b""


class DeflateDecoder(BodyDecoder):
    """Deflate with zlib's header, as it should be, or without, as some servers send it."""

    def __init__(self) -> None:
        self._stream: zlib._Decompress | None = None

    @property
    def _is_whole(self) -> bool:
        return self._stream is None or self._stream.eof

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        if data and self._stream is None:
            # zlib's header begins with the method, which is 8.
            self._stream = zlib.decompressobj(zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS)
        if self._stream is not None and not self._stream.eof:
            yield from _inflate(self._stream, data)


class BrotliDecoder(BodyDecoder):
    """Brotli (RFC 7932)."""

    def __init__(self) -> None:
        self._stream = brotli.Decompressor()

    @property
    def _is_whole(self) -> bool:
        return bool(self._stream.is_finished())

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        if self._stream.is_finished():
            return
        try:
            yield self._stream.process(data, output_buffer_limit=UNPACK_STEP_BYTES)
            while not self._stream.can_accept_more_data():
                yield self._stream.process(b"", output_buffer_limit=UNPACK_STEP_BYTES)
        except brotli.error as error:
            raise _broken_error() from error


class ZstdDecoder(BodyDecoder):
    """Zstandard (RFC 8878), one frame or several."""

    def __init__(self) -> None:
        self._frame = _new_frame()
        self._frames = 1

    @property
    def _is_whole(self) -> bool:
        return self._frame.eof

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        try:
            while data:
                if self._frame.eof:
                    self._frames = _count_part(self._frames)
                    self._frame = _new_frame()
                yield self._frame.decompress(data, UNPACK_STEP_BYTES)
                while not self._frame.eof and not self._frame.needs_input:
                    yield self._frame.decompress(b"", UNPACK_STEP_BYTES)
                data = self._frame.unused_data if self._frame.eof else b""
        except zstd.ZstdError as error:
            raise _broken_error() from error


def _count_part(parts: int) -> int:
    """Returns the number of parts with one more. Raises FetchError beyond the limit."""
    if parts == MAX_MEMBERS:
        raise FetchError(Failure.TOO_BIG, f"a compressed body of more than {MAX_MEMBERS:,} parts")
    return parts + 1


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
