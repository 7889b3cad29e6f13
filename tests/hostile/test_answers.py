"""Answers that are too slow, too large, broken or lies: each ends in its class, within its deadline."""

import asyncio

import pytest

from resources.fetch.http.messages import Failure, Fetched, FetchFailed

from .origin import Behaviour, Peer, answer, head, raw
from .visits import IMPATIENT, LIMITS, failure, visit

OK = "200 OK"
CHUNKED = "Transfer-Encoding: chunked"


async def says_nothing(peer: Peer) -> None:
    await peer.hang()


async def drips_its_head(peer: Peer) -> None:
    await peer.drip(head(OK, "X: " + "x" * 500), 0.05)


async def drips_its_body(peer: Peer) -> None:
    await peer.send(head(OK, "Content-Length: 500000"))
    await peer.drip(b"x" * 1000, 0.01)


async def drips_its_chunks(peer: Peer) -> None:
    await peer.send(head(OK, CHUNKED))
    for _ in range(1000):
        await peer.drip(b"1\r\nx\r\n", 0.01)


async def stops_in_its_body(peer: Peer) -> None:
    await peer.send(head(OK, "Content-Length: 500000") + b"x" * 100_000)
    await peer.hang()


async def never_ends_a_body_without_length(peer: Peer) -> None:
    await peer.send(head(OK) + b"x" * 100)
    await peer.hang()


async def is_fast_enough_but_never_done(peer: Peer) -> None:
    await peer.send(head(OK, CHUNKED))
    for _ in range(1000):
        await peer.send(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
        await asyncio.sleep(0.05)


async def continues_for_ever(peer: Peer) -> None:
    for _ in range(1000):
        await peer.send(head("100 Continue"))
        await asyncio.sleep(0.01)


async def floods_with_continue(peer: Peer) -> None:
    await peer.flood(head("100 Continue") * 100)


async def floods_with_fields(peer: Peer) -> None:
    await peer.send(b"HTTP/1.1 200 OK\r\n")
    await peer.flood(b"X: x\r\n" * 1000)


async def floods_with_one_field(peer: Peer) -> None:
    await peer.send(b"HTTP/1.1 200 OK\r\nX: ")
    await peer.flood(b"x" * 65_536)


async def floods_with_a_status_line(peer: Peer) -> None:
    await peer.send(b"HTTP/1.1 200 ")
    await peer.flood(b"x" * 65_536)


async def floods_with_trailers(peer: Peer) -> None:
    await peer.send(head(OK, CHUNKED) + b"1\r\nx\r\n0\r\n")
    await peer.flood(b"X: x\r\n" * 1000)


async def floods_with_one_trailer(peer: Peer) -> None:
    await peer.send(head(OK, CHUNKED) + b"1\r\nx\r\n0\r\nX: ")
    await peer.flood(b"x" * 65_536)


async def floods_with_trailers_later(peer: Peer) -> None:
    await peer.send(head(OK, CHUNKED) + b"1\r\nx\r\n")
    await asyncio.sleep(0.05)
    await peer.send(b"0\r\n")
    await peer.flood(b"X: x\r\n" * 1000)


async def floods_with_one_trailer_later(peer: Peer) -> None:
    await peer.send(head(OK, CHUNKED) + b"1\r\nx\r\n")
    await asyncio.sleep(0.05)
    await peer.send(b"0\r\nX: ")
    await peer.flood(b"x" * 65_536)


async def sends_nonsense_for_chunks_later(peer: Peer) -> None:
    await peer.send(head(OK, CHUNKED) + b"1\r\nx\r\n")
    await asyncio.sleep(0.05)
    await peer.send(b"xyz\r\n")
    await peer.hang()


async def sends_more_than_it_promised_later(peer: Peer) -> None:
    await peer.send(head(OK, "Content-Length: 3") + b"all")
    await asyncio.sleep(0.05)
    await peer.send(b" and more")
    peer.writer.close()


async def floods_with_a_chunk_extension(peer: Peer) -> None:
    await peer.send(head(OK, CHUNKED) + b"1;")
    await peer.flood(b"x" * 65_536)


async def floods_with_a_body(peer: Peer) -> None:
    await peer.send(head(OK))
    await peer.flood(b"x" * 65_536)


async def floods_with_chunks(peer: Peer) -> None:
    await peer.send(head(OK, CHUNKED))
    await peer.flood(b"10000\r\n" + b"x" * 65_536 + b"\r\n")


async def resets_at_once(peer: Peer) -> None:
    peer.reset()


async def resets_in_its_head(peer: Peer) -> None:
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-")
    peer.reset()


async def resets_in_its_body(peer: Peer) -> None:
    await peer.send(head(OK, "Content-Length: 500000") + b"x" * 1000)
    await asyncio.sleep(0.05)
    peer.reset()


async def half_closes_at_once(peer: Peer) -> None:
    peer.writer.write_eof()
    await peer.hang()


async def half_closes_in_its_body(peer: Peer) -> None:
    await peer.send(head(OK, "Content-Length: 500") + b"x" * 100)
    peer.writer.write_eof()
    await peer.hang()


SLOW: dict[str, Behaviour] = {
    "silence": says_nothing,
    "a head that drips": drips_its_head,
    "a body that drips": drips_its_body,
    "chunks that drip": drips_its_chunks,
    "a body that stops": stops_in_its_body,
    "a body without length or end": never_ends_a_body_without_length,
    "a body that is fast enough, but for ever": is_fast_enough_but_never_done,
    "100 Continue for ever": continues_for_ever,
    "an endless chunk extension": floods_with_a_chunk_extension,
    "a flood of 100 Continue": floods_with_continue,
}
BIG: dict[str, Behaviour] = {
    "endless fields": floods_with_fields,
    "one endless field": floods_with_one_field,
    "an endless status line": floods_with_a_status_line,
    "endless trailers": floods_with_trailers,
    "one endless trailer": floods_with_one_trailer,
    "a head larger than the limit in decent fields": answer(OK, *(f"X-{n}: {'x' * 8000}" for n in range(9))),
    "an endless body": floods_with_a_body,
    "endless chunks": floods_with_chunks,
    "a huge Content-Length": raw(head(OK, "Content-Length: 1000000000000000000") + b"x"),
    "a Content-Length just above the limit": raw(head(OK, "Content-Length: 1000001")),
}
BROKEN: dict[str, Behaviour] = {
    "endless trailers that come later": floods_with_trailers_later,
    "one endless trailer that comes later": floods_with_one_trailer_later,
    "chunks that are none, later": sends_nonsense_for_chunks_later,
    "less promised than sent": raw(head(OK, "Content-Length: 3") + b"all and more"),
    "two lengths in one field": raw(head(OK, "Content-Length: 3, 3") + b"all"),
    "two lengths that agree": raw(head(OK, "Content-Length: 3", "Content-Length: 3") + b"all"),
    "204 with a body": raw(head("204 No Content", "Content-Length: 3") + b"all"),
    "more promised than sent": raw(head(OK, "Content-Length: 500") + b"x" * 100, close=True),
    "a Content-Length beyond any number": raw(head(OK, f"Content-Length: {'9' * 30}")),
    "a negative Content-Length": raw(head(OK, "Content-Length: -1") + b"x"),
    "a Content-Length of words": raw(head(OK, "Content-Length: some") + b"x"),
    "an empty Content-Length": raw(head(OK, "Content-Length: ") + b"x", close=True),
    "two lengths that differ": raw(head(OK, "Content-Length: 1", "Content-Length: 2") + b"xx"),
    "a length and chunks": raw(head(OK, "Content-Length: 1", CHUNKED) + b"1\r\nx\r\n0\r\n\r\n"),
    "chunks that are none": raw(head(OK, CHUNKED) + b"xyz\r\nx\r\n"),
    "a chunk longer than it says": raw(head(OK, CHUNKED) + b"1\r\nxxxxx\r\n0\r\n\r\n"),
    "a chunk of negative size": raw(head(OK, CHUNKED) + b"-1\r\nx\r\n"),
    "a chunk beyond any number": raw(head(OK, CHUNKED) + b"f" * 30 + b"\r\nx"),
    "chunks without an end": raw(head(OK, CHUNKED) + b"1\r\nx\r\n", close=True),
    "nothing at all": raw(b"", close=True),
    "no HTTP": raw(b"SSH-2.0-OpenSSH_9.2\r\n", close=True),
    "HTTP/0.9": raw(b"<html></html>", close=True),
    "another HTTP": raw(b"HTTP/9.9 200 OK\r\n\r\n", close=True),
    "a status of two digits": raw(b"HTTP/1.1 20 OK\r\n\r\n", close=True),
    "a field without a name": raw(b"HTTP/1.1 200 OK\r\n: x\r\n\r\n", close=True),
    "a zero byte in a field": raw(b"HTTP/1.1 200 OK\r\nX: \0\r\nContent-Length: 0\r\n\r\n"),
    "half a head": raw(b"HTTP/1.1 200 OK\r\nContent-", close=True),
    "a reset in place of an answer": resets_at_once,
    "a reset in the head": resets_in_its_head,
    "a reset in the body": resets_in_its_body,
    "half closed in place of an answer": half_closes_at_once,
    "half closed in the body": half_closes_in_its_body,
    "304 without a condition": raw(head("304 Not Modified")),
    "a part that nobody asked for": answer("206 Partial Content", "Content-Range: bytes 0-0/9", body=b"x"),
}


@pytest.mark.parametrize("behaviour", SLOW.values(), ids=SLOW)
def test_what_is_too_slow_ends_as_too_slow(behaviour: Behaviour) -> None:
    assert failure(visit(behaviour, IMPATIENT)) is Failure.TOO_SLOW


@pytest.mark.parametrize("behaviour", BIG.values(), ids=BIG)
def test_what_is_too_big_ends_as_too_big(behaviour: Behaviour) -> None:
    assert failure(visit(behaviour)) is Failure.TOO_BIG


@pytest.mark.parametrize("behaviour", BROKEN.values(), ids=BROKEN)
def test_what_is_broken_may_be_whole_the_next_time(behaviour: Behaviour) -> None:
    outcome = visit(behaviour)
    assert failure(outcome) is Failure.TRANSIENT
    assert isinstance(outcome, FetchFailed)
    assert outcome.timing.seconds < LIMITS.window_seconds, "it was known before any limit ran out"


READ: dict[str, tuple[Behaviour, bytes]] = {
    "no Content-Length, and an end": (raw(head(OK) + b"all", close=True), b"all"),
    "HTTP/1.0": (raw(b"HTTP/1.0 200 OK\r\n\r\nall", close=True), b"all"),
    "a length of 0": (raw(head(OK, "Content-Length: 0")), b""),
    "chunks with trailers": (raw(head(OK, CHUNKED) + b"3\r\nall\r\n0\r\nX: y\r\n\r\n"), b"all"),
    "lines that end in a line feed": (raw(b"HTTP/1.1 200 OK\nContent-Length: 3\n\nall"), b"all"),
    "100 Continue first": (raw(head("100 Continue") + head(OK, "Content-Length: 3") + b"all"), b"all"),
    "hints first": (raw(head("103 Early Hints", "Link: </x>") + head(OK, "Content-Length: 3") + b"all"), b"all"),
    "no reason": (raw(b"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nall"), b"all"),
    "bytes that are no UTF-8 in a field": (raw(head(OK, "X: \xe9\xff", "Content-Length: 3") + b"all"), b"all"),
    "less promised than sent, and the rest later": (sends_more_than_it_promised_later, b"all"),
    "204": (raw(head("204 No Content")), b""),
}


@pytest.mark.parametrize(("behaviour", "body"), READ.values(), ids=READ)
def test_what_is_odd_but_clear_is_read(behaviour: Behaviour, body: bytes) -> None:
    outcome = visit(behaviour)
    assert isinstance(outcome, Fetched), outcome
    assert outcome.body.read() == body
