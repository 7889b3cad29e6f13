"""Redirects: their number, their targets, and the fields carried along."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from resources.fetch.http.client import FetchClient
from resources.fetch.http.messages import Failure, Fetched, FetchFailed, FetchRequest, NotModified, Obstacle

from .names import Names
from .origin import Origin, Peer, answer, drip, head, raw, redirect, steps
from .visits import LIMITS, UNREACHED, failure, obstacle, served, timed, trusting, visit, visiting

pytestmark = pytest.mark.anyio

SECRETS = {"Authorization": "Bearer secret", "Cookie": "session=secret", "X-Token": "secret", "Referer": "https://me/"}


def chain(origin: Origin, length: int) -> str:
    """Redirects so many times, then answers properly."""
    origin.does(f"/{length}", answer(body=b"there"))
    for step in range(length):
        origin.does(f"/{step}", redirect(f"/{step + 1}"))
    return origin.url("/0")


@pytest.mark.parametrize(
    ("length", "expected"), [(0, None), (10, None), (11, Failure.PERMANENT), (50, Failure.PERMANENT)]
)
async def test_redirects_are_followed_up_to_their_limit(
    origin: Origin, client: FetchClient, length: int, expected: Failure | None
) -> None:
    outcome = await timed(client, FetchRequest(chain(origin, length), limits=LIMITS))
    if expected is None:
        assert isinstance(outcome, Fetched)
        assert [hop.url for hop in outcome.head.hops] == [origin.url(f"/{step}") for step in range(length)]
        assert outcome.head.url == origin.url(f"/{length}")
    else:
        assert failure(outcome) is expected
        assert len(origin.asked) == LIMITS.max_redirects + 1


@pytest.mark.parametrize("location", ["/", "", "/?", "//127.0.0.1:{port}/", "http://127.0.0.1:{port}/#x"])
async def test_a_circle_ends_when_it_closes(origin: Origin, client: FetchClient, location: str) -> None:
    url = origin.does("/", redirect("/elsewhere"))
    origin.does("/elsewhere", redirect(location.format(port=origin.port)))
    assert failure(await timed(client, FetchRequest(url, limits=LIMITS))) is Failure.PERMANENT
    assert len(origin.asked) <= 3


NOWHERE = {
    "no Location": (answer("302 Found"), Failure.PERMANENT),
    "a file": (redirect("file:///etc/passwd"), Failure.REFUSED),
    "a choice": (answer("300 Multiple Choices", "Location: /decent"), Failure.PERMANENT),
    "a proxy": (answer("305 Use Proxy", "Location: http://127.0.0.1/"), Failure.PERMANENT),
    "another protocol": (
        raw(head("101 Switching Protocols", "Upgrade: websocket", "Connection: upgrade")),
        Failure.PERMANENT,
    ),
}


@pytest.mark.parametrize(("behaviour", "expected"), NOWHERE.values(), ids=NOWHERE)
def test_a_redirect_to_nowhere_ends_there(behaviour: Callable[[Peer], Awaitable[None]], expected: Failure) -> None:
    assert failure(visit(behaviour)) is expected


def test_the_body_of_a_redirect_is_not_waited_for() -> None:
    redirect_head = head("302 Found", "Location: /decent", "Content-Length: 200")
    dripping = steps(redirect_head, drip(b"x" * 200, 0.1))  # for longer than the deadline
    assert isinstance(visit(dripping), Fetched)


async def test_one_deadline_holds_for_all_redirects(origin: Origin, client: FetchClient) -> None:
    async def takes_its_time(peer: Peer) -> None:
        await asyncio.sleep(0.25)
        await redirect(f"/?{len(origin.asked)}")(peer)

    url = origin.does("/", takes_its_time)
    limits = replace(LIMITS, deadline_seconds=3, max_redirects=20)
    assert failure(await timed(client, FetchRequest(url, limits=limits))) is Failure.TOO_SLOW
    assert 3 <= len(origin.asked) <= 13


@pytest.mark.parametrize(
    "private", ["127.0.0.2", "0.0.0.0", "[::1]", "[::ffff:127.0.0.2]", "[64:ff9b::7f00:2]", "127.2", "2130706434"]
)
async def test_a_redirect_to_a_private_address_does_not_reach_it(
    victim: Origin, origin: Origin, client: FetchClient, private: str
) -> None:
    url = origin.does("/", redirect(f"http://{private}:{victim.port}/"))
    outcome = await timed(client, FetchRequest(url, limits=LIMITS))
    assert failure(outcome) is Failure.REFUSED
    assert isinstance(outcome, FetchFailed)
    assert [hop.url for hop in outcome.hops] == [url]
    assert victim.connections == 0


async def test_the_fourth_redirect_is_guarded_as_the_first(victim: Origin, origin: Origin, client: FetchClient) -> None:
    url = chain(origin, 3)
    origin.does("/3", redirect(victim.url("/")))
    assert failure(await timed(client, FetchRequest(url, limits=LIMITS))) is Failure.REFUSED
    assert victim.connections == 0


async def test_nothing_of_the_askers_goes_to_another_origin_nor_back_from_there() -> None:
    async with visiting(allowed=("127.0.0.1", "127.0.0.3")) as (origin, client), Origin(address="127.0.0.3") as other:
        url = origin.does("/", redirect("/same"))
        origin.does("/same", redirect(other.url("/there")))
        other.does("/there", redirect("/on"))
        other.does("/on", redirect(origin.url("/back")))
        origin.does("/back", redirect("/around"))
        origin.does("/around", answer())
        fetch = FetchRequest(url, headers=SECRETS, etag='"1"', last_modified="yesterday", limits=LIMITS)
        assert isinstance(await timed(client, fetch), Fetched)
        home, same, back, around = (asked.fields for asked in origin.asked)
        there, on = (asked.fields for asked in other.asked)
        assert all(fields["authorization"] == "Bearer secret" for fields in (home, same))
        for fields in (there, on, back, around):
            assert "secret" not in str(fields)
            assert not {"authorization", "cookie", "x-token", "referer", "if-none-match"} & set(fields)


@pytest.mark.parametrize("is_encrypted", [False, True])
async def test_secrets_go_over_tls_alone_and_with_no_redirect_to_http(certificate: Path, is_encrypted: bool) -> None:
    names = Names(secure_example=[["127.0.0.1"]])
    async with (
        visiting(lookup=names, tls=trusting(certificate), allow_downgrade=True) as (plain, client),
        Origin(tls=served(certificate)) as secure,
    ):
        plain.does("/", answer())
        secure.does("/", redirect("/same"))
        secure.does("/same", redirect(plain.url("/")))
        url = f"https://secure.example:{secure.port}/" if is_encrypted else plain.url("/")
        fetch = FetchRequest(url, headers={"Referer": "me"}, secrets={"X-Token": "secret"}, limits=LIMITS)
        assert isinstance(await timed(client, fetch), Fetched)
        assert "secret" not in str(plain.asked)
        assert [asked.fields["x-token"] for asked in secure.asked] == ["secret"] * 2 * is_encrypted
        assert ("referer" in plain.asked[0].fields) is not is_encrypted


async def test_another_port_is_another_origin(origin: Origin, client: FetchClient) -> None:
    async with Origin() as other:
        url = origin.does("/", redirect(other.does("/", answer())))
        await timed(client, FetchRequest(url, headers=SECRETS, limits=LIMITS))
        assert "secret" not in str(other.asked)


async def test_a_user_in_the_address_is_never_sent(origin: Origin, client: FetchClient) -> None:
    location = origin.does("/there", answer()).replace("http://", "http://user:secret@")
    url = origin.does("/", redirect(location)).replace("http://", "http://user:secret@")
    assert isinstance(await timed(client, FetchRequest(url, limits=LIMITS)), Fetched)
    assert "authorization" not in str(origin.asked)


async def test_validators_go_to_the_origin_that_gave_them() -> None:
    async with visiting(allowed=("127.0.0.1", "127.0.0.3")) as (origin, client), Origin(address="127.0.0.3") as files:
        url = origin.does("/", redirect(files.does("/new", answer("304 Not Modified"))))
        fetch = FetchRequest(url, etag='W/"a b"', validated_url=files.url("/old"), limits=LIMITS)
        assert isinstance(await timed(client, fetch), NotModified)
        assert "if-none-match" not in origin.asked[0].fields
        assert files.asked[0].fields["if-none-match"] == 'W/"a b"'


@pytest.mark.parametrize(
    ("status", "method", "body"),
    [
        ("301 Moved", "GET", b""),
        ("302 Found", "GET", b""),
        ("303 See Other", "GET", b""),
        ("307 Temporary", "POST", b"a=b"),
        ("308 Permanent", "POST", b"a=b"),
    ],
)
async def test_a_post_stays_one_only_where_the_status_says_so(
    origin: Origin, client: FetchClient, status: str, method: str, body: bytes
) -> None:
    url = origin.does("/", redirect("/there", status))
    origin.does("/there", answer())
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    await timed(client, FetchRequest(url, method="POST", body=b"a=b", headers=form, limits=LIMITS))
    assert (origin.asked[1].method, origin.asked[1].body) == (method, body)


@pytest.mark.parametrize(
    ("statuses", "moved"),
    [("301 308", "/2"), ("301 302", "/1"), ("302 301", None), ("308 307 301", "/1"), ("303", None)],
)
async def test_an_address_has_moved_as_far_as_permanent_redirects_led(
    origin: Origin, client: FetchClient, statuses: str, moved: str | None
) -> None:
    for step, status in enumerate(statuses.split()):
        origin.does(f"/{step}", redirect(f"/{step + 1}", f"{status} X"))
    origin.does(f"/{len(statuses.split())}", answer())
    outcome = await timed(client, FetchRequest(origin.url("/0"), limits=LIMITS))
    assert isinstance(outcome, Fetched)
    assert outcome.head.moved_to == (origin.url(moved) if moved else None)


@pytest.mark.parametrize("allowed", [False, True])
async def test_a_redirect_from_https_to_http_is_followed_only_where_it_is_allowed(
    certificate: Path, allowed: bool
) -> None:
    names = Names(secure_example=[["127.0.0.1"]])
    async with (
        visiting(lookup=names, tls=trusting(certificate), allow_downgrade=allowed) as (origin, client),
        Origin(tls=served(certificate)) as secure,
    ):
        origin.does("/", answer())
        secure.does("/", redirect(origin.url("/")))
        outcome = await timed(client, FetchRequest(f"https://secure.example:{secure.port}/", limits=LIMITS))
        assert isinstance(outcome, Fetched) is allowed
        assert len(origin.asked) == allowed
        if not allowed:
            assert failure(outcome) is Failure.REFUSED


@pytest.mark.parametrize("status", ["307 Temporary Redirect", "308 Permanent Redirect"])
async def test_a_body_that_went_out_over_tls_goes_on_without_in_no_case(certificate: Path, status: str) -> None:
    names = Names(secure_example=[["127.0.0.1"]])
    async with (
        visiting(lookup=names, tls=trusting(certificate), allow_downgrade=True) as (origin, client),
        Origin(tls=served(certificate)) as secure,
    ):
        secure.does("/", redirect(origin.does("/", answer()), status))
        url = f"https://secure.example:{secure.port}/"
        outcome = await timed(client, FetchRequest(url, method="POST", body=b"hub.secret=s", limits=LIMITS))
        assert failure(outcome) is Failure.REFUSED
        assert origin.asked == []


@pytest.mark.parametrize("host", ["secure.example", "other.example"])
async def test_a_certificate_must_be_trusted_and_name_the_host(certificate: Path, host: str) -> None:
    names = Names(secure_example=[["127.0.0.1"]], other_example=[["127.0.0.1"]])
    tls = trusting(certificate) if host == "other.example" else ssl.create_default_context()
    async with visiting(lookup=names, tls=tls) as (_, client), Origin(tls=served(certificate)) as secure:
        outcome = await timed(client, FetchRequest(f"https://{host}:{secure.port}/", limits=LIMITS))
        assert failure(outcome) is Failure.PERMANENT
        assert obstacle(outcome) is Obstacle.TLS
        assert not secure.asked


async def test_plain_http_on_a_port_for_https_is_no_tls(origin: Origin, client: FetchClient) -> None:
    url = origin.does("/", answer()).replace("http:", "https:")
    assert failure(await timed(client, FetchRequest(url, limits=UNREACHED))) is Failure.TRANSIENT
