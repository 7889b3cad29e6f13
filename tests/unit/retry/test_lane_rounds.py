"""The order of a lane by rounds, and shares of its room."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from retry import claim_state, claims, line, stores
from retry.claim_state import ClaimBegun, ClaimPromoted, ClaimTaken, LaneFull, WorkDone
from retry.popularity import POPULAR
from retry.work import Work
from tests.conftest import RedisServers
from tests.support.claim_calls import finish, make_due, queued, swept

pytestmark = pytest.mark.usefixtures("servers")

NAMED = Work("paint:named", "paint", "paint.now", "paint.refresh", "t", ("a", 1))


def ask(key: str, client: str, *, is_popular: bool = False, lane: str = NAMED.lane) -> claim_state.ClaimState:
    work = replace(NAMED, key=key, lane=lane)
    call = claims.begin_call(work, refresh=False, client=client, popular=POPULAR if is_popular else "")
    return claim_state.read_claim_state(stores.execute_call(call))


def ask_many(client: str, number: int, **given: Any) -> list[claim_state.ClaimState]:
    return [ask(f"{client}:{place}", client, **given) for place in range(number)]


def place_of(key: str) -> int | None:
    return stores.run_steps(line.find_place(key))


def start_next(message: str = "any", nonce: str = "") -> claims.StartedWork:
    """Handles one message of the lane."""
    call = claims.start_next_call("paint.now", message, nonce or f"nonce {message} {len(order)}")
    found = claims.read_started(stores.execute_call(call))
    order.append(found.work_key)
    return found


order: list[str] = []


@pytest.fixture(autouse=True)
def _forget_order() -> None:
    order.clear()


def test_each_round_has_one_work_of_each_client() -> None:
    ask_many("flood", 6)
    ask_many("a", 2)
    start_next()
    ask_many("b", 2)
    for _ in range(9):
        start_next()
    assert order == ["flood:0", "a:0", "flood:1", "a:1", "b:0", "flood:2", "b:1", "flood:3", "flood:4", "flood:5"]


def test_the_site_itself_counts_as_a_client() -> None:
    ask_many("", 3)
    ask_many("a", 3)
    for _ in range(6):
        start_next()
    assert order == [":0", "a:0", ":1", "a:1", ":2", "a:2"]


@pytest.mark.parametrize("popular", [False, True])
def test_a_round_ends_however_many_clients_come(popular: bool) -> None:
    ask_many("a", 6, is_popular=popular)
    for number in range(24):
        ask(f"new{number}", f"new{number}", is_popular=popular)
        start_next()
    assert [key for key in order if key.startswith("a:")] == [f"a:{place}" for place in range(6)]


@pytest.mark.parametrize("popular", [False, True])
def test_a_client_with_little_has_room_in_a_full_lane(settings: Settings, popular: bool) -> None:
    settings.RETRY_LANES = {"paint.now": {"limit": 100, "workers": 1}}
    for number in range(50):
        ask_many(f"crowd{number}", 2, is_popular=popular)
    ask_many("site's", 1)
    waiting = claims.look_call("crowd49:1")
    states = ask_many("a", 2)
    assert [type(state) for state in states] == [ClaimBegun, LaneFull]
    left = claim_state.read_claim_state(stores.execute_call(waiting))
    assert isinstance(left, WorkDone)
    assert left.outcome == "skipped"
    assert isinstance(ask("crowd49:1", "crowd49"), LaneFull)


def test_a_client_whose_works_made_room_or_went_to_others_is_as_good_as_new(settings: Settings) -> None:
    settings.RETRY_LANES = {"paint.now": {"limit": 100, "workers": 1}}
    ask_many("flood", 80)
    for number in range(98):
        ask(f"new{number}", f"new{number}")
    ask("flood:1", "b")
    start_next()
    assert order == ["flood:0"]
    ask("flood:again", "flood")
    assert place_of("flood:again") == 99


def test_work_of_the_version_before_makes_no_room(servers: RedisServers, settings: Settings) -> None:
    settings.RETRY_LANES = {"paint.now": {"limit": 5, "workers": 1}}
    for client in "abcde":
        ask_many(client, 1)
        servers.state.client.hdel(f"retry:{{0}}:claim:{client}:0", "client")
    assert isinstance(ask("x:0", "x"), LaneFull)
    assert isinstance(ask("a:0", "x"), ClaimTaken)


def test_lanes_whose_publisher_orders_them_drop_nothing(settings: Settings) -> None:
    settings.RETRY_LANES = {"fetch.now": {"limit": 10, "workers": 1, "publisher": "no.such"}}
    ask_many("a", 8, lane="fetch.now")
    ask_many("b", 2, lane="fetch.now")
    assert isinstance(ask("c:0", "c", lane="fetch.now"), LaneFull)


def test_lapsed_work_comes_next_also_where_rounds_have_begun_anew(servers: RedisServers) -> None:
    ask_many("a", 9)
    for _ in range(8):
        started = start_next()
        finish(replace(NAMED, key=started.work_key), started.token)
    lost = replace(NAMED, key=start_next().work_key)  # the lane is empty now
    for client in ("b", "c"):
        ask_many(client, 3)
    make_due(servers, lost)
    swept()
    start_next()
    assert order[-1] == "a:8"


def test_popular_content_has_rounds_of_its_own_which_take_turns_with_the_others() -> None:
    ask_many("one-off", 4)
    ask_many("a", 2, is_popular=True)
    ask("b:0", "b", is_popular=True)
    expected = ["a:0", "one-off:0", "b:0", "one-off:1", "a:1", "one-off:2", "one-off:3"]
    assert [place_of(key) for key in expected] == list(range(7))
    for _ in range(7):
        start_next()
    assert order == expected


def test_a_client_with_much_popular_content_delays_another_clients_content_by_one() -> None:
    ask_many("flood", 30, is_popular=True)
    start_next()
    ask("b:0", "b")
    start_next()
    assert order[-1] == "b:0"


def test_content_that_a_client_with_much_content_requested_before_has_the_turn_of_the_next_client() -> None:
    ask_many("flood", 30)
    again = ask("flood:20", "b")
    assert isinstance(again, ClaimTaken)
    assert (place_of("flood:20"), place_of("flood:21")) == (1, 21)
    ask("b:0", "b")
    ask("c:0", "c")
    ask("flood:20", "flood")
    for _ in range(5):
        start_next()
    assert order == ["flood:0", "flood:20", "c:0", "flood:1", "b:0"]


def test_work_whose_publisher_orders_it_is_published_again_when_its_turn_comes_earlier(settings: Settings) -> None:
    settings.RETRY_LANES = {"fetch.now": {"limit": 100, "workers": 1, "publisher": "no.such"}}
    *_, last = ask_many("flood", 9, lane="fetch.now")
    assert isinstance(last, ClaimBegun)
    starting = claims.start_call("flood:8", last.token, "copy")  # though it is another's turn
    assert claims.read_started(stores.execute_call(starting)).outcome == claims.STARTED
    assert isinstance(ask("flood:2", "b", lane="fetch.now"), ClaimPromoted)
    for client in ("b", "c", "flood"):
        assert isinstance(ask("flood:2", client, lane="fetch.now"), ClaimTaken)


def test_a_message_stands_for_any_work_of_its_lane_and_tells_its_task() -> None:
    [begun] = ask_many("a", 1)
    assert isinstance(begun, ClaimBegun)
    found = start_next("paint:gone")
    assert (found.outcome, found.work_key) == (claims.STARTED, "a:0")
    assert found.token > begun.token
    assert json.loads(found.spec) == {"task": "t", "arguments": ["a", 1]}


def test_a_start_whose_reply_was_lost_starts_no_second_work(servers: RedisServers) -> None:
    ask_many("a", 2)
    first, again = start_next(nonce="once"), start_next(nonce="once")
    assert (first.outcome, first.work_key, first.token) == (again.outcome, again.work_key, again.token)
    assert queued(servers, "paint.now") == {"a:1"}


def test_a_start_that_a_fail_over_forgot_ends_nothing_of_the_one_that_came_after(servers: RedisServers) -> None:
    ask_many("a", 1)
    claim, lane = (
        servers.state.client.dump("retry:{0}:claim:a:0"),
        servers.state.client.dump("retry:{0}:queued:paint.now"),
    )
    assert claim is not None
    assert lane is not None
    first = start_next()
    servers.state.client.restore("retry:{0}:claim:a:0", 0, claim, replace=True)
    servers.state.client.restore("retry:{0}:queued:paint.now", 0, lane)
    second = start_next()
    assert (first.work_key, second.work_key, second.outcome) == ("a:0", "a:0", claims.STARTED)
    ends = [stores.execute_call(claims.finish_stored_call("a:0", token, 1)) for token in (first.token, second.token)]
    assert ends == [0, 1]


def test_a_client_leaves_a_share_of_the_room_to_others(settings: Settings) -> None:
    settings.RETRY_LANES = {"paint.now": {"limit": 100, "workers": 1}}
    taken = sum(isinstance(state, ClaimBegun) for state in ask_many("flood", 120))
    assert taken == 80
    assert all(isinstance(state, ClaimBegun) for state in ask_many("a", 10))
    assert isinstance(ask("flood:again", "flood"), LaneFull)
    for _ in range(20):
        start_next()
    assert isinstance(ask("flood:again", "flood"), ClaimBegun)


def test_work_of_a_lost_worker_keeps_its_place(servers: RedisServers) -> None:
    ask_many("a", 3)
    started = start_next()
    work = replace(NAMED, key=started.work_key)
    make_due(servers, work)
    assert [row[1].decode() for row in swept() if row[0] == b"again"][:1] == [work.key]
    start_next()
    assert order == ["a:0", "a:0"]


def test_an_empty_lane_keeps_nothing_of_its_clients(servers: RedisServers) -> None:
    for begun in ask_many("a", 3):
        assert isinstance(begun, ClaimBegun)
        found = start_next()
        finish(replace(NAMED, key=found.work_key), found.token)
    ask("b:0", "b")
    kept = servers.state.client
    assert kept.zrange("retry:{0}:rounds:paint.now", 0, -1) == [b"b"]
    assert kept.hgetall("retry:{0}:shares:paint.now") == {b"b": b"1"}
    assert not kept.hgetall("retry:{0}:round")
