"""Rates learnt from origins' answers: single answers first, then origins with secret limits, by their own logs."""

from dataclasses import replace

import pytest
from pytest_django import Settings

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import ClaimedJob, DomainLimits, JobRequeued, NothingDue, RequestReport
from retry import stores
from tests.conftest import RedisServers
from tests.support.frontier import (
    FAILED,
    HOST,
    OK,
    REFUSED,
    THROTTLED,
    backlog,
    claim,
    claimed,
    dead_job,
    enqueue,
    idle,
    job,
    next_claimed,
    record,
    report,
)
from tests.support.frontier_clock import Clock
from tests.support.frontier_simulation import Simulation
from tests.support.simulated_origin import Origin

run = stores.run_steps


def gap_ms() -> float:
    return float(record().get("delay", 500))


def test_success_with_a_backlog_makes_the_gap_shorter(clock: Clock) -> None:
    backlog()
    for _ in range(10):
        report(next_claimed(clock))
    assert 400 < gap_ms() < 450


@pytest.mark.parametrize("outcome", [REFUSED, FAILED])
def test_fast_errors_never_make_the_gap_shorter(clock: Clock, outcome: RequestReport) -> None:
    backlog()
    for _ in range(10):
        report(next_claimed(clock), replace(outcome, latency_seconds=0.001))
    assert gap_ms() == 500


def test_an_idle_domain_earns_nothing(clock: Clock) -> None:
    for number in range(10):
        enqueue(job(str(number)))
        report(claimed())
        clock.pass_by(60)
    assert gap_ms() == 500
    backlog(size=2)
    claimed()
    assert idle() > 0.44  # nor does it save up unused turns


def test_a_refusal_makes_the_gap_longer_and_is_not_the_jobs_failure(clock: Clock) -> None:
    backlog(size=1)
    held = claimed()
    assert report(held, THROTTLED) == JobRequeued(0.8)
    assert gap_ms() == 800
    again = next_claimed(clock)
    assert (again.key, again.attempts) == (held.key, 0)


def test_several_refusals_of_one_event_count_once(clock: Clock) -> None:
    run(queue.set_limits(HOST, DomainLimits(in_flight=8)))
    backlog(size=8)
    held = [next_claimed(clock) for _ in range(8)]
    for one in held:
        report(one, THROTTLED)
        clock.pass_by(0.05)
    assert gap_ms() == 800


@pytest.mark.parametrize(("latency_seconds", "over_after_seconds"), [(0.1, 1.6), (3, 6)])
def test_a_refusal_soon_after_another_is_the_same_event_though_it_was_sent_later(
    clock: Clock, latency_seconds: float, over_after_seconds: float
) -> None:
    refused = replace(THROTTLED, latency_seconds=latency_seconds)
    backlog()
    report(next_claimed(clock), refused)
    late = next_claimed(clock)
    clock.pass_by(over_after_seconds - 1)
    report(late, refused)
    assert gap_ms() == 800
    later = next_claimed(clock)
    clock.pass_by(over_after_seconds)
    report(later, refused)
    assert gap_ms() > 800


def test_what_was_refused_is_held_to_be_the_mean_gap_of_late(clock: Clock) -> None:
    backlog()
    for _ in range(20):
        report(next_claimed(clock))
    shortest = gap_ms()
    report(next_claimed(clock), THROTTLED)
    assert 1.1 * shortest < float(record()["floor"]) < 1.3 * shortest
    assert gap_ms() == pytest.approx(1.6 * shortest)


@pytest.mark.parametrize(("retry_after_seconds", "margin"), [(0, 1.03), (2, 1.06)])
def test_after_a_refusal_the_gap_comes_back_to_just_short_of_what_was_refused(
    clock: Clock, retry_after_seconds: float, margin: float
) -> None:
    backlog()
    report(next_claimed(clock), replace(THROTTLED, retry_after_seconds=retry_after_seconds))
    gaps = [gap_ms()]
    for _ in range(40):
        report(next_claimed(clock))
        gaps.append(gap_ms())
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[22:] == [pytest.approx(500 * margin, rel=0.001)] * 19


def test_only_who_has_waited_for_others_takes_their_number_for_what_is_refused(clock: Clock) -> None:
    backlog()
    first, second = claimed(), next_claimed(clock)
    clock.pass_by(1)
    report(second, THROTTLED)
    assert "cap" not in record()
    third = next_claimed(clock)
    clock.pass_by(5)
    report(first)
    fourth = claimed()  # its turn had come long ago
    clock.pass_by(5)
    report(fourth, THROTTLED)
    assert record()["cap"] == "1"
    report(third)


def test_nothing_is_sent_before_retry_after_has_passed(clock: Clock) -> None:
    run(queue.set_limits(HOST, DomainLimits(in_flight=8)))
    backlog()
    first, second = claimed(), next_claimed(clock)
    report(first, replace(THROTTLED, retry_after_seconds=120))
    report(second)  # a success of before takes nothing back
    clock.pass_by(119.9)
    assert idle() == pytest.approx(0.1, abs=0.01)
    clock.pass_by(0.11)
    claimed()


def test_retry_after_is_obeyed_for_a_day_at_the_most(clock: Clock) -> None:
    backlog(size=1)
    report(claimed(), replace(THROTTLED, retry_after_seconds=1e9))
    assert (float(record()["block_until"]) - clock.ms) / 1000 == pytest.approx(86_400)


def test_a_retry_after_of_nothing_switches_no_back_off_off(clock: Clock) -> None:
    backlog(size=1)
    waits = []
    for _ in range(5):
        report(next_claimed(clock), replace(THROTTLED, retry_after_seconds=0))
        waits.append(idle())
        clock.pass_by(5)
    assert waits[0] >= 0.7
    assert waits == sorted(waits)
    assert waits[-1] > 30


def test_a_domain_that_only_refuses_fails_its_jobs_clearly_in_the_end(clock: Clock, settings: Settings) -> None:
    settings.FETCH_STALL_SECONDS = 3600
    backlog(size=2)
    began = clock.seconds
    while isinstance(found := claim(), ClaimedJob | NothingDue):
        if isinstance(found, ClaimedJob):
            report(found, THROTTLED)
        else:
            clock.pass_by(found.wait_seconds)
    assert found.why == "stalled"
    assert clock.seconds - began == pytest.approx(3600, abs=2)
    assert dead_job().job.key != found.job.key


def test_jobs_do_not_outwait_a_long_retry_after(clock: Clock, settings: Settings) -> None:
    settings.FETCH_STALL_SECONDS = 3600
    backlog(size=40)
    report(claimed(), replace(THROTTLED, retry_after_seconds=80_000))
    clock.pass_by(3599)
    idle()
    clock.pass_by(1.1)
    for _ in range(40):
        found = dead_job()
        assert found.why == "stalled"
        run(queue.finish_job(found.job))
    enqueue(job("later"))
    assert idle() > 3
    clock.pass_by(3601)
    assert dead_job().job.url.endswith("/later")


def test_jobs_that_have_waited_for_too_long_fail_a_few_at_a_time(
    clock: Clock, servers: RedisServers, settings: Settings
) -> None:
    settings.FETCH_STALL_SECONDS = 3600
    backlog(size=40)
    report(claimed(), replace(THROTTLED, retry_after_seconds=80_000))
    clock.pass_by(3601)
    dead_job()
    assert servers.state.client.zcard("fetch:doomed") == 15  # no call takes long


def test_bytes_count_too(clock: Clock) -> None:
    run(queue.set_limits(HOST, DomainLimits(bytes_per_second=1000)))
    backlog()
    report(claimed(), replace(OK, bytes=10_000))
    assert idle() == pytest.approx(9, abs=0.1)


def test_what_an_admin_sets_wins_at_once(clock: Clock) -> None:
    backlog()
    report(claimed(), THROTTLED)
    run(queue.unblock_domain(HOST))
    run(queue.set_limits(HOST, DomainLimits(delay_seconds=0.1, in_flight=3)))
    for _ in range(3):
        next_claimed(clock)
        clock.pass_by(0.12)
    idle()
    assert gap_ms() == 800  # the learnt rate is kept for later
    run(queue.set_limits(HOST, DomainLimits(in_flight=4, paused=True)))
    idle()
    run(queue.set_limits(HOST, DomainLimits(in_flight=4)))
    claimed()


def test_a_blocked_domain_is_left_alone_until_it_is_unblocked(clock: Clock) -> None:
    backlog()
    run(queue.block_domain(HOST, 3600))
    clock.pass_by(3000)
    idle()
    run(queue.unblock_domain(HOST))
    claimed()


def secret(**origins: Origin) -> dict[str, Origin]:
    return {f"{name}.example.com": origin for name, origin in origins.items()}


def test_secret_rates_are_found_and_kept(clock: Clock) -> None:
    origins = secret(
        a=Origin(rate=5),
        b=Origin(rate=8, latency=0.3),
        c=Origin(rate=10, latency=0.4, burst=3),
        d=Origin(rate=20, latency=0.05, retry_after=2),
        e=Origin(rate=4, latency=0.05, retry_after=2),
    )
    Simulation(clock, origins).run_until(150)
    served = {name: origin.served_between(60, 150) / 90 / origin.rate for name, origin in origins.items()}
    assert all(share >= 0.8 for share in served.values()), served
    refused = sum(origin.refused_between(60, 150) for origin in origins.values())
    assert refused <= 0.01 * sum(origin.served_between(60, 150) for origin in origins.values())
    assert all(origin.refused_between(60, 150) <= 0.015 * origin.served_between(60, 150) for origin in origins.values())
    assert [origin.too_early for origin in origins.values()] == [0] * 5
    assert all(origin.peak <= 8 for origin in origins.values())


def test_a_limit_that_doubles_is_followed_within_a_minute(clock: Clock) -> None:
    origins = secret(a=Origin(rate=6), b=Origin(rate=10, latency=0.05, retry_after=2))
    simulation = Simulation(clock, origins)
    simulation.run_until(100)  # it was refused some times, and is near the limit
    for origin in origins.values():
        origin.rate *= 2
    simulation.run_until(180)
    shares = [origin.served_between(160, 180) / 20 / origin.rate for origin in origins.values()]
    assert all(share >= 0.8 for share in shares), shares
    assert all(origin.refused_between(60, 180) <= 0.01 * origin.served_between(60, 180) for origin in origins.values())


def test_a_site_that_asks_for_long_pauses_is_seldom_probed(clock: Clock) -> None:
    origin = Origin(rate=2, retry_after=60)
    Simulation(clock, secret(a=origin)).run_until(700)
    assert origin.refused_between(100, 700) <= 3
    assert origin.served_between(100, 700) / 600 >= 0.75 * 2


def test_a_limit_that_halves_is_followed_at_once(clock: Clock) -> None:
    origin = Origin(rate=16)
    simulation = Simulation(clock, secret(a=origin))
    simulation.run_until(60)
    origin.rate = 8
    simulation.run_until(100)
    assert origin.refused_between(60, 100) <= 12
    assert origin.served_between(80, 100) / 20 >= 0.8 * 8


def test_a_limit_of_requests_at_once_is_found(clock: Clock) -> None:
    origin = Origin(rate=1000, latency=1.0, most_at_once=3)
    Simulation(clock, secret(a=origin)).run_until(240)
    assert origin.served_between(120, 240) / 120 >= 0.8 * 3
    assert origin.refused_between(120, 240) <= 0.02 * origin.served_between(120, 240)


def test_of_refusals_the_latest_hundred_are_kept(clock: Clock) -> None:
    for number in range(110):
        enqueue(job(f"{number}/tile"))
        held = claimed()
        report(held, THROTTLED)
        run(queue.withdraw_waiter(held.key))
        run(queue.unblock_domain(HOST))
    found = run(queue.read_refusals("example.com"))
    assert len(found) == 100
    assert found[0].path == f"{HOST}/109"


def test_refusals_by_two_hosts_of_one_domain_are_kept_as_evidence(clock: Clock) -> None:
    for host in ("a.example.co.uk", "b.example.co.uk"):
        enqueue(job("tiles/1", host))
        report(claimed(), THROTTLED)
    found = run(queue.read_refusals("example.co.uk"))
    assert {(one.host, one.path, one.scope) for one in found} == {
        (f"{name}.example.co.uk", f"{name}.example.co.uk/tiles", f"{name}.example.co.uk") for name in "ab"
    }
    assert found[0].at == pytest.approx(clock.unix, abs=1)
