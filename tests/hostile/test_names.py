"""DNS against the guard: private answers, mixed ones, ones that change, and silence."""

import socket

import pytest

from resources.fetch.http.client import FetchClient
from resources.fetch.http.messages import Failure, Fetched, FetchRequest, Obstacle

from .names import Names
from .origin import Origin, answer, redirect
from .visits import LIMITS, UNREACHED, client, failure, obstacle, timed, visiting

pytestmark = pytest.mark.anyio

VICTIM = "127.0.0.2"


async def ask(client: FetchClient, origin: Origin, host: str) -> object:
    origin.does("/", answer(body=b"here"))
    return await timed(client, FetchRequest(f"http://{host}:{origin.port}/", limits=LIMITS))


@pytest.mark.parametrize("private", ["10.0.0.1", "169.254.169.254", VICTIM, "::1", "::ffff:127.0.0.2", "fd00::1", "::"])
async def test_a_name_of_a_private_address_is_refused(private: str) -> None:
    async with visiting(lookup=Names(a_example=[[private]])) as (origin, client):
        outcome = await timed(client, FetchRequest(f"http://a.example:{origin.port}/", limits=LIMITS))
        assert failure(outcome) is Failure.REFUSED


@pytest.mark.parametrize(
    "literal", ["127.0.0.2", "[::1]", "[::ffff:7f00:2]", "127.2", "0x7f000002", "0177.0.0.2", "①②⑦.⓪.⓪.②"]
)
async def test_an_address_in_place_of_a_name_is_refused_without_dns(literal: str) -> None:
    names = Names()
    async with visiting(lookup=names) as (_, client):
        async with Origin(address=VICTIM) as victim:
            outcome = await timed(client, FetchRequest(f"http://{literal}:{victim.port}/", limits=LIMITS))
            assert failure(outcome) is Failure.REFUSED
            assert victim.connections == 0
        assert not names.questions


@pytest.mark.parametrize(
    "answers", [["127.0.0.1", VICTIM], [VICTIM, "127.0.0.1"], [VICTIM, "::1", "127.0.0.1", "10.0.0.1"]]
)
async def test_of_a_mixed_answer_only_what_is_allowed_is_connected_to(answers: list[str]) -> None:
    async with (
        visiting(lookup=Names(a_example=[answers])) as (origin, client),
        Origin(address=VICTIM, port=origin.port) as victim,
    ):
        assert isinstance(await ask(client, origin, "a.example"), Fetched)
        assert victim.connections == 0


async def test_a_mixed_answer_does_not_fall_back_to_what_is_refused() -> None:
    async with (
        visiting(lookup=Names(a_example=[["127.0.0.1", VICTIM]])) as (_origin, client),
        Origin(address=VICTIM) as victim,
    ):  # no process listens at 127.0.0.1 on its port
        outcome = await timed(client, FetchRequest(f"http://a.example:{victim.port}/", limits=LIMITS))
        assert failure(outcome) is Failure.TRANSIENT
        assert obstacle(outcome) is Obstacle.CONNECTION
        assert victim.connections == 0


async def test_an_answer_that_changes_after_the_check_changes_nothing() -> None:
    names = Names(a_example=[["127.0.0.1"], [VICTIM]])
    async with visiting(lookup=names) as (origin, client):
        async with Origin(address=VICTIM, port=origin.port) as victim:
            assert isinstance(await ask(client, origin, "a.example"), Fetched)
            assert victim.connections == 0
        assert names.questions == ["a.example"]


async def test_an_answer_that_changes_between_two_hops_is_judged_anew() -> None:
    names = Names(a_example=[["127.0.0.1"]], b_example=[["127.0.0.1"], [VICTIM]])
    async with visiting(lookup=names) as (origin, client), Origin(address=VICTIM) as victim:
        url = f"http://a.example:{origin.port}/"
        origin.does("/", redirect(f"http://b.example:{origin.port}/on"))
        origin.does("/on", redirect(f"http://b.example:{victim.port}/"))
        assert failure(await timed(client, FetchRequest(url, limits=LIMITS))) is Failure.REFUSED
        assert victim.connections == 0


async def test_sockets_are_guarded_even_where_the_answer_was_not(
    victim: Origin, client: FetchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unguarded(self: object, host: str, port: int = 0, family: int = 0) -> object:
        return await Names(a_example=[[VICTIM]]).resolve(host, port, socket.AddressFamily(family))

    monkeypatch.setattr("resources.fetch.http.guard.GuardedLookup.resolve", unguarded)
    outcome = await timed(client, FetchRequest(f"http://a.example:{victim.port}/", limits=LIMITS))
    assert failure(outcome) is Failure.REFUSED
    assert victim.connections == 0


@pytest.mark.parametrize("name", ["gone.example", "empty.example"])
async def test_a_name_without_addresses_will_not_have_one_the_next_time(name: str) -> None:
    async with visiting(lookup=Names(empty_example=[[]])) as (_, client):
        outcome = await timed(client, FetchRequest(f"http://{name}/", limits=LIMITS))
        assert failure(outcome) is Failure.PERMANENT
        assert obstacle(outcome) is Obstacle.LOOKUP


async def test_a_silent_name_holds_up_no_other() -> None:
    async with visiting(lookup=Names(a_example=[], b_example=[["127.0.0.1"]])) as (origin, client):
        assert failure(await timed(client, FetchRequest("http://a.example/", limits=UNREACHED))) is Failure.TRANSIENT
        assert isinstance(await ask(client, origin, "b.example"), Fetched)


@pytest.mark.parametrize("name", ["localhost", "localhost.", "LOCALHOST"])
async def test_the_systems_own_names_are_judged_by_their_address(name: str) -> None:
    async with Origin() as origin, client(allowed=("10.0.0.0/8",), lookup=None) as fetching:
        url = f"http://{name}:{origin.port}/"
        assert failure(await timed(fetching, FetchRequest(url, limits=LIMITS))) is Failure.REFUSED
        assert origin.connections == 0


async def test_a_port_that_is_not_allowed_is_refused_without_dns() -> None:
    names = Names(a_example=[["127.0.0.1"]])
    async with visiting(lookup=names, allowed=("127.0.0.1:80",)) as (_, client):
        for url in ("http://a.example:22/", "https://a.example:25/"):
            assert failure(await timed(client, FetchRequest(url, limits=LIMITS))) is Failure.REFUSED
        assert not names.questions


@pytest.mark.parametrize("proxy", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
async def test_no_proxy_of_the_environment_is_asked(
    victim: Origin, origin: Origin, client: FetchClient, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(proxy, victim.url(""))
    assert isinstance(await ask(client, origin, "127.0.0.1"), Fetched)
    assert victim.connections == 0
