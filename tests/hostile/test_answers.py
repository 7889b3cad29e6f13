"""Answers that are too slow, too large, broken or lies: each ends in its class, within its deadline."""

import pytest

from resources.fetch.http.messages import Failure, Fetched, FetchFailed

from .origin import Behaviour, Peer, answer, drip, flood, half_close, head, raw, steps
from .visits import IMPATIENT, LIMITS, failure, visit, visit_and_measure

OK = "200 OK"
CHUNKED = "Transfer-Encoding: chunked"


SHORTLY = 0.05
"""Seconds after which the rest of an answer comes: not with its head."""

LONG = head(OK, "Content-Length: 500000")
CHUNKS = head(OK, CHUNKED)
FIELDS, TEXT = b"X: x\r\n" * 1000, b"x" * 65_536
SLOW: dict[str, Behaviour] = {
    "silence": Peer.hang,
    "a head that drips": steps(drip(head(OK, "X: " + "x" * 500), 0.05)),
    "a body that drips": steps(LONG, drip(b"x" * 1000, 0.01)),
    "chunks that drip": steps(CHUNKS, drip(b"1\r\nx\r\n" * 1000, 0.01)),
    "a body that stops": steps(LONG + b"x" * 100_000, Peer.hang),
    "a body without length or end": steps(head(OK) + b"x" * 100, Peer.hang),
    "a body that is fast enough, but for ever": steps(CHUNKS, *(b"3e8\r\n" + b"x" * 1000 + b"\r\n", 0.05) * 1000),
    "100 Continue for ever": steps(*(head("100 Continue"), 0.01) * 1000),
    "an endless chunk extension": steps(CHUNKS + b"1;", flood(TEXT)),
    "a flood of 100 Continue": steps(flood(head("100 Continue") * 100)),
}
BIG: dict[str, Behaviour] = {
    "endless fields": steps(b"HTTP/1.1 200 OK\r\n", flood(FIELDS)),
    "one endless field": steps(b"HTTP/1.1 200 OK\r\nX: ", flood(TEXT)),
    "an endless status line": steps(b"HTTP/1.1 200 ", flood(TEXT)),
    "endless trailers": steps(CHUNKS + b"1\r\nx\r\n0\r\n", flood(FIELDS)),
    "one endless trailer": steps(CHUNKS + b"1\r\nx\r\n0\r\nX: ", flood(TEXT)),
    "a head larger than the limit in decent fields": answer(OK, *(f"X-{n}: {'x' * 8000}" for n in range(9))),
    "an endless body": steps(head(OK), flood(TEXT)),
    "endless chunks": steps(CHUNKS, flood(b"10000\r\n" + TEXT + b"\r\n")),
    "a huge Content-Length": raw(head(OK, "Content-Length: 1000000000000000000") + b"x"),
    "a Content-Length just above the limit": raw(head(OK, "Content-Length: 1000001")),
}
BROKEN: dict[str, Behaviour] = {
    "endless trailers that come later": steps(CHUNKS + b"1\r\nx\r\n", SHORTLY, b"0\r\n", flood(FIELDS)),
    "one endless trailer that comes later": steps(CHUNKS + b"1\r\nx\r\n", SHORTLY, b"0\r\nX: ", flood(TEXT)),
    "chunks that are none, later": steps(CHUNKS + b"1\r\nx\r\n", SHORTLY, b"xyz\r\n", Peer.hang),
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
    "a reset in place of an answer": steps(Peer.reset),
    "a reset in the head": steps(b"HTTP/1.1 200 OK\r\nContent-", Peer.reset),
    "a reset in the body": steps(LONG + b"x" * 1000, SHORTLY, Peer.reset),
    "half closed in place of an answer": steps(half_close, Peer.hang),
    "half closed in the body": steps(head(OK, "Content-Length: 500") + b"x" * 100, half_close, Peer.hang),
    "304 without a condition": raw(head("304 Not Modified")),
    "a part that nobody asked for": answer("206 Partial Content", "Content-Range: bytes 0-0/9", body=b"x"),
}


@pytest.mark.parametrize("behaviour", SLOW.values(), ids=SLOW)
def test_what_is_too_slow_ends_as_too_slow(behaviour: Behaviour) -> None:
    assert failure(visit(behaviour, IMPATIENT)) is Failure.TOO_SLOW


@pytest.mark.parametrize("behaviour", BIG.values(), ids=BIG)
def test_what_is_too_big_ends_as_too_big(behaviour: Behaviour) -> None:
    outcome, peak = visit_and_measure(behaviour)
    assert failure(outcome) is Failure.TOO_BIG
    assert peak < 8_000_000


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
    "less promised than sent, and the rest later": (
        steps(head(OK, "Content-Length: 3") + b"all", SHORTLY, b" and more", lambda peer: peer.writer.close()),
        b"all",
    ),
    "204": (raw(head("204 No Content")), b""),
}


@pytest.mark.parametrize(("behaviour", "body"), READ.values(), ids=READ)
def test_what_is_odd_but_clear_is_read(behaviour: Behaviour, body: bytes) -> None:
    outcome = visit(behaviour)
    assert isinstance(outcome, Fetched), outcome
    assert outcome.body.read() == body
