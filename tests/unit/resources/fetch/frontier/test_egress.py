"""Domains that are asked by several ways out: each has its own flow control, and its own network to lose."""

import pytest
from pytest_django import Settings

from resources.fetch import dispatch
from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import DomainLimits, JobEnqueued, JobRequeued, RateVerdict, RequestReport
from resources.fetch.frontier.queue import RetryJob
from resources.fetch.http.limit_scopes import scope_via
from retry import stores
from tests.support.frontier import (
    HOST,
    OK,
    THROTTLED,
    UNREACHABLE,
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
AWAY = RequestReport(RateVerdict.AWAY)
HOSTS = [f"{name}.example.com" for name in "abcd"]


def test_a_job_names_its_way_out_and_counts_for_the_domain_by_that_way(clock: Clock) -> None:
    assert enqueue(job("1", egress="x")) == JobEnqueued("a.example.com via x", 0)
    held = claimed()
    assert (held.egress, held.scope, held.host) == ("x", scope_via(HOST, "x"), HOST)


def test_a_refusal_by_one_way_out_does_not_slow_another_down(clock: Clock) -> None:
    enqueue(job("1", egress="x"), job("2", egress="y"), job("3"), job("4", egress="x"))
    for _ in range(3):
        held = next_claimed(clock)
        report(held, THROTTLED if held.egress == "x" else OK)
    assert float(record(scope_via(HOST, "x"))["delay"]) > 500
    assert "block_until" not in record(scope_via(HOST, "y"))
    assert "block_until" not in record(HOST)


@pytest.mark.parametrize("before", [True, False])
def test_what_an_admin_sets_for_a_domain_holds_for_all_its_ways_out(clock: Clock, before: bool) -> None:
    jobs = [job("1", egress="x"), job("2", egress="y"), job("3")]
    if before:
        enqueue(*jobs)
    run(queue.set_limits(HOST, DomainLimits(paused=True)))
    if not before:
        enqueue(*jobs)
    idle()
    run(queue.set_limits(HOST, DomainLimits()))
    assert {claimed().egress for _ in jobs} == {"x", "y", ""}


@pytest.mark.parametrize("before", [True, False])
def test_a_block_holds_for_all_ways_out(clock: Clock, before: bool) -> None:
    jobs = [job("1", egress="x"), job("2")]
    if before:
        enqueue(*jobs)
    run(queue.block_domain(HOST, 30))
    if not before:
        enqueue(*jobs)
    assert idle() == pytest.approx(30, abs=0.1)
    run(queue.unblock_domain(HOST))
    assert {claimed().egress for _ in jobs} == {"x", ""}


def test_limits_may_be_set_for_one_way_out(clock: Clock) -> None:
    run(queue.set_limits(scope_via(HOST, "x"), DomainLimits(paused=True)))
    enqueue(job("1", egress="x"), job("2", egress="y"))
    assert claimed().egress == "y"
    idle()


def test_a_scope_by_rule_goes_by_the_way_out_too(clock: Clock) -> None:
    run(queue.set_scope_rule("example.com", "registrable"))
    assert enqueue(job("1", egress="x")) == JobEnqueued("example.com via x", 0)
    report(claimed(), THROTTLED)
    assert [refusal.scope for refusal in run(queue.read_refusals("example.com"))] == ["example.com"]


def fetched_once(clock: Clock, egress: str) -> None:
    for host in HOSTS:
        enqueue(job("1", host, egress=egress), job("2", host, egress=egress))
    for _ in HOSTS:
        report(next_claimed(clock))
    clock.pass_by(60)


def test_hosts_that_one_way_out_does_not_reach_stop_no_other_way(clock: Clock) -> None:
    fetched_once(clock, "x")
    enqueue(job("other", egress="y"), job("own"))
    held = [next_claimed(clock) for _ in range(6)]
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
            assert report(held, AWAY) == JobRequeued(2)
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
