"""Egresses: an address of this machine, and proxies, which see only requests that the guard allows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from resources.fetch.http.client import FetchClient
from resources.fetch.http.messages import Failure, Fetched, FetchRequest

from .names import Names
from .origin import Behaviour, Origin, Peer, answer, head, redirect, steps
from .visits import HOME, LIMITS, UNREACHED, client, failure, served, timed, trusting

pytestmark = pytest.mark.anyio

PUBLIC = "93.184.216.34"
USER, PASSWORD = "tarry", "a:b c"
CREDENTIALS = "Basic dGFycnk6YTpiIGM="


@asynccontextmanager
async def through_proxy(names: Names | None = None, **given: Any) -> AsyncIterator[tuple[Origin, FetchClient]]:
    """A proxy, and a client that has no other egress. The proxy's requested targets are whole URLs."""
    async with Origin() as proxy:
        url = f"http://{USER}:a%3Ab%20c@{HOME}:{proxy.port}"
        async with client(proxy=url, lookup=names or Names(), **given) as fetching:
            yield proxy, fetching


def tunnel(to: Origin) -> Behaviour:
    """The behaviour of a proxy on CONNECT."""

    async def behave(peer: Peer) -> None:
        reader, writer = await asyncio.open_connection(to.address, to.port)
        try:
            await peer.send(b"HTTP/1.1 200 Connected\r\n\r\n")
            await asyncio.gather(_pour(peer.reader, writer), _pour(reader, peer.writer))
        finally:
            writer.close()

    return behave


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()


async def test_requests_come_from_the_source_address() -> None:
    peers: list[str] = []

    async def looks(peer: Peer) -> None:
        peers.append(peer.writer.get_extra_info("peername")[0])
        await answer()(peer)

    async with Origin() as origin, client(source_address="127.0.0.3") as fetching:
        assert isinstance(await timed(fetching, FetchRequest(origin.does("/", looks), limits=LIMITS)), Fetched)
        assert peers == ["127.0.0.3"]


async def test_a_source_address_that_this_machine_has_not_is_our_failure() -> None:
    async with Origin() as origin, client(source_address="203.0.113.7") as fetching:
        assert failure(await timed(fetching, FetchRequest(origin.does("/", answer()), limits=LIMITS))) is Failure.OURS


async def test_a_proxy_is_asked_for_the_whole_address_and_knows_the_user_every_time() -> None:
    async with through_proxy(Names(a_example=[[PUBLIC]])) as (proxy, fetching):
        url = "http://a.example/x?b=%2f&a=|"
        proxy.paths["http://a.example/x"] = answer(body=b"there")
        for _ in range(2):
            outcome = await timed(fetching, FetchRequest(url, limits=LIMITS))
            assert isinstance(outcome, Fetched), outcome
            assert outcome.body.read() == b"there"
        assert proxy.targets == [url] * 2
        assert [asked.fields["proxy-authorization"] for asked in proxy.asked] == [CREDENTIALS] * 2
        assert [asked.fields["host"] for asked in proxy.asked] == ["a.example"] * 2
        assert proxy.connections == 1


async def test_https_goes_through_a_tunnel_and_its_origin_does_not_see_the_user(certificate: Path) -> None:
    async with (
        through_proxy(Names(secure_example=[[PUBLIC]]), tls=trusting(certificate)) as (proxy, fetching),
        Origin(tls=served(certificate)) as secure,
    ):
        secure.does("/x", answer(body=b"there"))
        proxy.paths["secure.example:443"] = tunnel(secure)
        outcome = await timed(fetching, FetchRequest("https://secure.example/x", limits=LIMITS))
        assert isinstance(outcome, Fetched), outcome
        assert outcome.body.read() == b"there"
        assert [(asked.method, asked.target) for asked in proxy.asked] == [("CONNECT", "secure.example:443")]
        assert proxy.asked[0].fields["proxy-authorization"] == CREDENTIALS
        assert "proxy-authorization" not in secure.asked[0].fields
        assert secure.targets == ["/x"]


async def test_a_tunnel_in_place_of_another_is_used_again(certificate: Path) -> None:
    async with (
        through_proxy(Names(secure_example=[[PUBLIC]]), tls=trusting(certificate)) as (proxy, fetching),
        Origin(tls=served(certificate)) as secure,
    ):
        late, is_sent = head("200 OK", "Content-Length: 0"), asyncio.Event()
        secure.does("/", answer())
        secure.does("/twice", steps(late, 0.05, late, lambda _: is_sent.set()))
        proxy.paths["secure.example:443"] = tunnel(secure)
        for path in ("/", "/twice", "/", "/"):
            outcome = await timed(fetching, FetchRequest(f"https://secure.example{path}", limits=LIMITS))
            assert isinstance(outcome, Fetched)
            if path == "/twice":
                await is_sent.wait()
                for _ in range(20):  # the client reads it too
                    await asyncio.sleep(0.005)
        assert len(proxy.asked) == 2


async def test_a_certificate_at_the_end_of_a_tunnel_must_be_trusted(certificate: Path) -> None:
    async with (
        through_proxy(Names(secure_example=[[PUBLIC]])) as (proxy, fetching),
        Origin(tls=served(certificate)) as secure,
    ):
        proxy.paths["secure.example:443"] = tunnel(secure)
        outcome = await timed(fetching, FetchRequest("https://secure.example/", limits=LIMITS))
        assert failure(outcome) is Failure.PERMANENT
        assert not secure.asked


REFUSED = {
    "a private address": "http://10.0.0.1/",
    "loopback, where the proxy is": "http://127.0.0.1:{port}/",
    "loopback in IPv6": "http://[::1]/",
    "a name of a private address": "http://private.example/",
    "a name with one address that is private": "https://mixed.example/",
    "a number that stands for an address": "http://2130706433/",
    "a port": "http://a.example:25/",
}


@pytest.mark.parametrize("url", REFUSED.values(), ids=REFUSED)
async def test_a_proxy_is_not_asked_for_what_the_guard_refuses(url: str) -> None:
    names = Names(private_example=[["10.0.0.1"]], mixed_example=[[PUBLIC, "10.0.0.1"]], a_example=[[PUBLIC]])
    async with through_proxy(names, allowed=()) as (proxy, fetching):
        outcome = await timed(fetching, FetchRequest(url.format(port=proxy.port), limits=LIMITS))
        assert failure(outcome) is Failure.REFUSED
        assert proxy.connections == 0


async def test_a_redirect_through_a_proxy_is_judged_too() -> None:
    async with through_proxy(Names(a_example=[[PUBLIC]], private_example=[["192.168.0.1"]])) as (proxy, fetching):
        proxy.paths["http://a.example/"] = redirect("http://private.example/")
        assert failure(await timed(fetching, FetchRequest("http://a.example/", limits=LIMITS))) is Failure.REFUSED
        assert proxy.targets == ["http://a.example/"]


async def test_an_exception_of_the_operator_holds_through_a_proxy() -> None:
    async with through_proxy(allowed=("10.1.0.0/16:9000",)) as (proxy, fetching):
        proxy.paths["http://10.1.2.3:9000/"] = answer()
        assert isinstance(await timed(fetching, FetchRequest("http://10.1.2.3:9000/", limits=LIMITS)), Fetched)


async def test_a_name_that_does_not_exist_is_not_the_proxys_fault() -> None:
    async with through_proxy(Names(silent_example=[])) as (proxy, fetching):
        assert failure(await timed(fetching, FetchRequest("http://gone.example/", limits=LIMITS))) is Failure.PERMANENT
        assert (
            failure(await timed(fetching, FetchRequest("http://silent.example/", limits=UNREACHED)))
            is Failure.TRANSIENT
        )
        assert proxy.connections == 0


ANSWERS = {
    "who are you": ("407 Proxy Authentication Required", Failure.OURS, Failure.OURS),
    "not there": ("403 Forbidden", Failure.PERMANENT, Failure.REFUSED),  # without a tunnel it may be the origin's
    "nobody there": ("502 Bad Gateway", Failure.TRANSIENT, Failure.TRANSIENT),
    "not in time": ("504 Gateway Timeout", Failure.TRANSIENT, Failure.TRANSIENT),
}


@pytest.mark.parametrize(("status", "plain", "tunnelled"), ANSWERS.values(), ids=ANSWERS)
async def test_what_a_proxy_answers_itself_tells_whose_failure_it_is(
    status: str, plain: Failure, tunnelled: Failure
) -> None:
    async with through_proxy(Names(a_example=[[PUBLIC]])) as (proxy, fetching):
        proxy.paths["http://a.example/"] = proxy.paths["a.example:443"] = answer(status)
        assert failure(await timed(fetching, FetchRequest("http://a.example/", limits=LIMITS))) is plain
        assert failure(await timed(fetching, FetchRequest("https://a.example/", limits=LIMITS))) is tunnelled
        assert len(proxy.asked) == 2


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", [HOME, "proxy.example"])
async def test_a_proxy_that_is_not_there_is_our_failure(scheme: str, host: str) -> None:
    async with Origin() as gone:
        pass
    names = Names(a_example=[[PUBLIC]])
    async with client(proxy=f"http://{host}:{gone.port}", lookup=names) as fetching:
        outcome = await timed(fetching, FetchRequest(f"{scheme}://a.example/", limits=LIMITS))
        assert failure(outcome) is Failure.OURS


async def test_a_proxy_that_does_not_accept_is_our_failure(full_port: int) -> None:
    async with client(proxy=f"http://{HOME}:{full_port}", lookup=Names(a_example=[[PUBLIC]])) as fetching:
        assert failure(await timed(fetching, FetchRequest("http://a.example/", limits=UNREACHED))) is Failure.OURS


async def test_a_proxy_that_hangs_up_is_asked_once_for_a_tunnel() -> None:
    async with through_proxy(Names(a_example=[[PUBLIC]])) as (proxy, fetching):
        proxy.paths["a.example:443"] = steps(Peer.reset)
        assert failure(await timed(fetching, FetchRequest("https://a.example/", limits=LIMITS))) is Failure.TRANSIENT
        assert len(proxy.asked) == 1
