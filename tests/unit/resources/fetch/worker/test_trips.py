"""Trips to Redis that many share."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from resources.fetch.worker import held_claims
from resources.fetch.worker.held_claims import RedisTrips, single_step
from retry import scripts, stores
from retry.errors import StoreUnavailable
from retry.scripts import Reply, ScriptCall, Server
from retry.stores import Steps

pytestmark = pytest.mark.usefixtures("servers")


@pytest.fixture(autouse=True)
def _scripts(tmp_path: Path) -> None:
    (tmp_path / "echo.lua").write_text("return ARGV[1]\n")
    (tmp_path / "refuse.lua").write_text("return redis.error_reply('no room')\n")
    scripts.register_scripts(tmp_path, "trips")


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of calls of each trip."""
    execute_all, found = stores.execute_all, list[int]()

    async def counting(client: object, server: Server, calls: Sequence[ScriptCall]) -> object:
        found.append(len(calls))
        return await execute_all(client, server, calls)  # type: ignore[arg-type]

    monkeypatch.setattr(stores, "execute_all", counting)
    return found


def run(test: Callable[[RedisTrips], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with _opened() as opened, asyncio.timeout(10):
            await test(opened)

    asyncio.run(whole())


@asynccontextmanager
async def _opened() -> AsyncIterator[RedisTrips]:
    clients: stores.AsyncClients = stores.async_clients(patient=True)
    try:
        yield RedisTrips(clients)
    finally:
        for each in clients.values():
            await each.aclose()


def echo(text: str, server: Server = "state") -> ScriptCall:
    return ScriptCall(server, "trips.echo", [], [text])


def both(text: str) -> Steps[list[Reply]]:
    first = yield echo(text, "cache")
    return [first, (yield echo(f"{text} again"))]


@pytest.mark.parametrize("most", [1, 2])
def test_who_asks_as_a_trip_ends_is_not_left_behind(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_claims, "MAX_TRIPS_UNDER_WAY", most)

    async def test(opened: RedisTrips) -> None:
        async def ask(name: str) -> None:
            for number in range(20):
                assert await opened.run(single_step(echo(f"{name}{number}"))) == f"{name}{number}".encode()

        await asyncio.gather(*map(ask, "abc"))

    run(test)


def test_what_is_asked_together_shares_a_trip(shared: list[int]) -> None:
    async def test(opened: RedisTrips) -> None:
        found = await asyncio.gather(*(opened.run(single_step(echo(str(number)))) for number in range(50)))
        assert found == [str(number).encode() for number in range(50)]

    run(test)
    assert shared == [50]


def test_steps_go_on_at_their_own_pace_from_server_to_server(shared: list[int]) -> None:
    async def test(opened: RedisTrips) -> None:
        found = await asyncio.gather(opened.run(both("a")), opened.run(both("b")))
        assert list(found) == [[b"a", b"a again"], [b"b", b"b again"]]

    run(test)
    assert sum(shared) == 4


def test_one_that_is_refused_takes_no_other_along() -> None:
    async def test(opened: RedisTrips) -> None:
        refused = opened.run(single_step(ScriptCall("state", "trips.refuse", [])))
        found = await asyncio.gather(refused, opened.run(single_step(echo("a"))), return_exceptions=True)
        assert isinstance(found[0], StoreUnavailable)
        assert found[1] == b"a"

    run(test)
