"""Requests as they arrive, statuses, Retry-After, connections that cannot be made or are used again."""

import asyncio
import gc
import time
from contextlib import suppress

import aiohttp
import pytest

from resources.fetch.http.client import DecideOnHead, FetchClient
from resources.fetch.http.messages import Failure, Fetched, FetchFailed, FetchRequest, Head, NotModified

from ..support import clock
from .origin import Origin, Peer, Step, answer, head, redirect, steps
from .visits import GRACE_SECONDS, LIMITS, UNREACHED, USER_AGENT, failure, timed, visit

pytestmark = pytest.mark.anyio


async def test_a_request_says_who_asks_and_nothing_else(origin: Origin, client: FetchClient) -> None:
    await timed(client, FetchRequest(origin.does("/", answer("200 OK", "Set-Cookie: a=b")), limits=LIMITS))
    await timed(client, FetchRequest(origin.url("/"), limits=LIMITS))
    assert [asked.fields for asked in origin.asked] == [
        {
            "host": f"127.0.0.1:{origin.port}",
            "user-agent": USER_AGENT,
            "accept": "*/*",
            "accept-encoding": "gzip, deflate, br, zstd",
        }
    ] * 2


@pytest.mark.parametrize(
    "target",
    ["/b/../c", "/%7e%2F", "/x?b=2&a=%31", "/x?X-Amz-Signature=a%2Fb&x=1+2", "/a|b~(c)'!*", "//x//y", "/x?&&", "/x?"],
)
async def test_an_address_arrives_as_it_was_given(origin: Origin, client: FetchClient, target: str) -> None:
    origin.does(target.partition("?")[0], answer())
    await timed(client, FetchRequest(origin.url(target), limits=LIMITS))
    assert origin.targets == [target]


async def test_validators_are_sent_as_they_were_received(origin: Origin, client: FetchClient) -> None:
    odd = 'W/"a\\b, c"; x="é"'
    url = origin.does("/", answer("304 Not Modified", "Cache-Control: max-age=60"))
    outcome = await timed(client, FetchRequest(url, etag=odd, last_modified="some day", limits=LIMITS))
    assert isinstance(outcome, NotModified)
    assert outcome.head.freshness.lifetime_seconds == 60
    fields = origin.asked[0].fields
    assert fields["if-none-match"].encode("latin-1").decode() == odd
    assert fields["if-modified-since"] == "some day"


@pytest.mark.parametrize(
    ("etag", "expected"), [('"a"', '"a"'), ("no quotes", "no quotes"), ('"\xff"', None), ("x" * 1001, None)]
)
def test_a_validator_that_cannot_be_sent_back_is_none(etag: str, expected: str | None) -> None:
    outcome = visit(answer("200 OK", f"ETag: {etag}"))
    assert isinstance(outcome, Fetched)
    assert outcome.head.etag == expected


async def test_headers_of_the_asker_replace_ours(origin: Origin, client: FetchClient) -> None:
    await timed(
        client, FetchRequest(origin.does("/", answer()), headers={"user-agent": "Other", "X-Y": "z"}, limits=LIMITS)
    )
    assert (origin.asked[0].fields["user-agent"], origin.asked[0].fields["x-y"]) == ("Other", "z")


@pytest.mark.parametrize("given", [{}, {"Content-Type": "text/x"}])
async def test_a_body_has_the_type_that_its_asker_says_or_none(
    origin: Origin, client: FetchClient, given: dict[str, str]
) -> None:
    url = origin.does("/", answer())
    await timed(client, FetchRequest(url, method="POST", body=b"x=y", headers=given, limits=LIMITS))
    await timed(client, FetchRequest(url, method="POST", headers=given, limits=LIMITS))
    assert [asked.fields.get("content-type") for asked in origin.asked] == [given.get("Content-Type")] * 2
    assert [asked.body for asked in origin.asked] == [b"x=y", b""]


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Connection", "X\r\nY", "", "a b"])
def test_headers_that_would_change_the_request_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be sent"):
        FetchRequest("http://a.example/", headers={name: "x"})


@pytest.mark.parametrize("value", ["a\r\nb", "a\0", "\ud800"])
def test_values_that_would_end_a_header_are_refused(value: str) -> None:
    with pytest.raises(ValueError, match="cannot be sent"):
        FetchRequest("http://a.example/", headers={"X": value})


def test_other_methods_are_refused() -> None:
    with pytest.raises(ValueError, match="not one of"):
        FetchRequest("http://a.example/", method="DELETE")


def test_retry_after_is_read_with_the_answer() -> None:
    for lines, seconds in ((("Retry-After: 120", "Retry-After: 60"), 120), (("Retry-After: soon",), None)):
        outcome = visit(answer("429 Too Many Requests", *lines))
        assert isinstance(outcome, FetchFailed)
        assert outcome.retry_after_seconds == seconds


async def test_what_has_expired_is_not_asked_for_nor_behind_a_redirect(origin: Origin, client: FetchClient) -> None:
    expired = origin.does("/there", answer()) + f"?Expires={int(time.time()) - 1}&Signature=x"
    for url, targets in ((expired, []), (origin.does("/", redirect(expired)), ["/"])):
        assert failure(await timed(client, FetchRequest(url, limits=LIMITS))) is Failure.EXPIRED
        assert origin.targets == targets


async def test_a_server_that_does_not_accept_has_no_connection_in_time(
    origin: Origin, client: FetchClient, full_port: int
) -> None:
    fetched = client.fetch(FetchRequest(f"http://127.0.0.1:{full_port}/", limits=UNREACHED))
    assert failure(await clock.within(UNREACHED.connect_seconds + GRACE_SECONDS, fetched)) is Failure.TRANSIENT


async def test_a_connection_is_used_again(origin: Origin, client: FetchClient) -> None:
    origin.does("/missing", answer("404 Not Found", body=b"x" * 5000))
    for path in ("/", "/missing", "/"):
        await timed(
            client, FetchRequest(origin.does("/", answer()) if path == "/" else origin.url(path), limits=LIMITS)
        )
    assert (len(origin.asked), origin.connections) == (3, 1)


async def test_a_connection_that_was_closed_meanwhile_is_replaced(origin: Origin, client: FetchClient) -> None:
    async def reads_and_leaves(peer: Peer) -> None:
        peer.writer.close()

    url = origin.does("/", answer())
    await timed(client, FetchRequest(url, limits=LIMITS))
    origin.paths["/"] = reads_and_leaves
    switched = asyncio.get_running_loop().call_later(0, origin.paths.update, {"/": reads_and_leaves})
    outcome = await timed(client, FetchRequest(url, limits=LIMITS))
    switched.cancel()
    assert failure(outcome) is Failure.TRANSIENT
    assert (len(origin.asked), origin.connections) == (3, 2), "once on the old connection, once on a new one"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
async def test_a_request_that_broke_on_its_own_connection_is_not_sent_twice(
    origin: Origin, client: FetchClient, method: str
) -> None:
    outcome = await timed(client, FetchRequest(origin.does("/", steps(Peer.reset)), method=method, limits=LIMITS))
    assert failure(outcome) is Failure.TRANSIENT
    assert len(origin.asked) == 1


async def test_a_post_is_never_sent_twice(origin: Origin, client: FetchClient) -> None:
    await timed(client, FetchRequest(origin.does("/", answer()), limits=LIMITS))
    outcome = await timed(
        client, FetchRequest(origin.does("/post", steps(Peer.reset)), method="POST", body=b"x", limits=LIMITS)
    )
    assert failure(outcome) is Failure.TRANSIENT
    assert origin.targets == ["/", "/post"]


LARGE_BODY = b"x" * 16_000_000
"""More than the buffers of both ends take."""


class SilentPeer:
    """A server that reads no more than the head of each request, and then sends that answer. `bytes_left` reads on."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._peers: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._server: asyncio.Server | None = None

    @property
    def connections(self) -> int:
        return len(self._peers)

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for _reader, writer in self._peers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _reader, writer in self._peers), return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._peers.append((reader, writer))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self._answer)

    async def bytes_left(self) -> int:
        """Returns the number of bytes of the last request that come until its connection ends."""
        total = 0
        with suppress(ConnectionResetError):
            async with asyncio.timeout(10):
                while part := await self._peers[-1][0].read(1_000_000):
                    total += len(part)
        return total


async def test_a_connection_answered_before_all_of_a_body_is_read_is_not_used_again(client: FetchClient) -> None:
    peer = SilentPeer(head("413 Content Too Large", "Content-Length: 0"))
    async with peer as url:
        for body in (LARGE_BODY[:20_000], LARGE_BODY, b""):
            outcome = await timed(client, FetchRequest(url, method="POST", body=body, limits=LIMITS))
            assert isinstance(outcome, FetchFailed)
            assert outcome.status == 413
    assert peer.connections == 3


async def test_what_is_not_sent_by_the_deadline_is_dropped(client: FetchClient) -> None:
    peer = SilentPeer(b"")
    async with peer as url:
        outcome = await timed(client, FetchRequest(url, method="POST", body=LARGE_BODY, limits=LIMITS))
        assert failure(outcome) is Failure.TOO_SLOW
        assert await peer.bytes_left() < len(LARGE_BODY)


async def test_a_status_below_100_is_an_answer(origin: Origin, client: FetchClient) -> None:
    outcome = await timed(client, FetchRequest(origin.does("/", answer("099 Odd")), limits=LIMITS))
    assert isinstance(outcome, FetchFailed)
    assert outcome.status == 99


async def _drop(_: Head) -> bool:
    return True


@pytest.mark.parametrize(
    ("status", "size", "then", "decide"),
    [(200, 900_000, Peer.hang, _drop), (200, 900_000, Peer.reset, None), (404, 9_000, Peer.reset, None)],
    ids=["dropped", "cut short", "drained"],
)
async def test_a_body_without_its_end_leaves_memory_at_once(
    origin: Origin, client: FetchClient, *, status: int, size: int, then: Step, decide: DecideOnHead | None
) -> None:
    sent = head(f"{status} Any", f"Content-Length: {size}") + bytes(size // 4)
    url = origin.does("/", steps(sent, 0.05, then))
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            outcome = await client.fetch(FetchRequest(url, limits=LIMITS), decide)
            assert (outcome.status if isinstance(outcome, FetchFailed) else outcome.head.status) == status
        await asyncio.sleep(0.1)
        assert not [each for each in gc.get_objects() if type(each) is aiohttp.StreamReader and not each.is_eof()]
    finally:
        gc.enable()


GOOD, EVIL = (head("200 OK", "Content-Length: 4") + body for body in (b"good", b"evil"))


@pytest.mark.parametrize(
    "sent", [(GOOD + EVIL,), (GOOD, 0.05, EVIL), (GOOD[:-2], 0.05, GOOD[-2:] + EVIL)], ids=["with it", "later", "half"]
)
async def test_a_second_answer_that_nobody_asked_for_is_nobodys(
    origin: Origin, client: FetchClient, sent: tuple[bytes | float, ...]
) -> None:
    is_sent = asyncio.Event()
    url = origin.does("/", steps(*sent, lambda _: is_sent.set()))
    origin.does("/next", answer(body=b"next"))
    for wanted, body in ((url, b"good"), (origin.url("/next"), b"next")):
        outcome = await timed(client, FetchRequest(wanted, limits=LIMITS))
        assert isinstance(outcome, Fetched)
        assert outcome.body.read() == body
        await is_sent.wait()
        for _ in range(10):  # the client reads what was sent
            await asyncio.sleep(0.005)


async def test_a_server_that_swallows_requests_slows_no_other_down(origin: Origin, client: FetchClient) -> None:
    fetch = FetchRequest(origin.does("/hangs", Peer.hang), limits=LIMITS)
    hanging = [asyncio.create_task(client.fetch(fetch)) for _ in range(100)]
    while len(origin.asked) < 100:
        await asyncio.sleep(0.01)
    async with Origin(address="127.0.0.1") as other:
        fetched = clock.within(0.3, client.fetch(FetchRequest(other.does("/", answer()), limits=LIMITS)))
        assert isinstance(await fetched, Fetched)
    assert not any(each.done() for each in hanging)
    for each in hanging:
        each.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)


async def test_a_wait_for_a_turn_is_no_time_of_an_answer(origin: Origin, client: FetchClient) -> None:
    origin.does("/there", answer())

    async def wait_for_turn(url: str) -> None:
        await asyncio.sleep(0.3)

    fetch = FetchRequest(origin.does("/", redirect("/there")), limits=LIMITS)
    timing = (await client.fetch(fetch, turn=wait_for_turn)).timing
    assert len(timing.answer_seconds) == 2
    assert sum(timing.answer_seconds) <= timing.seconds - 0.29


async def test_the_time_and_the_bytes_are_told(origin: Origin, client: FetchClient) -> None:
    slow = steps(0.1, head("200 OK", "Content-Length: 10"), 0.4, b"x" * 10)
    outcome = await timed(client, FetchRequest(origin.does("/", slow), limits=LIMITS))
    timing = outcome.timing
    assert timing.head_seconds is not None
    assert 0.1 <= timing.head_seconds <= timing.seconds - 0.2
    assert timing.wire_bytes == 10
    assert abs(time.time() - timing.started_at) < 5
