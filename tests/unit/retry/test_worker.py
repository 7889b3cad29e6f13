"""Workers: the state of both servers after a preparation, the sweeper, and work that moves up a lane."""

import json
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import astuple, replace
from datetime import UTC, datetime
from select import EPOLLIN, epoll
from typing import Any, ClassVar
from unittest.mock import ANY, Mock, patch

import pytest
from celery import current_app
from pytest_django import Settings

import retry.servers
from retry import claim_state, claims, contents, lanes, stores, worker
from retry.contents import Prepared, channel_name, store_call
from retry.errors import PreparationError, QueueUnavailable
from retry.scripts import ScriptCall
from retry.work import Work
from retry.worker import (
    MAX_AGED_PER_LANE,
    TOLD_FIRST_BYTES,
    Preparer,
    _store_and_tell,
    age_lanes,
    prepare,
    sweep_claims,
)
from tests.conftest import RedisServers
from tests.support import claim_calls
from tests.support.claim_calls import LONG_AGO, begun, failure, look, make_due, queued, running, start
from tests.support.waiting_clients import begin

pytestmark = pytest.mark.usefixtures("servers")
TILE = Prepared(b"tile", "image/png", 60, 600)
LARGE = Prepared(b"x" * 4_000_000, "image/png", 60, 60)
IMPOSSIBLE_FRESHNESS = "The preparer gave an impossible freshness."


def held_token(servers: RedisServers, work: Work) -> int:
    return int(servers.state.client.hget(f"retry:{{0}}:claim:{work.key}", "token") or 0)


def published_calls(servers: RedisServers, lane: str = "paint.now") -> list[str]:
    """The arguments of the calls in a lane, the latest first."""
    return [json.loads(message)["headers"]["argsrepr"] for message in servers.state.client.lrange(lane, 0, -1)]


def body(key: str) -> bytes | None:
    content = stores.run_steps(contents.read_content(key))
    return content.body if content else None


@pytest.mark.parametrize(
    ("preparer", "expected"),
    [
        (Mock(side_effect=PreparationError("No such tile.", status=404, retry_seconds=9)), (404, "No such tile.", 9)),
        (Mock(side_effect=ZeroDivisionError("secret")), (502, "The preparation failed.", 1.5)),
        (lambda: {"a": replace(TILE, fresh_seconds=math.nan)}, (502, IMPOSSIBLE_FRESHNESS, 1.5)),
        (lambda: {"a": replace(TILE, fresh_seconds=-1)}, (502, IMPOSSIBLE_FRESHNESS, 1.5)),
    ],
    ids=["the preparer's own word", "an unforeseen error, without the inside", "no number", "negative freshness"],
)
def test_a_preparation_that_fails_leaves_a_failure_record(
    work: Work, preparer: worker.Preparer, expected: tuple[int, str, float]
) -> None:
    prepare(work.key, begin(work), preparer)
    assert astuple(failure(work)) == (*expected[:2], pytest.approx(expected[2], abs=0.6))


@pytest.mark.parametrize("number", [1, 64])
def test_all_contents_of_the_work_are_stored_also_by_a_server_that_has_forgotten_the_script(
    work: Work, servers: RedisServers, number: int
) -> None:
    token = begin(work)
    servers.cache.client.script_flush()
    prepare(work.key, token, lambda: {str(each): TILE for each in range(number)})
    assert {body(str(each)) for each in range(number)} == {b"tile"}
    assert look(work) == claim_state.WorkDone("stored", ANY)


@pytest.mark.parametrize(
    ("prepared", "full"),
    [({"a": TILE, "b": LARGE}, False), ({"a": TILE, "b": LARGE}, True), ({"b": TILE}, True), ({"b": LARGE}, True)],
    ids=["one content of them", "a full store", "a full store for one small content", "or for one large content"],
)
def test_content_that_cannot_be_stored_fails_the_work(
    work: Work, servers: RedisServers, prepared: dict[str, Prepared], full: bool
) -> None:
    token, cache = begin(work), servers.cache.client
    if full:
        cache.config_set("maxmemory", "1", "maxmemory-policy", "noeviction")
    else:
        cache.set(contents.content_name("b"), "of another type")
    try:
        prepare(work.key, token, lambda: prepared)
    finally:
        cache.config_set("maxmemory", "128mb", "maxmemory-policy", "allkeys-lru")
    assert failure(work).detail == "The content could not be stored."


def test_a_worker_that_lost_its_claim_neither_ends_it_nor_overwrites_newer_content(
    work: Work, servers: RedisServers
) -> None:
    token = begin(work)

    def pause_past_the_lease() -> Mapping[str, Prepared]:
        servers.state.client.zadd("retry:{0}:leases", {work.key: 1}, xx=True)
        stores.execute_call(claims.sweep_call(0, 10, cache_is_away=False))
        content = Prepared(b"newer", "image/png", 60, 60)
        stores.execute_call(contents.store_call("a", content, held_token(servers, work), datetime.now(UTC), 0))
        return {"a": TILE}

    prepare(work.key, token, pause_past_the_lease)
    assert body("a") == b"newer"
    assert isinstance(look(work), claim_state.ClaimTaken)


LACKING = "tests.unit.retry.test_worker.lacks_database"


class Need:
    """A need of workers, and the errors that they ask it with."""

    is_lacking = True
    asked: ClassVar[list[BaseException | None]] = []


def lacks_database(error: BaseException | None) -> bool:
    Need.asked.append(error)
    return Need.is_lacking and not isinstance(error, ZeroDivisionError)


@pytest.fixture
def message(servers: RedisServers, work: Work, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Work:
    """A message for the work is handled, by a worker of machine `a` that needs a database."""
    task = Mock(request=Mock(delivery_info={"routing_key": work.lane}, args=[work.key, 1, *work.arguments]))
    task.name = work.task
    settings.MACHINE, settings.RETRY_WORKER_NEEDS = "a", (LACKING,)
    monkeypatch.setattr(worker, "current_task", task)
    monkeypatch.setattr(worker, "_lacking", set())
    monkeypatch.setattr(worker, "REST_SECONDS", 0)
    monkeypatch.setattr(Need, "is_lacking", True)
    Need.asked.clear()
    return work


def handle(work: Work, token: int, preparer: Preparer) -> None:
    """Handles a message for the work, whose task has this preparer."""
    task = Mock(run=lambda work_key, started_as, *_: prepare(work_key, started_as, preparer))
    with patch.dict(current_app.tasks, {work.task: task}):
        prepare(work.key, token, preparer)


@pytest.fixture
def other_machine(message: Work, settings: Settings) -> None:
    settings.MACHINE = "b"
    lanes.note_worker(message.lane)
    settings.MACHINE = "a"


@pytest.mark.usefixtures("other_machine")
def test_a_worker_that_lost_what_its_work_needs_gives_it_back_and_takes_none_until_it_has_that(
    message: Work, servers: RedisServers
) -> None:
    failing, token = Mock(side_effect=OSError("no database")), begin(message)
    handle(message, token, failing)
    assert isinstance(look(message), claim_state.ClaimTaken)
    assert queued(servers, message.lane) == {message.key}
    assert len(published_calls(servers)) == 1  # at once: no sweeper runs
    assert lanes.list_unfit_machines() == ["a"]
    handle(message, token, failing)
    assert (failing.call_count, len(published_calls(servers))) == (1, 2)
    Need.is_lacking = False
    handle(message, token, lambda: {"a": TILE})
    assert (body("a"), len(published_calls(servers))) == (b"tile", 2)


def test_a_message_of_celery_is_handed_on_as_it_came(
    servers: RedisServers, work: Work, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MACHINE, settings.RETRY_WORKER_NEEDS = "b", (LACKING,)
    lanes.note_worker(work.lane)
    settings.MACHINE = "a"
    monkeypatch.setattr(worker, "_lacking", {LACKING})
    monkeypatch.setattr(worker, "REST_SECONDS", 0)
    preparer = Mock()

    @current_app.task(name=work.task)
    def paint(work_key: str, token: int, *arguments: object) -> None:
        prepare(work_key, token, preparer)

    token = begin(work)
    paint.apply(args=(work.key, token, *work.arguments), routing_key=work.lane, throw=True)
    preparer.assert_not_called()
    assert published_calls(servers) == [repr((work.key, token, *work.arguments)).replace("(", "[").replace(")", "]")]
    monkeypatch.setattr(Need, "is_lacking", False)
    paint.apply(args=(work.key, token, *work.arguments), routing_key=work.lane, throw=True)
    preparer.assert_called_once_with()


@pytest.mark.usefixtures("message")
def test_the_only_machine_fails_work_that_lacks_what_it_needs(work: Work, servers: RedisServers) -> None:
    for _ in range(2):
        handle(work, begin(work), Mock(side_effect=OSError("no database")))
        assert failure(work)
        servers.state.client.flushall()
    assert published_calls(servers) == []


@pytest.mark.usefixtures("other_machine")
def test_a_machine_that_lacks_something_too_gets_no_work_back(work: Work, settings: Settings) -> None:
    settings.MACHINE = "b"
    lanes.note_unfit()
    settings.MACHINE = "a"
    handle(work, begin(work), Mock(side_effect=OSError("no database")))
    assert failure(work)


@pytest.mark.usefixtures("other_machine")
def test_an_error_of_another_kind_is_a_failure_and_stops_nothing(work: Work) -> None:
    handle(work, begin(work), Mock(side_effect=ZeroDivisionError))
    assert failure(work)
    assert (worker._lacking, lanes.list_unfit_machines()) == (set(), [])


@pytest.mark.usefixtures("other_machine")
def test_work_that_cannot_be_given_back_is_swept(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = begin(work)
    monkeypatch.setattr(lanes, "republish_work", Mock(side_effect=QueueUnavailable("the broker is away")))
    handle(work, token, Mock(side_effect=OSError("no database")))
    assert isinstance(look(work), claim_state.ClaimTaken)
    make_due(servers, work)
    assert sweep_claims() == 1


def test_machines_are_heard_of_by_the_clock_of_state(servers: RedisServers, settings: Settings) -> None:
    settings.MACHINE = "a"
    lanes.note_unfit()
    seconds, _ = servers.state.client.time()
    assert servers.state.client.zscore("workers:unfit", "a") == pytest.approx(seconds, abs=2)
    for other in (seconds - lanes.HEARD_SECONDS - 2, seconds + 3600):
        servers.state.client.zadd("workers:unfit", {"late": other})
        assert lanes.list_unfit_machines() == ["a"]


def test_a_waiting_client_is_told_before_the_worker_goes_on(
    servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_call("a", replace(TILE, body=bytes(TOLD_FIRST_BYTES)), 1, datetime.now(UTC), 0.1, "w", 0)
    _store_and_tell(store)  # the server has the script from now on
    untyped: Any = servers.cache.client
    own = stores.patient_client("cache").connection_pool._available_connections[-1]
    read, heard = retry.servers._read_reply, list[int]()
    with untyped.pubsub(ignore_subscribe_messages=True) as subscription, epoll() as arrivals:

        def watch(connection: Any) -> object:
            time.sleep(0.05)  # both have come, in the order in which epoll tells of them
            heard.extend(descriptor for descriptor, _ in arrivals.poll(0))
            return read(connection)

        subscription.subscribe(channel_name("a", 0))
        subscription.get_message(timeout=5)
        for connection in (own, subscription.connection):
            arrivals.register(connection._sock, EPOLLIN)
        monkeypatch.setattr(retry.servers, "_read_reply", watch)
        _store_and_tell(store)
        assert heard[:2] == [subscription.connection._sock.fileno(), own._sock.fileno()]


def test_the_lease_is_renewed_before_it_lapses_while_the_preparer_runs(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.RETRY_LEASE_SECONDS = 3
    left_ms: list[float] = []
    renewed = threading.Event()
    execute = stores.execute_patiently

    def watch(call: ScriptCall) -> object:
        if call.script == "renew":
            seconds, microseconds = servers.state.client.time()
            lapses_at = servers.state.client.zscore("retry:{0}:leases", work.key) or 0
            left_ms.append(lapses_at - seconds * 1000 - microseconds / 1000)
        reply = execute(call)
        if call.script == "renew" and reply == 1:
            renewed.set()
        return reply

    monkeypatch.setattr(stores, "execute_patiently", watch)
    prepare(work.key, begin(work), lambda: {"a": TILE} if renewed.wait(10) else {})
    assert body("a") == b"tile"
    assert min(left_ms) > 0


def count_renewals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tokens whose leases are renewed, as they come."""
    renewed: list[int] = []
    renew = claims.renew_call

    def watch(work_key: str, token: int) -> ScriptCall:
        renewed.append(token)
        return renew(work_key, token)

    monkeypatch.setattr(claims, "renew_call", watch)
    return renewed


def make_slowly() -> dict[str, Prepared]:
    time.sleep(0.05)
    return {"a": TILE}


def test_nothing_renews_a_lease_when_its_work_has_ended(
    work: Work, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.RETRY_LEASE_SECONDS = 0.03
    renewed = count_renewals(monkeypatch)
    for each in (work, replace(work, key="other")):  # by the thread that there is
        prepare(each.key, begin(each), make_slowly)
    number = len(renewed)
    time.sleep(0.05)
    assert len(renewed) == number > 2


def test_the_lease_is_not_renewed_for_ever(work: Work, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    settings.RETRY_LEASE_SECONDS = 0.03
    settings.RETRY_MAX_PREPARE_SECONDS = 0.1
    renewed, late = count_renewals(monkeypatch), list[int]()

    def make() -> dict[str, Prepared]:
        time.sleep(0.2)
        late.append(len(renewed))
        time.sleep(0.1)
        return {"a": TILE}

    prepare(work.key, begin(work), make)
    assert body("a") == b"tile"
    assert late == [len(renewed)]
    assert renewed


def test_the_worker_of_skipped_work_prepares_nothing(work: Work, servers: RedisServers) -> None:
    claim_calls.swept_for_long(servers)
    claim_calls.make_long(servers, "paint.now")
    token, preparer = begin(work), Mock(return_value={})
    claim_calls.forget_who_asked(servers, work)
    prepare(work.key, token, preparer)
    preparer.assert_not_called()


def test_lost_work_is_published_from_what_its_claim_holds(work: Work, servers: RedisServers) -> None:
    token = begin(work)
    assert sweep_claims() == 0
    make_due(servers, work)
    assert [sweep_claims(), sweep_claims()] == [1, 0]
    assert published_calls(servers) == [repr([work.key, token, "a", 1])]


def test_a_lost_message_is_found_soon_and_replaced_once(work: Work, servers: RedisServers) -> None:
    works, state = [replace(work, key=f"work {number}") for number in range(20)], servers.state.client
    for number, each in enumerate(works):
        begin(each)
        if number != 3:
            state.lpush("paint.now", "message")
    last_due = max(state.zscore("retry:{0}:claims", each.key) or 0 for each in works)
    assert last_due - claim_calls.now_ms(servers) <= 5000  # however long the last one is to wait
    for each in works:
        make_due(servers, each)
    assert [sweep_claims(), sweep_claims()] == [1, 0]


def test_work_that_loses_its_worker_twice_becomes_a_failure(work: Work, servers: RedisServers) -> None:
    running(work)
    make_due(servers, work)
    sweep_claims()
    start(work, held_token(servers, work))
    make_due(servers, work)
    sweep_claims()
    assert failure(work).status == 502
    assert len(published_calls(servers)) == 1


def test_what_is_not_published_stays_due(work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(work)
    make_due(servers, work)
    monkeypatch.setattr("retry.lanes.publish_work", Mock(side_effect=QueueUnavailable("refused")))
    assert sweep_claims() == 1
    monkeypatch.undo()
    make_due(servers, work)
    assert sweep_claims() == 1
    assert len(published_calls(servers)) == 1


def test_what_a_closed_lane_does_not_take_fails_until_it_opens(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(work)
    make_due(servers, work)
    refused = QueueUnavailable("The origin is left alone.", retry_seconds=90)
    monkeypatch.setattr("retry.lanes.publish_work", Mock(side_effect=refused))
    sweep_claims()
    found = failure(work)
    assert (found.status, found.detail) == (503, "The origin is left alone.")
    assert 85 < found.wait_seconds <= 90


def long_waiting_keys(servers: RedisServers, work: Work, lane: str, count: int) -> list[str]:
    """Claims so many works that have waited in the lane for long. Their keys, the oldest first."""
    keys = [f"{lane}:{number}" for number in range(count)]
    for place, key in enumerate(keys):
        begun(replace(work, key=key, lane=lane))
        servers.state.client.hset(f"retry:{{0}}:claim:{key}", "since", LONG_AGO + place)
    return keys


def let_age_time_pass(servers: RedisServers) -> None:
    """Makes the last start in the lane of refreshes seem long ago."""
    servers.state.client.hset("retry:{0}:started", "paint.refresh", LONG_AGO)


def test_the_oldest_of_a_lane_that_does_not_get_its_turn_move_up_with_their_tokens(
    work: Work, servers: RedisServers
) -> None:
    keys = long_waiting_keys(servers, work, "paint.refresh", 8)
    aged, left = keys[:MAX_AGED_PER_LANE], keys[MAX_AGED_PER_LANE:]
    assert age_lanes() == len(aged)
    assert (queued(servers, "paint.now"), queued(servers, "paint.refresh")) == (set(aged), set(left))
    calls = [repr([key, held_token(servers, replace(work, key=key)), "a", 1]) for key in aged]
    assert sorted(published_calls(servers)) == sorted(calls)


def test_no_more_move_before_the_time_has_passed_again_nor_if_it_is_switched_off(
    work: Work, servers: RedisServers, settings: Settings
) -> None:
    long_waiting_keys(servers, work, "paint.refresh", 8)
    assert [age_lanes(), age_lanes()] == [MAX_AGED_PER_LANE, 0]
    let_age_time_pass(servers)
    settings.RETRY_AGE_SECONDS = 0
    assert age_lanes() == 0
    settings.RETRY_AGE_SECONDS = 30
    assert age_lanes() == 3


def test_a_lane_whose_work_starts_and_work_that_came_a_moment_ago_are_left_alone(
    work: Work, servers: RedisServers
) -> None:
    begun(work, refresh=True)
    assert age_lanes() == 0
    first, *_ = (replace(work, key=key) for key in long_waiting_keys(servers, work, "paint.refresh", 3))
    start(first, held_token(servers, first))
    assert age_lanes() == 0


def test_pre_warming_moves_up_one_lane_at_a_time_and_behind_what_waits_there(work: Work, servers: RedisServers) -> None:
    refreshes = long_waiting_keys(servers, work, "paint.refresh", MAX_AGED_PER_LANE + 1)
    warm = long_waiting_keys(servers, work, "paint.warm", 1)
    assert age_lanes() == MAX_AGED_PER_LANE + 1
    assert queued(servers, "paint.now") == set(refreshes[:MAX_AGED_PER_LANE])
    assert queued(servers, "paint.refresh") == {refreshes[-1], *warm}
    let_age_time_pass(servers)
    assert age_lanes() == 2  # each in its turn


def test_a_full_lane_takes_no_aged_work(work: Work, servers: RedisServers, settings: Settings) -> None:
    settings.RETRY_LANES = {
        "paint.now": {"limit": 2, "workers": 1},
        "paint.refresh": {"limit": 9, "workers": 1, "up": "paint.now"},
    }
    begun(work)
    first, *others = long_waiting_keys(servers, work, "paint.refresh", 3)
    assert age_lanes() == 1
    assert queued(servers, "paint.now") == {work.key, first}
    let_age_time_pass(servers)
    assert age_lanes() == 0
    assert queued(servers, "paint.refresh") == set(others)


def test_marks_without_a_claim_are_cleared(servers: RedisServers) -> None:
    servers.state.client.zadd("retry:{0}:claims", {"gone": 1})
    servers.state.client.zadd("retry:{0}:queued:paint.refresh", {"gone": LONG_AGO})
    assert [sweep_claims(), age_lanes()] == [0, 0]
    assert servers.state.client.zcard("retry:{0}:claims") == 0
    assert queued(servers, "paint.refresh") == set()
