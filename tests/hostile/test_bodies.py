"""Bodies: packed, unpacked, bombs, in memory and in files; and memory that stays bounded."""

import asyncio
import errno
import gzip
import hashlib
import os
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import brotli
import pytest

from resources.disk.account import NoRoomError
from resources.fetch.http import bodies, deadlines
from resources.fetch.http.client import FetchClient
from resources.fetch.http.messages import BodyDropped, Failure, Fetched, FetchError, FetchFailed, FetchRequest, Head

from .origin import Behaviour, Origin, Peer, answer, flood, head, raw, steps
from .visits import LIMITS, failure, timed, visit, visit_and_measure

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = pytest.mark.anyio

TEXT = b"".join(f"{number} is a number. ".encode() for number in range(5000))
ZEROS = bytes(64_000_000)


def deflated_without_header(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def of_two_parts(pack: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda data: pack(data[:1000]) + pack(data[1000:])


PACKED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip by its old name": ("x-gzip", gzip.compress),
    "gzip in capitals": ("GZIP", gzip.compress),
    "gzip of two members": ("gzip", of_two_parts(gzip.compress)),
    "gzip with zeros behind it": ("gzip", lambda data: gzip.compress(data) + bytes(512)),
    "deflate": ("deflate", zlib.compress),
    "deflate as some understand it": ("deflate", deflated_without_header),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstd.compress),
    "zstd of two frames": ("zstd", of_two_parts(zstd.compress)),
    "identity": ("identity", bytes),
    "nothing": ("", bytes),
}


@pytest.mark.parametrize(("coding", "pack"), PACKED.values(), ids=PACKED)
async def test_a_packed_body_is_unpacked(
    origin: Origin, client: FetchClient, coding: str, pack: Callable[[bytes], bytes]
) -> None:
    packed = pack(TEXT)
    url = origin.does("/", answer("200 OK", f"Content-Encoding: {coding}", body=packed))
    outcome = await timed(client, FetchRequest(url, limits=LIMITS))
    assert isinstance(outcome, Fetched), outcome
    assert outcome.body.read() == TEXT
    assert outcome.body.size == len(TEXT)
    assert outcome.body.digest == hashlib.sha256(TEXT).hexdigest()
    assert outcome.timing.wire_bytes == len(packed)
    outcome.body.discard()


def packed(coding: str, body: bytes) -> Behaviour:
    return answer("200 OK", f"Content-Encoding: {coding}", body=body)


CUT = {
    "gzip": packed("gzip", gzip.compress(TEXT)[:-10]),
    "gzip in its second member": packed("gzip", gzip.compress(TEXT) + gzip.compress(TEXT)[:20]),
    "deflate": packed("deflate", zlib.compress(TEXT)[:-10]),
    "br": packed("br", brotli.compress(TEXT)[:-10]),
    "zstd": packed("zstd", zstd.compress(TEXT)[:-10]),
    "gzip that is none": packed("gzip", TEXT),
    "gzip with a wrong checksum": packed("gzip", gzip.compress(TEXT)[:-8] + bytes(8)),
    "br that is none": packed("br", TEXT),
    "zstd that is none": packed("zstd", TEXT),
}


@pytest.mark.parametrize("behaviour", CUT.values(), ids=CUT)
def test_a_packed_body_that_is_cut_short_or_broken_may_be_whole_the_next_time(behaviour: Behaviour) -> None:
    assert failure(visit(behaviour)) is Failure.TRANSIENT


@pytest.mark.parametrize("coding", ["compress", "gzip, gzip", "gzip, br", "gzip;q=1", "x", "gzip\xe9"])
def test_a_coding_that_was_not_asked_for_is_not_tried_again(coding: str) -> None:
    assert failure(visit(packed(coding, gzip.compress(TEXT)))) is Failure.PERMANENT


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_an_empty_body_is_no_packed_one(coding: str) -> None:
    outcome = visit(packed(coding, b""))
    assert isinstance(outcome, Fetched)
    assert outcome.body.size == 0


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "gzip": ("gzip", lambda: gzip.compress(ZEROS, 9)),
    "deflate": ("deflate", lambda: zlib.compress(ZEROS, 9)),
    "br": ("br", lambda: brotli.compress(ZEROS, quality=5)),
    "zstd": ("zstd", lambda: zstd.compress(ZEROS)),
    "gzip of very many members": ("gzip", lambda: gzip.compress(b"") * 5000),
    "zstd of very many frames": ("zstd", lambda: zstd.compress(b"") * 5000),
}


def pack_bombs() -> dict[str, Behaviour]:
    return {name: packed(coding, pack()) for name, (coding, pack) in BOMBS.items()}


@pytest.mark.parametrize(("coding", "pack"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_too_big_and_takes_little_memory(coding: str, pack: Callable[[], bytes]) -> None:
    outcome, peak = visit_and_measure(packed(coding, pack()))
    assert failure(outcome) is Failure.TOO_BIG
    assert peak < 4_000_000


def test_a_bomb_is_one_below_the_limit_too() -> None:
    bomb = packed("gzip", gzip.compress(ZEROS, 9))
    outcome, peak = visit_and_measure(bomb, replace(LIMITS, max_body_bytes=100_000_000))
    assert failure(outcome) is Failure.TOO_BIG
    assert peak < 4_000_000


def test_a_flood_of_tiny_chunks_takes_little_memory() -> None:
    tiny = steps(head("200 OK", "Transfer-Encoding: chunked"), flood(b"1\r\nx\r\n" * 10_000))
    outcome, peak = visit_and_measure(tiny, replace(LIMITS, max_body_bytes=100_000))
    assert failure(outcome) is Failure.TOO_BIG
    assert peak < 8_000_000


def test_a_zstd_window_beyond_what_servers_may_ask_for_is_refused() -> None:
    wide: dict[int, int] = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.content_size_flag: 0}
    packer = zstd.ZstdCompressor(options=wide)
    body = packer.compress(TEXT) + packer.flush()
    assert failure(visit(packed("zstd", body))) is Failure.TRANSIENT


async def test_a_body_above_the_threshold_goes_to_a_file_and_little_of_it_is_in_memory(
    origin: Origin, client: FetchClient
) -> None:
    data = os.urandom(20_000_000)

    pieces = (data[start : start + 65_536] for start in range(0, len(data), 65_536))
    url = origin.does("/", steps(head("200 OK", f"Content-Length: {len(data)}"), *pieces))
    tracemalloc.start()
    outcome = await timed(client, FetchRequest(url, limits=replace(LIMITS, max_body_bytes=len(data))))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(outcome, Fetched), outcome
    assert outcome.body.data is None
    assert outcome.body.path is not None
    assert outcome.body.path.read_bytes() == data
    assert outcome.body.digest == hashlib.sha256(data).hexdigest()
    outcome.body.discard()
    assert not outcome.body.path.exists()
    assert peak < 4_000_000


@pytest.mark.parametrize(("extra", "in_file"), [(0, False), (1, True)])
async def test_the_threshold_is_the_limits(origin: Origin, client: FetchClient, extra: int, in_file: bool) -> None:
    url = origin.does("/", answer(body=b"x" * (LIMITS.spool_bytes + extra)))
    outcome = await timed(client, FetchRequest(url, limits=LIMITS))
    assert isinstance(outcome, Fetched)
    assert (outcome.body.path is not None) is in_file
    outcome.body.discard()


async def test_a_fetch_that_is_cancelled_leaves_no_file(origin: Origin, client: FetchClient) -> None:
    sent = asyncio.Event()

    async def sends_and_hangs(peer: Peer) -> None:
        await peer.send(head("200 OK", "Content-Length: 500000") + b"x" * 400_000)
        sent.set()
        await peer.hang()

    task = asyncio.create_task(client.fetch(FetchRequest(origin.does("/", sends_and_hangs), limits=LIMITS)))
    await sent.wait()
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_disk_that_is_full_is_our_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("resources.fetch.http.bodies.tempfile.NamedTemporaryFile", Mock(side_effect=full))
    outcome = visit(answer(body=b"x" * 500_000))
    assert failure(outcome) is Failure.OURS
    assert isinstance(outcome, FetchFailed)
    assert "No space left" in outcome.detail


async def test_a_body_that_finds_no_room_is_our_failure_and_leaves_nothing(tmp_path: Path) -> None:
    taken = list[int]()

    def take(size: int) -> None:
        taken.append(size)
        if sum(taken) > 600_000:
            raise NoRoomError

    spools = bodies.SpoolFolder(tmp_path, take)
    spool = bodies.BodySpool(spools, 100_000)
    await spool.add(b"x" * 300_000)
    with pytest.raises(FetchError, match="no room is left within DISK_MAX_BYTES") as refused:
        await spool.add(b"x" * 400_000)
    assert (refused.value.failure, taken) == (Failure.OURS, [300_000, 400_000])
    spool.discard()
    assert [*spools.folder().iterdir()] == []
    spools.close()


WHOLE = {
    "of a length": answer(body=b"x" * 900_000),
    "that ends with its connection": raw(head("200 OK") + b"x" * 900_000, close=True),
}


@pytest.mark.parametrize("behaviour", WHOLE.values(), ids=WHOLE)
def test_a_disk_that_is_slow_is_no_slow_server(behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch) -> None:
    write, limits = bodies.BodySpool._write_now, replace(LIMITS, window_seconds=0.5)

    def slowly(*given: Any) -> None:
        time.sleep(limits.window_seconds + 3 * deadlines.WATCH_TICK_SECONDS)
        write(*given)

    monkeypatch.setattr(bodies, "WRITE_BATCH_BYTES", 850_000)  # it is written when it begins, and at its end
    monkeypatch.setattr(bodies.BodySpool, "_write_now", slowly)
    outcome = visit(behaviour, limits)
    assert isinstance(outcome, Fetched), outcome


def test_what_came_while_the_event_loop_stood_still_is_read_before_anybody_looks_at_the_time() -> None:
    limits = replace(LIMITS, window_seconds=3)

    async def holds_everybody_up(peer: Peer) -> None:
        await peer.send(head("200 OK", "Content-Length: 1000") + b"x")
        await asyncio.sleep(2 * deadlines.WATCH_TICK_SECONDS)
        await peer.send(b"x" * 999)
        time.sleep(limits.window_seconds)

    assert isinstance(visit(holds_everybody_up, limits), Fetched)


def test_spools_lie_in_a_folder_of_their_client_that_goes_with_it(tmp_path: Path) -> None:
    spools, others = bodies.SpoolFolder(tmp_path), bodies.SpoolFolder(tmp_path)
    folder = spools.folder()
    assert folder == spools.folder()
    assert folder != others.folder()
    (folder / "fetch-one").touch()
    spools.close()
    assert [path.name for path in tmp_path.iterdir()] == [others.folder().name]
    others.close()
    assert list(tmp_path.iterdir()) == []


async def drops(head: Head) -> bool:
    await asyncio.sleep(0)
    return head.etag == '"had"'


async def test_a_body_that_the_caller_has_is_dropped_unread_however_large(origin: Origin, client: FetchClient) -> None:
    gone, tellings, size = asyncio.Event(), list[None](), LIMITS.max_body_bytes + 1

    async def sends_for_ever(peer: Peer) -> None:
        await peer.send(head("200 OK", 'ETag: "had"', f"Content-Length: {size}"))
        try:
            await peer.flood(b"x" * 1000)
        finally:
            gone.set()

    slow = replace(LIMITS, max_body_bytes=size)
    fetch = FetchRequest(origin.does("/", sends_for_ever), limits=LIMITS, slow_limits=slow)
    outcome = await timed(client, fetch, drops, slows=lambda: tellings.append(None))
    assert isinstance(outcome, BodyDropped)
    assert not tellings
    assert outcome.timing.wire_bytes == 0
    await asyncio.wait_for(gone.wait(), 1)


async def test_a_body_that_the_asker_wants_is_read(origin: Origin, client: FetchClient) -> None:
    url = origin.does("/", answer("200 OK", 'ETag: "new"', body=b"new"))
    assert isinstance(await timed(client, FetchRequest(url, limits=LIMITS), drops), Fetched)


def test_a_body_that_will_not_be_there_in_time_is_not_begun() -> None:
    outcome = visit(answer(body=b"x" * 100_000), replace(LIMITS, learnt_bytes_per_second=1000.0))
    assert failure(outcome) is Failure.TOO_SLOW
    assert isinstance(outcome, FetchFailed)
    assert outcome.timing.wire_bytes == 0


def test_head_has_no_body_whatever_its_length_says() -> None:
    outcome = visit(raw(head("200 OK", "Content-Length: 5000000")), method="HEAD")
    assert isinstance(outcome, Fetched)
    assert (outcome.body.size, outcome.head.content_length) == (0, 5_000_000)
