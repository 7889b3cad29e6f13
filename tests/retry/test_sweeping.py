"""The sweeper publishes again, gives up in time, and never loses what it could not publish."""

import json

import pytest

from retry import claims, connections, standings
from retry.errors import QueueUnavailable
from retry.sweeping import sweep
from retry.work import Work
from tests.conftest import RedisServers

pytestmark = pytest.mark.usefixtures("servers")


def begin(work: Work) -> int:
    found = standings.standing(connections.execute(claims.beginning(work, refresh=False)))
    assert isinstance(found, standings.Begun)
    return found.token


def make_due(servers: RedisServers, work: Work) -> None:
    for name in ("retry:claims", "retry:leases"):
        servers.state.client.zadd(name, {work.key: 1}, xx=True)


def test_nothing_due_is_nothing_done(work: Work) -> None:
    begin(work)
    assert sweep() == 0


def test_lost_work_is_published_from_what_its_claim_holds(work: Work, servers: RedisServers) -> None:
    token = begin(work)
    make_due(servers, work)
    assert sweep() == 1
    [message] = servers.state.client.lrange("paint.now", 0, -1)
    assert json.loads(message)["headers"]["argsrepr"] == repr([work.key, token, "a", 1])


def test_work_that_loses_its_worker_twice_becomes_a_failure(work: Work, servers: RedisServers) -> None:
    connections.execute(claims.starting(work.key, begin(work), "nonce"))
    make_due(servers, work)
    sweep()
    again = int(servers.state.client.hget(f"retry:claim:{work.key}", "token") or 0)
    connections.execute(claims.starting(work.key, again, "nonce"))
    make_due(servers, work)
    sweep()
    found = standings.standing(connections.execute(claims.looking(work.key)))
    assert isinstance(found, standings.Failed)
    assert found.status == 502
    assert servers.state.client.llen("paint.now") == 1


def test_what_could_not_be_published_stays_due(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise QueueUnavailable("refused")

    begin(work)
    make_due(servers, work)
    monkeypatch.setattr("retry.lanes.publish", refuse)
    assert sweep() == 1
    monkeypatch.undo()
    make_due(servers, work)
    assert sweep() == 1
    assert servers.state.client.llen("paint.now") == 1


def test_a_mark_whose_claim_is_gone_is_cleared(work: Work, servers: RedisServers) -> None:
    servers.state.client.zadd("retry:claims", {work.key: 1})
    assert sweep() == 0
    assert servers.state.client.zcard("retry:claims") == 0


def test_what_a_closed_lane_does_not_take_fails_until_it_opens(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise QueueUnavailable("The origin is left alone.", retry_seconds=90)

    begin(work)
    make_due(servers, work)
    monkeypatch.setattr("retry.lanes.publish", refuse)
    sweep()
    found = standings.standing(connections.execute(claims.looking(work.key)))
    assert isinstance(found, standings.Failed)
    assert (found.status, found.detail) == (503, "The origin is left alone.")
    assert 85 < found.wait_seconds <= 90
