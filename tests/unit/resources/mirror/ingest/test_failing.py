"""Each failure of a fetch has its end: final, tried again later, or without counting an attempt."""

import asyncio
import socket
from datetime import timedelta

import pytest
from pytest_django import Settings

from resources.fetch.http.guard import SystemLookup
from resources.fetch.http.messages import Failure, FetchFailed, OutcomeTiming
from resources.mirror.ingest import settlement
from resources.mirror.ingest.settlement import FetchTarget
from resources.mirror.ingest.url_outcome import NothingFound
from resources.mirror.models import Resource
from tests.conftest import RedisServers
from tests.hostile.origin import Behaviour, Origin, Peer, answer, redirect
from tests.support.mirror_runs import fed_until, in_a_thread, mirrored_from, report

from .test_mirroring import marks

pytestmark = pytest.mark.usefixtures("mirroring")


async def hangs(peer: Peer) -> None:
    await peer.hang()


async def resets(peer: Peer) -> None:
    peer.reset()


async def half(peer: Peer) -> None:
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    peer.writer.close()


async def asked(url: str) -> None:
    """Reports it, and returns when that has failed once."""
    await in_a_thread(report)(url)
    await fed_until(lambda: Resource.objects.filter(failure__gt="").exists())


def row_of_one_attempt(servers: RedisServers) -> tuple[str, str, int | None]:
    """State, failure and status. Fails if a fetcher holds it, or it is not to be tried again as its state says."""
    found = Resource.objects.get()
    assert (found.attempts, found.due_at is not None) == (1, found.state == "wanted")
    assert [key for key in marks(servers) if b"claim" in key or b"lease" in key] == []
    return found.state, found.failure, found.status


@pytest.fixture(autouse=True)
def _impatient(settings: Settings) -> None:
    settings.FETCH_HEAD_SECONDS = 0.3
    settings.FETCH_DEADLINE_SECONDS = 2


@pytest.mark.parametrize(
    ("behaviour", "state", "failure", "status"),
    [
        (hangs, "wanted", "too slow", None),
        (resets, "wanted", "transient", None),
        (half, "wanted", "transient", 200),
        (answer("500 Internal Server Error"), "wanted", "transient", 500),
        (answer("410 Gone"), "failed", "permanent", 410),
        (redirect("/a"), "failed", "permanent", 302),
        (redirect("ftp://origin.example/"), "failed", "refused", 302),
        (redirect("/b?Expires=1000000000&Signature=x"), "wanted", "transient", 302),
    ],
    ids=["never answers", "resets", "sends half", "breaks down", "gone", "loop", "elsewhere", "to what has expired"],
)
def test_what_an_origin_can_do(
    mirroring: RedisServers, behaviour: Behaviour, state: str, failure: str, status: int | None
) -> None:
    async def test(origin: Origin) -> None:
        await asked(origin.does("/a", behaviour))

    mirrored_from(test)
    assert row_of_one_attempt(mirroring) == (state, failure, status)


def test_a_port_where_nobody_listens_is_tried_again(mirroring: RedisServers) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # no other job gets the port, and no process listens
        mirrored_from(lambda _: asked(f"http://127.0.0.1:{closed.getsockname()[1]}/a"))
    assert row_of_one_attempt(mirroring) == ("wanted", "transient", None)


def test_a_name_that_there_is_not_has_failed_for_good(mirroring: RedisServers, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(SystemLookup, "resolve", unknown)
    mirrored_from(lambda _: asked("http://nobody.example/a"))
    assert row_of_one_attempt(mirroring) == ("failed", "permanent", None)


def test_a_server_that_speaks_no_tls_is_tried_again(mirroring: RedisServers) -> None:
    async def speaks_something_else(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    async def test(_: Origin) -> None:
        async with await asyncio.start_server(speaks_something_else, "127.0.0.1", 0) as server:
            await asked(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/a")

    mirrored_from(test)
    assert row_of_one_attempt(mirroring) == ("wanted", "transient", None)


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
def test_a_host_that_asks_to_be_left_alone_is_and_no_attempt_has_failed(status: str) -> None:
    async def test(origin: Origin) -> None:
        throttling = answer(status, "Retry-After: 1")

        async def first_throttles(peer: Peer) -> None:
            await (throttling if len(origin.asked) == 1 else answer(body=b"text"))(peer)

        await in_a_thread(report)(origin.does("/a", first_throttles))
        await fed_until(lambda: Resource.objects.filter(state="stored").exists())
        assert len(origin.asked) == 2

    mirrored_from(test)
    assert Resource.objects.get().attempts == 0


def test_what_an_origin_asks_for_is_the_least_until_the_next_attempt() -> None:
    url = "https://origin.example/a"
    [digest] = report(url)
    asked = FetchFailed(Failure.THROTTLED, "answered 429", OutcomeTiming(0, 0), 429, retry_after_seconds=86_400)
    found = settlement.settle_fetch(FetchTarget.read((url, digest)), asked)
    assert isinstance(found, NothingFound)
    assert found.due_at
    assert found.due_at - found.at >= timedelta(days=1) - timedelta(seconds=1)
