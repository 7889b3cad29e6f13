"""Floods of hosts, refusals and slow URLs: the frontier's records stay bounded, and its jobs are served."""

from dataclasses import replace
from functools import cache

import pytest

from resources.fetch.frontier import jobs, queue
from resources.fetch.frontier.politeness import Politeness
from retry import scripts, stores
from tests.conftest import RedisServers
from tests.support import frontier
from tests.support.frontier import HOST
from tests.support.frontier_clock import Clock

DAY = 86_400
ALLOWED = "limited.example"

run = stores.run_steps


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(Politeness(), most_domains=20, most_evidence=5, most_slow=5)
    monkeypatch.setattr(queue, "configured_politeness", cache(lambda: small))


def follow_redirect(host: str, *, is_refused: bool = False) -> None:
    run(queue.take_turn(f"https://{host}/", "", 10))
    if is_refused:
        run(queue.report_refused_turn(f"https://{host}/", "", 0.1, DAY))
    else:
        run(queue.report_served_turn(f"https://{host}/", "", 0.1, 0.1, is_paced=False))


def names(servers: RedisServers, family: str) -> set[str]:
    """The names behind that prefix."""
    return {key.decode().removeprefix(family) for key in servers.state.client.scan_iter(f"{family}*")}


def domains(servers: RedisServers) -> set[str]:
    return names(servers, "fetch:{0}:domain:")


@pytest.mark.parametrize("is_refused", [False, True], ids=["served", "refused for a day"])
def test_a_flood_of_hosts_leaves_those_with_jobs_and_limits(
    clock: Clock, servers: RedisServers, is_refused: bool
) -> None:
    frontier.enqueue(frontier.job())
    run(queue.set_limits(ALLOWED, jobs.DomainLimits(in_flight=1)))
    run(queue.block_domain("blocked.example", DAY))
    for number in range(100):
        clock.pass_by(0.01)
        follow_redirect(f"{number}.flood.example", is_refused=is_refused)
    assert {HOST, ALLOWED, "blocked.example", "99.flood.example"} <= domains(servers)
    assert len(domains(servers)) <= 23
    assert servers.state.client.zcard("fetch:{0}:stalls") <= 20
    assert frontier.claimed().host == HOST


def test_a_flood_of_hosts_in_one_list_leaves_no_more_than_one_by_one(clock: Clock, servers: RedisServers) -> None:
    for number in range(6):
        clock.pass_by(0.01)
        flood = [frontier.job(host=f"{number}-{place}.flood.example") for place in range(scripts.MAX_ITEMS_PER_CALL)]
        stores.run_together([queue.enqueue_job(job) for job in flood])
        stores.run_together([queue.withdraw_waiter(job.key, job.waiter.id) for job in flood])
    assert len(domains(servers)) <= scripts.MAX_ITEMS_PER_CALL + 8


def test_a_host_that_asked_for_time_is_remembered_longer_than_one_that_did_not(
    clock: Clock, servers: RedisServers
) -> None:
    follow_redirect("asked.example", is_refused=True)
    for number in range(25):
        clock.pass_by(0.01)
        follow_redirect(f"{number}.flood.example")
    assert "asked.example" in domains(servers)


def test_a_host_that_only_redirects_lead_to_is_remembered_for_a_day_unless_it_refused(
    clock: Clock, servers: RedisServers
) -> None:
    follow_redirect("served.example")
    follow_redirect("refused.example", is_refused=True)
    frontier.enqueue(frontier.job())
    kept = [
        servers.state.client.ttl(f"fetch:{{0}}:domain:{host}") for host in ("served.example", "refused.example", HOST)
    ]
    assert kept == pytest.approx([DAY, 30 * DAY, 30 * DAY], abs=60)


def test_a_flood_of_slow_urls_leaves_the_latest(clock: Clock, servers: RedisServers) -> None:
    for number in range(12):
        frontier.enqueue(frontier.job("slow", f"{number}.example"))
        slow = frontier.claimed()
        run(queue.move_job(slow.key, "slow"))
        frontier.report(slow)
        clock.pass_by(1)
    known = servers.state.client.zrange("fetch:{0}:slow", 0, -1)
    assert known == [f"https://{number}.example/slow".encode() for number in range(7, 12)]


def test_a_flood_of_refusing_hosts_leaves_the_latest_as_evidence(clock: Clock, servers: RedisServers) -> None:
    for number in range(12):
        frontier.enqueue(frontier.job(host=f"site-{number}.example"))
        frontier.report(frontier.claimed(), frontier.THROTTLED)
        clock.pass_by(0.01)
    assert names(servers, "fetch:{0}:evidence:") == {f"site-{number}.example" for number in range(7, 12)}


def test_only_fetchers_lost_in_a_row_end_a_job(clock: Clock) -> None:
    frontier.enqueue(frontier.job())
    for _ in range(3):
        assert frontier.next_claimed(clock).lapses <= 1
        clock.pass_by(3600)
    lost = frontier.next_claimed(clock)
    frontier.report(lost, frontier.UNSENT, queue.PutJobBack())
    for _ in range(2):
        frontier.next_claimed(clock)
        clock.pass_by(20)
    assert frontier.dead_job().why == "lapsed"
