"""Egresses of a domain, each with its own rate, and networks that are away."""

import pytest
from pytest_django import Settings

from resources.fetch import dispatch
from resources.fetch.frontier import jobs, queue
from resources.fetch.frontier.queue import HoldJob, RetryJob
from resources.fetch.http.limit_scopes import scope_via
from retry import stores
from tests.support.frontier import (
    HOST,
    OK,
    THROTTLED,
    UNREACHABLE,
    backlog,
    claim,
    claimed,
    enqueue,
    idle,
    job,
    next_claimed,
    record,
    report,
)
from tests.support.frontier_clock import Clock

run = stores.run_steps


AWAY = jobs.RequestReport(jobs.RateVerdict.AWAY)
HOSTS = [f"{name}.example.com" for name in "abcdef"]


def test_a_refusal_by_one_way_out_does_not_slow_another_down(clock: Clock) -> None:
    enqueue(job("1", egress="x"), job("2", egress="y"), job("3"), job("4", egress="x"))
    for _ in range(3):
        held = next_claimed(clock)
        report(held, THROTTLED if held.egress == "x" else OK)
    assert float(record(scope_via(HOST, "x"))["delay"]) > 500
    assert "block_until" not in record(scope_via(HOST, "y"))
    assert "block_until" not in record(HOST)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("how", ["paused", "blocked"])
def test_what_an_admin_sets_for_a_domain_holds_for_all_its_ways_out(clock: Clock, how: str, before: bool) -> None:
    three = [job("1", egress="x"), job("2", egress="y"), job("3")]
    if before:
        enqueue(*three)
    run(queue.set_limits(HOST, jobs.DomainLimits(paused=True)) if how == "paused" else queue.block_domain(HOST, 30))
    if not before:
        enqueue(*three)
    assert idle() == pytest.approx(60 if how == "paused" else 30, abs=0.1)
    run(queue.set_limits(HOST, jobs.DomainLimits()) if how == "paused" else queue.unblock_domain(HOST))
    assert {claimed().egress for _ in three} == {"x", "y", ""}


def test_a_scope_by_rule_goes_by_the_way_out_too(clock: Clock) -> None:
    run(queue.set_scope_rule("example.com", "registrable"))
    assert enqueue(job("1", egress="x")) == jobs.JobEnqueued("example.com via x", 0)
    report(claimed(), THROTTLED)
    assert [refusal.scope for refusal in run(queue.read_refusals("example.com"))] == ["example.com"]


def fetch_from_all(clock: Clock, egress: str = "") -> None:
    """Sends a request to each host, a minute ago. Three more jobs wait for each."""
    for host in HOSTS:
        enqueue(job("first", host, egress=egress))
        report(next_claimed(clock))
        enqueue(*(job(str(number), host, egress=egress) for number in range(3)))
    clock.pass_by(60)


def test_hosts_that_one_way_out_does_not_reach_stop_no_other_way(clock: Clock) -> None:
    fetch_from_all(clock, "x")
    enqueue(job("other", egress="y"), job("own"))
    held = [next_claimed(clock) for _ in range(8)]
    for one in held:
        if one.egress == "x":
            report(one, UNREACHABLE, RetryJob(0))
    enqueue(job("more", egress="y"), job("more own"))
    clock.pass_by(1)
    assert {claimed().egress for _ in "12"} == {"y", ""}
    assert 0.9 <= idle() <= 1.01
    clock.pass_by(1.1)
    trial = claimed()
    assert trial.egress == "x"
    idle()
    report(trial)
    assert claimed().egress == "x"


def test_a_way_out_that_is_known_not_to_work_rests_and_counts_against_nobody(clock: Clock) -> None:
    enqueue(job("1", egress="x"), job("2", "b.example.com", egress="x"), job("3", "c.example.com", egress="y"))
    for held in [claimed() for _ in "123"]:
        if held.egress == "x":
            assert report(held, AWAY) == jobs.JobRequeued(2)
            assert {"failures", "trouble_since"}.isdisjoint(record(held.scope))
        else:
            report(held)
    assert idle() == pytest.approx(2, abs=0.1)
    clock.pass_by(2.1)
    trial = claimed()
    assert (trial.egress, trial.attempts) == ("x", 0)
    assert idle() == pytest.approx(2, abs=0.1)
    report(trial)
    assert claimed().egress == "x"


def test_a_way_out_that_is_away_for_one_machine_is_there_for_another(clock: Clock) -> None:
    enqueue(job("1", egress="x"))
    report(claimed(), AWAY)
    clock.pass_by(0.6)
    idle()
    assert claimed(machine="another").egress == "x"


def test_published_work_goes_out_by_the_way_of_its_domain(clock: Clock, settings: Settings) -> None:
    settings.FETCH_EGRESS = ["one=192.0.2.1", "two=192.0.2.2"]
    settings.FETCH_TASKS = {"t": "tests.support.origin.TASK"}
    for host in ("a.site.org", "b.site.org", "c.another.org"):
        dispatch.publish("t", f"w:{host}", 1, (f"https://{host}/",), "fetch.fast")
    ways = {held.host: held.egress for held in (claimed(), claimed(), claimed())}
    assert ways["a.site.org"] == ways["b.site.org"]
    assert set(ways.values()) <= {"one", "two"}


def test_many_hosts_that_cannot_be_reached_at_once_are_our_networks_fault(clock: Clock) -> None:
    fetch_from_all(clock)
    held = [next_claimed(clock) for _ in HOSTS]
    for one in held[:3]:
        report(one, UNREACHABLE, HoldJob())
    for one in held[3:]:
        assert report(one, UNREACHABLE) == jobs.JobRequeued(2)
    for host in HOSTS:
        assert float(record(host).get("failures", 0)) == 0
        assert float(record(host).get("trouble_since", 0)) == 0


def test_attempts_that_failed_of_our_own_network_are_taken_back(clock: Clock) -> None:
    fetch_from_all(clock)
    held = [next_claimed(clock) for _ in HOSTS]
    for one in held[:3]:
        assert isinstance(report(one, UNREACHABLE, RetryJob(1)), jobs.JobRequeued)
    budgets = [float(record(one.scope)["budget"]) for one in held[:3]]
    report(held[3], UNREACHABLE, RetryJob(1))
    assert [float(record(one.scope)["budget"]) for one in held[:3]] == [budget + 1 for budget in budgets]
    for one in held[4:]:
        report(one)  # the network is there again
    clock.pass_by(60)
    again = {one.key: one.attempts for one in iter(lambda: finished(clock), None)}
    assert [again[one.key] for one in held[:3]] == [0, 0, 0]


def finished(clock: Clock) -> jobs.ClaimedJob | None:
    """The next job, which is done; None when nothing is left."""
    found = claim()
    while isinstance(found, jobs.NothingDue) and found.wait_seconds < 50:
        clock.pass_by(found.wait_seconds)
        found = claim()
    if isinstance(found, jobs.NothingDue):
        return None
    assert isinstance(found, jobs.ClaimedJob)
    report(found)
    return found


def test_while_our_network_is_away_one_request_at_a_time_tries_it(clock: Clock) -> None:
    fetch_from_all(clock)
    for one in [next_claimed(clock) for _ in HOSTS]:
        report(one, UNREACHABLE)
    assert idle() == pytest.approx(2, abs=0.1)
    clock.pass_by(1)
    idle()
    claimed(machine="another")
    clock.pass_by(1.1)
    trial = claimed()
    assert idle() > 0
    assert report(trial, UNREACHABLE) == jobs.JobRequeued(2)
    clock.pass_by(2.1)
    report(claimed())
    claimed(machine="another")
    claimed()


def test_an_answer_from_anybody_shows_that_our_network_is_there(clock: Clock) -> None:
    fetch_from_all(clock)
    held = [next_claimed(clock) for _ in HOSTS]
    for number, one in enumerate(held):
        report(one, THROTTLED if number == 2 else UNREACHABLE, HoldJob())
    failures = [int(float(record(host).get("failures", 0))) for host in HOSTS]
    assert sorted(failures) == [0, 1, 1, 1, 1, 1]


def test_hosts_that_have_been_dead_for_long_are_not_our_networks_fault(clock: Clock) -> None:
    for host in HOSTS:
        backlog(host, 3)
    for one in [next_claimed(clock) for _ in HOSTS]:
        report(one, UNREACHABLE, HoldJob())
    assert all(record(host)["failures"] == "1" for host in HOSTS)
