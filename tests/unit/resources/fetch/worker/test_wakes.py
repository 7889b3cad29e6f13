"""The publishes that wake sleeping fetchers: as few as are needed."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from resources.fetch.frontier import queue
from tests.conftest import RedisServers
from tests.support.frontier import claimed, enqueue, idle, job, report
from tests.support.frontier_clock import Clock


class Wakes:
    """The published waits, each in ms."""

    def __init__(self, servers: RedisServers) -> None:
        self._subscription = servers.state.client.pubsub()  # type: ignore[no-untyped-call]
        self._subscription.subscribe(queue.WAKE_CHANNEL)
        assert self._subscription.get_message(timeout=2) is not None

    def pop_all(self) -> list[int]:
        return [int(message["data"]) for message in iter(lambda: self._subscription.get_message(timeout=0.1), None)]

    def close(self) -> None:
        self._subscription.close()


@pytest.fixture
def wakes(servers: RedisServers) -> Iterator[Wakes]:
    with closing(Wakes(servers)) as found:
        yield found


def test_nothing_is_published_when_nobody_sleeps(wakes: Wakes) -> None:
    enqueue(job("1"))
    assert wakes.pop_all() == []
    report(claimed())
    idle()
    enqueue(job("1", "b.example.com"))
    assert wakes.pop_all() == [0]
    claimed()  # it sleeps no more
    enqueue(job("1", "c.example.com"))
    assert wakes.pop_all() == []


def test_many_jobs_wake_a_sleeping_fetcher_once(wakes: Wakes) -> None:
    idle()
    enqueue(job("1"), job("2", "b.example.com"))
    enqueue(job("3", "c.example.com"))
    assert wakes.pop_all() == [0]


def test_a_fetcher_is_woken_again_for_an_earlier_moment_alone(wakes: Wakes) -> None:
    idle()
    enqueue(job("1", not_before_seconds=30), job("2", not_before_seconds=40))
    assert wakes.pop_all() == [30_000]
    enqueue(job("3", not_before_seconds=20))
    assert wakes.pop_all() == [20_000]


def test_a_fetcher_whose_wake_up_was_lost_is_woken_after_a_while(wakes: Wakes, servers: RedisServers) -> None:
    idle()
    enqueue(job("1"))
    assert 0 < servers.state.client.pttl("fetch:{0}:woken") <= 1000
    servers.state.client.delete("fetch:{0}:woken")
    enqueue(job("2", "b.example.com"))
    assert wakes.pop_all() == [0, 0]


def test_a_fetcher_that_sleeps_anew_until_the_same_moment_is_woken(
    wakes: Wakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    enqueue(job("1"))
    claimed()
    clock.pass_by(0.1005)
    idle()  # until the lease of the first one is over
    enqueue(job("2", "b.example.com"))
    claimed()
    clock.pass_by(0.1)
    idle()
    enqueue(job("3", "c.example.com"))
    assert wakes.pop_all() == [0, 0]
