"""Settlements: bodies spared by validators, origins that lie, and the end of each failure."""

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from hashlib import md5, sha256
from unittest.mock import AsyncMock

import pytest
from pytest_django import Settings

from resources import tasks
from resources.fetch.http.guard import SystemLookup
from resources.fetch.http.messages import Failure, FetchFailed, OutcomeTiming
from resources.mirror import hosts
from resources.mirror.ingest import dedupe, settlement
from resources.mirror.ingest.settlement import FetchTarget
from resources.mirror.ingest.url_outcome import NothingFound
from resources.mirror.models import Blob, MirroredHost, Resource, Validator
from tests.conftest import RedisServers
from tests.hostile.origin import Behaviour, Peer, answer, head, raw, redirect
from tests.support.mirror_runs import open_rows, report

from ..conftest import raising
from .conftest import MirroredOrigin, mirrored_origin
from .test_fetch_task import marks

NOW = datetime(2026, 11, 21, tzinfo=UTC)

pytestmark = pytest.mark.usefixtures("mirroring")


@pytest.fixture(autouse=True)
def _trusting(settings: Settings) -> None:
    """No body is downloaded all the same."""
    settings.MIRROR_SAMPLED_FIRST = 0
    settings.MIRROR_SAMPLED_EVERY = 10**9


def vouched(body: bytes, said: str = "") -> Behaviour:
    return answer("200 OK", f'ETag: "{said or md5(body).hexdigest()}"', body=body)


def steps() -> dict[str, str]:
    """By the path of each URL."""
    return {f"/{url.rpartition('/')[2]}": step for url, step in Resource.objects.values_list("url", "step")}


def test_a_body_that_is_known_by_its_etag_is_not_taken() -> None:
    body, gone = b"text" * 100, 0

    async def endless(peer: Peer) -> None:
        nonlocal gone
        await peer.send(head("200 OK", f'ETag: "{md5(body).hexdigest()}"', f"Content-Length: {len(body)}"))
        await peer.hang()
        gone += 1

    with mirrored_origin() as origin:
        origin.mirror(origin.does("/a", vouched(body)))
        origin.mirror(origin.does("/b", endless))
    assert gone == 1
    assert steps() == {"/a": "new", "/b": "validators"}
    assert len(set(Resource.objects.values_list("blob_digest", flat=True))) == 1


def test_a_host_is_believed_once_it_was_right_so_often(settings: Settings) -> None:
    settings.MIRROR_SAMPLED_FIRST = 2

    with mirrored_origin() as origin:
        for path in ("/a", "/b", "/c", "/d"):
            origin.mirror(origin.does(path, vouched(b"text")))
    assert steps() == {"/a": "new", "/b": "content", "/c": "content", "/d": "validators"}
    host = MirroredHost.objects.get()
    assert (host.confirmed, host.lies) == (2, 0)
    assert host.spared == pytest.approx(host.asked - 1, abs=0.1)


def test_what_a_liar_vouched_for_and_what_was_concluded_from_that_is_fetched(settings: Settings) -> None:
    said = md5(b"one").hexdigest()
    with mirrored_origin() as origin:
        origin.mirror(origin.does("/a", vouched(b"one", said)))
        origin.does("/b", vouched(b"two", said))
        origin.does("/to-to-b", redirect("/to-b"))
        origin.mirror(origin.does("/to-b", redirect("/b")))
        origin.mirror(origin.url("/to-to-b"))
        assert steps() == {"/a": "new", "/to-b": "validators", "/b": "redirect", "/to-to-b": "redirect"}
        settings.MIRROR_SAMPLED_EVERY = 1
        origin.mirror(origin.does("/c", vouched(b"six", said)))
        # The host has been caught when its validators go, and those go last.
        origin.feed_until(lambda: not Validator.objects.exists() and not open_rows())
        settings.MIRROR_SAMPLED_EVERY = 10**9
        origin.mirror(origin.does("/d", vouched(b"ten", said)))  # it is no longer believed
    assert MirroredHost.objects.get().lies == 1
    assert not Validator.objects.exists()
    blobs = dict(Resource.objects.values_list("url", "blob_digest"))
    found = {f"/{url.rpartition('/')[2]}": digest for url, digest in blobs.items()}
    one, two, six, ten = (sha256(body).hexdigest() for body in (b"one", b"two", b"six", b"ten"))
    assert found == {"/a": one, "/b": two, "/to-b": two, "/to-to-b": two, "/c": six, "/d": ten}


def test_a_distrust_that_a_killed_process_has_begun_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    said = md5(b"one").hexdigest()
    with mirrored_origin() as origin:
        origin.mirror(origin.does("/a", vouched(b"one", said)))
        origin.mirror(origin.does("/b", vouched(b"two", said)))
        with monkeypatch.context() as patched:
            patched.setattr(hosts, "distrust_host", raising(RuntimeError("killed")))
            with pytest.raises(RuntimeError):
                hosts.record_evidence({MirroredHost.objects.get().host: hosts.HostEvidence(lies=1)}, NOW)
        assert steps() == {"/a": "new", "/b": "validators"}
        tasks.sweep_blobs()
        origin.feed_until(lambda: not open_rows())
    assert steps() == {"/a": "new", "/b": "new"}
    assert not Validator.objects.exists()
    assert hosts.find_distrusted() == []


def test_digests_confirm_no_opaque_validators(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.MIRROR_SAMPLED_FIRST = 3
    monkeypatch.setattr(dedupe, "MIN_CONFIRMED_OPAQUE", 2)
    opaque = "release-of-november-2026"
    with mirrored_origin() as origin:
        for number in range(4):
            origin.mirror(origin.does(f"/{number}", vouched(b"text")))
        origin.mirror(origin.does("/a", vouched(b"one", opaque)))
        origin.mirror(origin.does("/b", vouched(b"two", opaque)))
    found = steps()
    assert (found["/a"], found["/b"]) == ("new", "new")
    assert MirroredHost.objects.get().confirmed == 3


def test_what_was_taken_down_is_known_by_its_validators_too() -> None:
    with mirrored_origin() as origin:
        origin.mirror(origin.does("/a", vouched(b"text")))
        Blob.objects.update(taken_down_at="2026-01-01T00:00:00Z")
        origin.mirror(origin.does("/b", vouched(b"text")))
    assert Resource.objects.get(url__endswith="/b").failure == "taken down"


def by_method(body: bytes, on_head: Behaviour | None = None) -> Behaviour:
    """A HEAD gets the head of the same answer, without the body."""

    async def behave(peer: Peer) -> None:
        if peer.asked.method != "HEAD":
            await vouched(body)(peer)
        elif on_head:
            await on_head(peer)
        else:
            await peer.send(head("200 OK", f'ETag: "{md5(body).hexdigest()}"', f"Content-Length: {len(body)}"))

    return behave


def _learn_that_heads_pay(origin: MirroredOrigin) -> None:
    origin.mirror(origin.does("/a", vouched(b"text")))
    origin.feed_until(lambda: MirroredHost.objects.filter(asked__gt=0).exists())  # it is written after the URL's row
    MirroredHost.objects.update(asked=100, spared=95)


def test_a_head_comes_first_where_it_pays_and_the_body_only_if_it_is_new() -> None:
    with mirrored_origin() as origin:
        _learn_that_heads_pay(origin)
        origin.mirror(origin.does("/b", by_method(b"text")))
        origin.mirror(origin.does("/c", by_method(b"other")))
        assert [(one.method, one.target) for one in origin.asked[1:]] == [("HEAD", "/b"), ("HEAD", "/c"), ("GET", "/c")]
    assert steps() == {"/a": "new", "/b": "validators", "/c": "new"}


def test_a_host_that_refuses_heads_is_not_asked_for_them_again() -> None:
    with mirrored_origin() as origin:
        _learn_that_heads_pay(origin)
        for path in ("/b", "/c"):
            origin.mirror(origin.does(path, by_method(path.encode(), on_head=answer("405 Not Allowed"))))
        assert [one.method for one in origin.asked[1:]] == ["HEAD", "GET", "GET"]
    assert steps() == {"/a": "new", "/b": "new", "/c": "new"}


async def resets(peer: Peer) -> None:
    peer.reset()


async def speaks_no_tls(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example ESMTP\r\n")
    writer.close()


FAILURES: dict[str, tuple[Behaviour, tuple[str, str, int | None]]] = {
    "/never answers": (Peer.hang, ("wanted", "too slow", None)),
    "/resets": (resets, ("wanted", "transient", None)),
    "/sends half": (raw(head("200 OK", "Content-Length: 10") + b"half", close=True), ("wanted", "transient", 200)),
    "/breaks down": (answer("500 Internal Server Error"), ("wanted", "transient", 500)),
    "/not found": (answer("404 Not Found"), ("failed", "permanent", 404)),
    "/gone": (answer("410 Gone"), ("failed", "permanent", 410)),
    "/loop": (redirect("/loop"), ("failed", "permanent", 302)),
    "/elsewhere": (redirect("ftp://origin.example/"), ("failed", "refused", 302)),
    "/to what has expired": (redirect("/b?Expires=1000000000&Signature=x"), ("wanted", "transient", 302)),
}


def test_each_failure_is_final_or_tried_again(
    mirroring: RedisServers, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FETCH_HEAD_SECONDS = 0.3
    settings.FETCH_DEADLINE_SECONDS = 2
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    monkeypatch.setattr(SystemLookup, "resolve", AsyncMock(side_effect=unknown))
    expected: dict[str, tuple[str, str, int | None]] = {"http://nobody.example/a": ("failed", "permanent", None)}
    with socket.socket() as closed, mirrored_origin() as origin:
        closed.bind(("127.0.0.1", 0))  # no other job gets the port, and no process listens
        expected[f"http://127.0.0.1:{closed.getsockname()[1]}/a"] = ("wanted", "transient", None)
        server = origin.runner.run(asyncio.start_server(speaks_no_tls, "127.0.0.1", 0))
        expected[f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/a"] = ("wanted", "transient", None)
        for path, (behaviour, outcome) in FAILURES.items():
            expected[origin.does(path.replace(" ", "-"), behaviour)] = outcome
        origin.mirror(*expected)
        server.close()
    rows = Resource.objects.all()
    assert {row.url: (row.state, row.failure, row.status) for row in rows} == expected
    assert {(row.attempts, row.due_at is not None) for row in rows if row.state == "wanted"} == {(1, True)}
    failed = [row for row in rows if row.state == "failed"]
    assert {(row.attempts, row.rounds) for row in failed} == {(1, 1)}
    assert {row.status for row in failed if row.due_at is None} == {410}
    assert [key for key in marks(mirroring) if b"claim" in key or b"lease" in key] == []


def test_what_an_origin_asks_for_is_the_least_until_the_next_attempt() -> None:
    url = "https://origin.example/a"
    [digest] = report(url)
    asked = FetchFailed(Failure.THROTTLED, "answered 429", OutcomeTiming(0, 0), 429, retry_after_seconds=86_400)
    found = settlement.settle_fetch(FetchTarget.read((url, digest)), asked)
    assert isinstance(found, NothingFound)
    assert found.due_at
    assert found.due_at - found.at >= timedelta(days=1) - timedelta(seconds=1)
