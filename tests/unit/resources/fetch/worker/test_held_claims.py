"""Claims that a fetcher holds, and trips to Redis that many calls share."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import cast

import pytest

from resources.fetch.task import TaskCall
from resources.fetch.worker import held_claims
from resources.fetch.worker.held_claims import HeldClaims, RedisTrips
from retry import scripts, stores
from retry.contents import Prepared
from retry.errors import PreparationError, StoreUnavailable
from retry.scripts import Reply, ScriptCall, Server
from retry.stores import Steps
from tests.support import frontier
from tests.support.fetcher_threads import want
from tests.support.origin import page_work

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("pages")]

PREPARED = {"content:page": Prepared(b"page", "text/plain", 60, 600)}
ENDS: dict[str, Callable[[HeldClaims, TaskCall], Awaitable[None]]] = {
    "stored": lambda claims, call: claims.store(call, PREPARED, 1),
    "failed": lambda claims, call: claims.fail(call, PreparationError("no"), 1),
    "put back": lambda claims, call: claims.put_back(call.work_key, call.token, 5),
}


@pytest.mark.parametrize("how", ENDS)
async def test_what_is_not_in_hand_any_more_is_not_renewed(how: str) -> None:
    clients: stores.AsyncClients = stores.async_clients()
    try:
        work = page_work("https://a.example.com/1")
        asked = TaskCall(work.task, work.key, await want(work), work.arguments)
        claims = HeldClaims(RedisTrips(clients), await asyncio.to_thread(frontier.claimed))
        call = await claims.start(asked)
        assert call is not None
        assert call.token > asked.token
        assert await claims.start(asked) == call  # as if its reply had been lost
        assert claims.held
        await ENDS[how](claims, call)
        assert not claims.held
    finally:
        for each in clients.values():
            await each.aclose()


@pytest.fixture(autouse=True)
def _scripts(tmp_path: Path) -> None:
    (tmp_path / "echo.lua").write_text("return ARGV[1]\n")
    (tmp_path / "refuse.lua").write_text("return redis.error_reply('no room')\n")
    (tmp_path / "each.lua").write_text(
        "local found = {}\n"
        "for place = 2, #ARGV do\n"
        "  found[#found + 1] = ARGV[place] == 'bad' and redis.error_reply('no room') or ARGV[1] .. ARGV[place]\n"
        "end\n"
        "return found\n"
    )
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


@pytest.fixture
async def trips() -> AsyncIterator[RedisTrips]:
    clients: stores.AsyncClients = stores.async_clients(patient=True)
    yield RedisTrips(clients)
    for each in clients.values():
        await each.aclose()


def echo(text: str, server: Server = "state") -> ScriptCall:
    return ScriptCall(server, "trips.echo", [], [text])


def both(text: str) -> Steps[list[Reply]]:
    first = yield echo(text, "cache")
    return [first, (yield echo(f"{text} again"))]


@pytest.mark.parametrize("most", [1, 2])
async def test_who_asks_as_a_trip_ends_is_not_left_behind(
    trips: RedisTrips, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_claims, "MAX_TRIPS_UNDER_WAY", most)

    async def ask(name: str) -> None:
        for number in range(20):
            assert await trips.run(stores.make_single_step(echo(f"{name}{number}"))) == f"{name}{number}".encode()

    await asyncio.gather(*map(ask, "abc"))


async def test_what_is_asked_together_shares_a_trip(trips: RedisTrips, shared: list[int]) -> None:
    found = await asyncio.gather(*(trips.run(stores.make_single_step(echo(str(number)))) for number in range(50)))
    assert found == [str(number).encode() for number in range(50)]
    assert shared == [50]


async def test_what_goes_alone_waits_for_no_trip(trips: RedisTrips, shared: list[int]) -> None:
    others = [trips.run(stores.make_single_step(echo(str(number)))) for number in range(5)]
    alone = trips.run(stores.make_single_step(echo("alone")), alone=True)
    assert (await asyncio.gather(*others, alone))[-1] == b"alone"
    assert sorted(shared) == [1, 5]
    with pytest.raises(StoreUnavailable):
        await trips.run(stores.make_single_step(ScriptCall("state", "trips.refuse", [])), alone=True)


async def test_steps_go_on_at_their_own_pace_from_server_to_server(trips: RedisTrips, shared: list[int]) -> None:
    found = await asyncio.gather(trips.run(both("a")), trips.run(both("b")))
    assert list(found) == [[b"a", b"a again"], [b"b", b"b again"]]
    assert sum(shared) == 4


async def test_one_that_is_refused_takes_no_other_along(trips: RedisTrips) -> None:
    refused = trips.run(stores.make_single_step(ScriptCall("state", "trips.refuse", [])))
    found = await asyncio.gather(refused, trips.run(stores.make_single_step(echo("a"))), return_exceptions=True)
    assert isinstance(found[0], StoreUnavailable)
    assert found[1] == b"a"


def each(item: str) -> ScriptCall:
    return ScriptCall("state", "trips.each", [], ["item "], [item])


async def test_calls_for_items_of_one_script_go_as_one(trips: RedisTrips, shared: list[int]) -> None:
    calls = [each("a"), echo("b"), each("c")]
    found = await asyncio.gather(*(trips.run(stores.make_single_step(call)) for call in calls))
    assert found == [[b"item a"], b"b", [b"item c"]]
    assert shared == [2]


async def test_a_call_has_no_more_items_than_keep_the_server_busy_for_a_moment(
    trips: RedisTrips, shared: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_claims, "MAX_ITEMS_PER_CALL", 2)
    found = await asyncio.gather(*(trips.run(stores.make_single_step(each(name))) for name in "abc"))
    assert found == [[b"item a"], [b"item b"], [b"item c"]]
    assert shared == [2]


async def test_an_item_that_is_refused_takes_no_other_along(trips: RedisTrips) -> None:
    found = await asyncio.gather(*(trips.run(stores.make_single_step(each(name))) for name in ("a", "bad", "c")))
    assert [found[0], found[2]] == [[b"item a"], [b"item c"]]
    [refused] = cast(list[Exception], found[1])
    assert "no room" in str(refused)
