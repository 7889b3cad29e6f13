"""Verdicts on outcomes, and what a domain learns from answers: its gap, its cap, blocks, circuits, durations."""

from dataclasses import replace
from itertools import pairwise

import pytest
from pytest_django import Settings

from resources.fetch.frontier import politeness, queue
from resources.fetch.frontier.jobs import (
    ClaimedJob,
    DomainLimits,
    JobRequeued,
    NoRetryBudget,
    NothingDue,
    RateVerdict,
    RequestReport,
    TurnGranted,
    TurnTooFar,
)
from resources.fetch.frontier.queue import RetryJob
from resources.fetch.http.messages import Failure, FetchFailed, Hop, OutcomeTiming
from retry import stores
from tests.conftest import RedisServers
from tests.support import frontier
from tests.support.frontier_clock import Clock

run = stores.run_steps


URL, ELSEWHERE = f"https://{frontier.HOST}/1", "https://b.example.com/2"
TIMING = OutcomeTiming(0, 1)
HOPS = (Hop(URL, 302),)


@pytest.mark.parametrize(
    ("failure", "status", "url", "hops", "verdict"),
    [
        pytest.param(Failure.EXPIRED, None, "", (), RateVerdict.UNSENT, id="nothing was asked"),
        pytest.param(Failure.REFUSED, None, "", (), RateVerdict.UNSENT, id="nor for a port that is not fetched from"),
        pytest.param(Failure.REFUSED, None, URL, (), RateVerdict.UNSENT, id="nor at an address that is refused"),
        pytest.param(Failure.REFUSED, 302, "", HOPS, RateVerdict.REFUSED, id="an answer that leads to what is refused"),
        pytest.param(Failure.REFUSED, 302, ELSEWHERE, HOPS, RateVerdict.REFUSED, id="or to another host that is"),
        pytest.param(Failure.TRANSIENT, None, URL, (), RateVerdict.UNREACHABLE, id="no answer"),
        pytest.param(Failure.TRANSIENT, 500, URL, (), RateVerdict.FAILED, id="an error"),
        pytest.param(Failure.TRANSIENT, 500, ELSEWHERE, HOPS, RateVerdict.REFUSED, id="an error of another host"),
        pytest.param(Failure.PERMANENT, 404, URL, (), RateVerdict.REFUSED, id="an answer about this address alone"),
        pytest.param(Failure.THROTTLED, 429, URL, (), RateVerdict.THROTTLED, id="a limit"),
        pytest.param(Failure.THROTTLED, 429, ELSEWHERE, HOPS, RateVerdict.REFUSED, id="a limit of another host"),
        pytest.param(Failure.POSTPONED, 302, URL, HOPS, RateVerdict.REFUSED, id="one that leads to one left alone"),
        pytest.param(Failure.EXPIRED, 302, URL, HOPS, RateVerdict.REFUSED, id="one that leads to what has expired"),
        pytest.param(Failure.OURS, None, URL, (), RateVerdict.AWAY, id="our network"),
    ],
)
def test_each_failure_counts_against_whom_it_concerns(
    failure: Failure, status: int | None, url: str, hops: tuple[Hop, ...], verdict: RateVerdict
) -> None:
    assert politeness.build_report(FetchFailed(failure, "no", TIMING, status, hops=hops, url=url)).verdict is verdict


def test_a_domain_answers_within_the_time_of_the_first_head_without_bodies_and_turns() -> None:
    timing = OutcomeTiming(0, seconds=90, head_seconds=9, answer_seconds=(0.2, 0.3))
    outcome = FetchFailed(Failure.TRANSIENT, "half a body", timing, 200, hops=HOPS, url=URL)
    assert politeness.build_report(outcome).latency_seconds == 0.2


@pytest.mark.parametrize("failure", Failure)
def test_only_the_jobs_own_failures_are_attempts(failure: Failure) -> None:
    is_nobodys = failure in {Failure.THROTTLED, Failure.POSTPONED, Failure.OURS}
    assert politeness.counts_as_attempt(FetchFailed(failure, "no", TIMING)) is not is_nobodys


def gap_ms() -> float:
    return float(frontier.record().get("delay", 500))


@pytest.mark.parametrize(
    ("outcome", "gap"), [(frontier.OK, 500 * 0.95**9), (frontier.REFUSED, 500), (frontier.FAILED, 500)]
)
def test_success_with_a_backlog_makes_the_gap_shorter_and_fast_errors_never(
    clock: Clock, outcome: RequestReport, gap: float
) -> None:
    frontier.backlog()
    for _ in range(10):
        frontier.report(frontier.next_claimed(clock), replace(outcome, latency_seconds=0.001))
    assert gap_ms() == pytest.approx(gap)


def test_an_origin_whose_answers_take_long_is_asked_less_often_and_no_faster_for_failures(clock: Clock) -> None:
    frontier.backlog()
    for outcome in (frontier.OK, frontier.OK, frontier.FAILED, frontier.REFUSED):
        latency_seconds = 8 if outcome is frontier.OK else 0.001
        frontier.report(frontier.next_claimed(clock), replace(outcome, latency_seconds=latency_seconds))
    frontier.next_claimed(clock)
    assert frontier.idle() >= 8 / 2 / 4
    assert gap_ms() == 500  # such requests tell nothing of shorter gaps


def test_a_host_that_redirects_lead_to_is_asked_less_often_if_its_answers_take_long(clock: Clock) -> None:
    run(queue.report_served_turn(URL, "", 8, 6, is_paced=False))
    take(clock)
    assert take(clock).wait_seconds >= 6 / 2 / 4


def test_what_a_slow_origin_refuses_is_the_gap_in_use(clock: Clock) -> None:
    frontier.backlog()
    frontier.report(frontier.next_claimed(clock), replace(frontier.OK, latency_seconds=8))
    frontier.report(frontier.next_claimed(clock), replace(frontier.THROTTLED, latency_seconds=0.1))
    assert gap_ms() == pytest.approx(4000 * 1.6)


def test_an_origin_without_a_gap_rests_for_a_moment_when_it_refuses_and_for_as_long_as_it_asks(clock: Clock) -> None:
    run(queue.set_limits(frontier.HOST, DomainLimits(delay_seconds=0, in_flight=64)))
    frontier.backlog()
    first, second = frontier.next_claimed(clock), frontier.next_claimed(clock)
    frontier.report(first, frontier.THROTTLED)
    assert frontier.idle() == pytest.approx(0.1, abs=0.01)
    frontier.report(second, replace(frontier.THROTTLED, retry_after_seconds=20))
    assert frontier.idle() == pytest.approx(20, abs=0.01)


def test_an_idle_domain_earns_nothing(clock: Clock) -> None:
    for number in range(10):
        frontier.enqueue(frontier.job(str(number)))
        frontier.report(frontier.claimed())
        clock.pass_by(60)
    assert gap_ms() == 500
    frontier.backlog(size=2)
    frontier.claimed()
    assert frontier.idle() > 0.44  # nor does it save up unused turns


def test_a_refusal_makes_the_gap_longer_and_is_not_the_jobs_failure(clock: Clock) -> None:
    frontier.backlog(size=1)
    held = frontier.claimed()
    assert frontier.report(held, frontier.THROTTLED) == JobRequeued(0.8)
    assert gap_ms() == 800
    again = frontier.next_claimed(clock)
    assert (again.key, again.attempts) == (held.key, 0)


@pytest.mark.parametrize(("latency_seconds", "over_after_seconds"), [(0.1, 1.6), (3, 6)])
def test_a_refusal_of_an_earlier_request_or_soon_after_another_is_the_same_event(
    clock: Clock, latency_seconds: float, over_after_seconds: float
) -> None:
    refused = replace(frontier.THROTTLED, latency_seconds=latency_seconds)
    frontier.backlog()
    first, early = frontier.claimed(), frontier.next_claimed(clock)
    frontier.report(first, refused)
    late = frontier.next_claimed(clock)
    clock.pass_by(over_after_seconds - 1)
    frontier.report(late, refused)
    assert gap_ms() == 800
    later = frontier.next_claimed(clock)
    clock.pass_by(over_after_seconds)
    frontier.report(early, refused)
    assert gap_ms() == 800
    frontier.report(later, refused)
    assert gap_ms() > 800


def test_what_was_refused_is_held_to_be_the_mean_gap_of_late(clock: Clock) -> None:
    frontier.backlog()
    for _ in range(20):
        frontier.report(frontier.next_claimed(clock))
    shortest = gap_ms()
    frontier.report(frontier.next_claimed(clock), frontier.THROTTLED)
    assert 1.1 * shortest < float(frontier.record()["floor"]) <= 1.3001 * shortest
    assert gap_ms() == pytest.approx(1.6 * shortest)


@pytest.mark.parametrize(("retry_after_seconds", "margin"), [(0, 1.03), (2, 1.06)])
def test_after_a_refusal_the_gap_comes_back_to_just_short_of_what_was_refused(
    clock: Clock, retry_after_seconds: float, margin: float
) -> None:
    frontier.backlog()
    frontier.report(frontier.next_claimed(clock), replace(frontier.THROTTLED, retry_after_seconds=retry_after_seconds))
    gaps = [gap_ms()]
    for _ in range(40):
        frontier.report(frontier.next_claimed(clock))
        gaps.append(gap_ms())
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[22:] == [pytest.approx(500 * margin, rel=0.001)] * 19


def number(name: str, otherwise: float = 0) -> float:
    return float(frontier.record().get(name) or otherwise)


def allow_at_once(most: int) -> None:
    """A record of a domain that learnt so much, with the least gap."""
    frontier.learn(cap=most, delay=100, mean=100, next=1)


def refuse_beside(clock: Clock, others: int) -> list[ClaimedJob]:
    """Refuses a request beside so many others, which are still in flight."""
    held = [frontier.next_claimed(clock) for _ in range(others + 1)]
    frontier.report(held.pop(), frontier.THROTTLED)
    return held


def test_a_refusal_beside_others_allows_fewer_at_once_and_the_gap_stays(clock: Clock) -> None:
    frontier.backlog()
    allow_at_once(3)
    refuse_beside(clock, 2)
    assert (number("cap"), number("cap_refused"), gap_ms(), number("floor")) == (2, 3, 100, 0)


def test_a_refusal_with_nothing_else_in_flight_makes_the_gap_longer_and_the_number_stays(clock: Clock) -> None:
    frontier.backlog()
    allow_at_once(3)
    refuse_beside(clock, 0)
    assert (number("cap"), number("cap_refused"), gap_ms(), number("floor")) == (3, 0, 160, 100)


def test_another_request_counts_that_ended_while_the_refused_one_was_under_way(clock: Clock) -> None:
    frontier.backlog()
    allow_at_once(3)
    first, second = frontier.claimed(), frontier.next_claimed(clock)
    frontier.report(first)
    frontier.report(second, frontier.THROTTLED)
    assert (number("cap"), number("cap_refused")) == (1, 2)


def test_another_request_counts_that_began_before_the_refusal_came(clock: Clock) -> None:
    frontier.backlog()
    allow_at_once(3)
    first = frontier.claimed()
    frontier.next_claimed(clock)
    frontier.report(first, frontier.THROTTLED)
    assert (number("cap"), number("cap_refused")) == (1, 2)


def serve_at_once(clock: Clock, most: int, times: int) -> None:
    """So many served requests, each beside others."""
    others = [frontier.next_claimed(clock) for _ in range(most - 1)]
    for _ in range(times):
        frontier.report(frontier.next_claimed(clock))
    for held in others:
        frontier.report(held)
    clock.pass_by(1)


def test_a_refusal_of_no_more_at_once_than_were_served_makes_the_gap_longer(clock: Clock) -> None:
    frontier.backlog()
    allow_at_once(2)
    serve_at_once(clock, 2, times=3)
    cap = number("cap")
    refuse_beside(clock, 1)
    assert (number("cap"), number("cap_refused")) == (cap, 0)
    assert gap_ms() == pytest.approx(160)


def test_a_gap_made_longer_for_a_refused_number_is_taken_back(clock: Clock) -> None:
    frontier.backlog()
    allow_at_once(2)
    serve_at_once(clock, 2, times=3)
    for other in refuse_beside(clock, 1):
        frontier.report(other)
    clock.pass_by(5)
    refuse_beside(clock, 1)
    assert (number("cap"), number("cap_refused"), gap_ms(), number("floor")) == (1, 2, 100, 0)


def test_a_refused_number_is_tried_again_and_the_more_seldom_the_more_often_in_vain(clock: Clock) -> None:
    frontier.backlog(size=800)
    allow_at_once(2)
    tried_after = []
    for _ in range(3):
        for other in refuse_beside(clock, 1):
            frontier.report(other)
        served = 0
        while number("cap") < 2:
            held = frontier.next_claimed(clock)
            clock.pass_by(0.2)
            frontier.report(held)
            served += 1
        tried_after.append(served)
    assert tried_after == [32, 128, 512]


def test_a_refused_number_that_is_served_after_all_is_allowed(clock: Clock) -> None:
    frontier.backlog()
    allow_at_once(2)
    for other in refuse_beside(clock, 1):
        frontier.report(other)
    frontier.learn(cap=2)
    clock.pass_by(5)
    serve_at_once(clock, 2, times=3)
    assert (number("cap_refused"), number("cap_probes")) == (0, 0)
    assert number("cap") >= 2


def test_a_number_that_an_admin_has_set_is_not_what_is_refused(clock: Clock) -> None:
    run(queue.set_limits(frontier.HOST, DomainLimits(in_flight=2)))
    frontier.backlog()
    refuse_beside(clock, 1)
    assert (number("cap_refused"), gap_ms()) == (0, 800)


def test_what_an_earlier_version_learnt_and_claimed_is_read(clock: Clock) -> None:
    frontier.backlog()
    frontier.learn(delay=900, mean=900, floor=600, cap=2.4, cap_refused=3, phase=0)
    first = frontier.claimed()
    assert 0.8 < frontier.idle() < 1
    second = frontier.next_claimed(clock)
    for held in (first, second):
        stores.fast_client("state").hdel(f"fetch:{{0}}:job:{held.key}", "beside")
    frontier.report(second, frontier.THROTTLED)
    frontier.report(first)
    # The gap was learnt from refusals of either kind: it is that which was refused, and is tried from there.
    assert (number("cap"), number("cap_refused"), gap_ms(), number("floor")) == (1, 2, 600, 0)


def test_nothing_is_sent_before_retry_after_has_passed(clock: Clock) -> None:
    run(queue.set_limits(frontier.HOST, DomainLimits(in_flight=8)))
    frontier.backlog()
    first, second = frontier.claimed(), frontier.next_claimed(clock)
    frontier.report(first, replace(frontier.THROTTLED, retry_after_seconds=120))
    frontier.report(second)  # a success of before takes nothing back
    clock.pass_by(119.9)
    assert frontier.idle() == pytest.approx(0.1, abs=0.01)
    clock.pass_by(0.11)
    frontier.claimed()


def test_retry_after_is_obeyed_for_a_day_at_the_most(clock: Clock) -> None:
    frontier.backlog(size=1)
    frontier.report(frontier.claimed(), replace(frontier.THROTTLED, retry_after_seconds=1e9))
    assert (float(frontier.record()["block_until"]) - clock.ms) / 1000 == pytest.approx(86_400)


def test_a_retry_after_of_nothing_switches_no_back_off_off(clock: Clock) -> None:
    frontier.backlog(size=1)
    waits = []
    for _ in range(5):
        frontier.report(frontier.next_claimed(clock), replace(frontier.THROTTLED, retry_after_seconds=0))
        waits.append(frontier.idle())
        clock.pass_by(5)
    assert waits[0] >= 0.7
    assert waits == sorted(waits)
    assert waits[-1] > 30


def test_a_domain_that_only_refuses_fails_its_jobs_clearly_in_the_end(clock: Clock, settings: Settings) -> None:
    settings.FETCH_STALL_SECONDS = 3600
    frontier.backlog(size=2)
    began = clock.seconds
    while isinstance(found := frontier.claim(), ClaimedJob | NothingDue):
        if isinstance(found, ClaimedJob):
            frontier.report(found, frontier.THROTTLED)
        else:
            clock.pass_by(found.wait_seconds)
    assert found.why == "stalled"
    assert clock.seconds - began == pytest.approx(3600, abs=2)
    assert frontier.dead_job().job.key != found.job.key


def test_jobs_do_not_outwait_a_long_retry_after(clock: Clock, servers: RedisServers, settings: Settings) -> None:
    settings.FETCH_STALL_SECONDS = 3600
    frontier.backlog(size=40)
    frontier.report(frontier.claimed(), replace(frontier.THROTTLED, retry_after_seconds=80_000))
    clock.pass_by(3599)
    frontier.idle()
    clock.pass_by(1.1)
    for number in range(40):
        found = frontier.dead_job()
        assert found.why == "stalled"
        if number == 0:
            assert servers.state.client.zcard("fetch:{0}:doomed") == 15  # a few at a time: no call takes long
        run(queue.finish_job(found.job))
    frontier.enqueue(frontier.job("later"))
    assert frontier.idle() > 3
    clock.pass_by(3601)
    assert frontier.dead_job().job.url.endswith("/later")


def test_what_an_admin_sets_wins_at_once(clock: Clock) -> None:
    frontier.backlog()
    frontier.report(frontier.claimed(), frontier.THROTTLED)
    run(queue.unblock_domain(frontier.HOST))
    run(queue.set_limits(frontier.HOST, DomainLimits(delay_seconds=0.1, in_flight=3)))
    for _ in range(3):
        frontier.next_claimed(clock)
        clock.pass_by(0.12)
    frontier.idle()
    assert gap_ms() == 800  # the learnt rate is kept for later
    run(queue.set_limits(frontier.HOST, DomainLimits(in_flight=4, paused=True)))
    frontier.idle()
    run(queue.set_limits(frontier.HOST, DomainLimits(in_flight=4)))
    frontier.claimed()


def test_of_refusals_the_latest_hundred_are_kept(clock: Clock) -> None:
    for number in range(110):
        frontier.enqueue(frontier.job(f"{number}/tile"))
        held = frontier.claimed()
        frontier.report(held, frontier.THROTTLED)
        run(queue.withdraw_waiter(held.key))
        run(queue.unblock_domain(frontier.HOST))
    found = run(queue.read_refusals("example.com"))
    assert len(found) == 100
    assert found[0].path == f"{frontier.HOST}/109"


def test_refusals_by_two_hosts_of_one_domain_are_kept_as_evidence(clock: Clock) -> None:
    for host in ("a.example.co.uk", "b.example.co.uk"):
        frontier.enqueue(frontier.job("tiles/1", host))
        frontier.report(frontier.claimed(), frontier.THROTTLED)
    found = run(queue.read_refusals("example.co.uk"))
    assert {(one.host, one.path, one.scope) for one in found} == {
        (f"{name}.example.co.uk", f"{name}.example.co.uk/tiles", f"{name}.example.co.uk") for name in "ab"
    }
    assert found[0].at == pytest.approx(clock.unix, abs=1)


def fail_until_it_opens(clock: Clock) -> None:
    for _ in range(5):
        frontier.report(frontier.next_claimed(clock), frontier.FAILED)


def test_a_host_that_keeps_failing_is_left_alone_for_longer_and_longer(clock: Clock) -> None:
    frontier.backlog()
    fail_until_it_opens(clock)
    rests = []
    for _ in range(4):
        rests.append(float(frontier.record()["circuit_until"]) / 1000 - clock.unix)
        clock.pass_by(rests[-1] - 0.1)
        frontier.idle()
        frontier.report(frontier.next_claimed(clock), frontier.FAILED)
    assert 24 <= rests[0] <= 36
    assert all(0.6 * 2 <= later / earlier <= 1.5 * 2 for earlier, later in pairwise(rests))


def test_an_open_circuit_tries_one_request_at_a_time(clock: Clock) -> None:
    run(queue.set_limits(frontier.HOST, DomainLimits(in_flight=4)))
    frontier.backlog()
    fail_until_it_opens(clock)
    trial = frontier.next_claimed(clock)
    clock.pass_by(10)
    assert isinstance(frontier.claim(), NothingDue)
    frontier.report(trial, frontier.OK)
    frontier.claimed()
    clock.pass_by(1)
    frontier.claimed()


def test_failures_of_requests_from_before_the_circuit_opened_keep_it_open_no_longer(clock: Clock) -> None:
    run(queue.set_limits(frontier.HOST, DomainLimits(in_flight=8)))
    frontier.backlog()
    held = [frontier.next_claimed(clock) for _ in range(8)]
    for one in held:
        frontier.report(one, frontier.FAILED)
    assert frontier.record()["opens"] == "1"


@pytest.mark.parametrize("answer", [frontier.OK, frontier.REFUSED])
def test_any_sound_answer_ends_a_row_of_failures(clock: Clock, answer: RequestReport) -> None:
    frontier.backlog()
    for _ in range(4):
        frontier.report(frontier.next_claimed(clock), frontier.FAILED)
    frontier.report(frontier.next_claimed(clock), answer)
    fail_until_it_opens(clock)
    assert frontier.record()["opens"] == "1"


def test_retries_of_a_domain_have_a_budget_that_requests_earn_and_do_not_save_up(clock: Clock) -> None:
    frontier.backlog(size=80)
    for _ in range(30):
        frontier.report(frontier.next_claimed(clock))
    found = [frontier.report(frontier.next_claimed(clock), frontier.REFUSED, RetryJob(3600)) for _ in range(20)]
    assert found.index(NoRetryBudget()) in {10, 11}  # ten, and the one that ten requests earn
    assert 10 <= found.count(JobRequeued(3600)) <= 12
    assert set(found[12:]) == {NoRetryBudget()}
    for _ in range(10):
        frontier.report(frontier.next_claimed(clock))
    assert frontier.report(frontier.next_claimed(clock), frontier.REFUSED, RetryJob(3600)) == JobRequeued(3600)


def test_what_is_nobodys_failure_is_no_attempt_and_costs_no_retry(clock: Clock) -> None:
    frontier.enqueue(frontier.job())
    for _ in range(15):
        assert frontier.report(
            frontier.next_claimed(clock), frontier.REFUSED, RetryJob(5, counts=False)
        ) == JobRequeued(5)
    assert frontier.next_claimed(clock).attempts == 0
    assert "budget" not in frontier.record()


SLOW, QUICK = "slow.example.com", "quick.example.com"


def request(clock: Clock, host: str, seconds: float, number: int = 1) -> None:
    """Sends so many requests of that duration to the host, with no other jobs."""
    for name in range(number):
        frontier.enqueue(frontier.job(f"taken-{name}", host))
        held = frontier.next_claimed(clock)
        clock.pass_by(seconds)
        frontier.report(held)


def test_the_domain_with_the_longest_chain_by_its_durations_comes_first(clock: Clock) -> None:
    request(clock, SLOW, 8, 5)
    request(clock, QUICK, 0.1, 5)
    frontier.enqueue(
        *(frontier.job(str(number), QUICK) for number in range(5)),
        *(frontier.job(str(number), SLOW) for number in range(2)),
    )
    clock.pass_by(10)
    assert frontier.claimed().host == SLOW  # two of them take longer than five of the other


def test_what_is_said_of_a_job_holds_instead(clock: Clock) -> None:
    request(clock, SLOW, 8, 5)
    frontier.enqueue(frontier.job("1", SLOW, expected_seconds=0.5))
    assert float(frontier.record(SLOW)["sum_fast"]) == 500


def test_a_host_that_is_known_to_be_slow_is_asked_in_the_slow_lane_until_it_is_quick(clock: Clock) -> None:
    request(clock, frontier.HOST, 30, 3)
    frontier.enqueue(frontier.job("1"))
    clock.pass_by(1)
    frontier.idle("fast")
    assert frontier.claimed("slow").lane == "slow"
    clock.pass_by(1)
    request(clock, frontier.HOST, 0.5, 4)
    frontier.enqueue(frontier.job("2"))
    clock.pass_by(1)
    assert frontier.claimed("fast").url.endswith("/2")


@pytest.mark.parametrize("outcome", [frontier.FAILED, frontier.UNREACHABLE])
def test_who_swallows_requests_is_slow(clock: Clock, outcome: object) -> None:
    for name in range(4):
        frontier.enqueue(frontier.job(str(name)))
        held = frontier.next_claimed(clock)
        clock.pass_by(30)
        frontier.report(held, outcome)  # type: ignore[arg-type]
    frontier.enqueue(frontier.job("last"))
    assert float(frontier.record()["slow_3"]) == 1


def test_a_refusal_says_nothing_of_durations(clock: Clock) -> None:
    frontier.enqueue(frontier.job())
    stores.run_steps(queue.set_limits(frontier.HOST, DomainLimits(delay_seconds=0.1)))
    frontier.report(frontier.claimed(), frontier.THROTTLED)
    assert "took" not in frontier.record()


def take(clock: Clock) -> TurnGranted:
    """The next turn, when it has come."""
    found = run(queue.take_turn(URL, "", 10))
    assert isinstance(found, TurnGranted)
    clock.pass_by(found.wait_seconds)
    return found


def test_turns_keep_the_gap_among_themselves_and_to_jobs(clock: Clock) -> None:
    assert take(clock).wait_seconds == 0
    assert 0.4 < take(clock).wait_seconds < 0.6
    frontier.enqueue(frontier.job())
    assert frontier.idle() > 0.4
    run(queue.block_domain(frontier.HOST, 60))
    assert isinstance(run(queue.take_turn(URL, "", 10)), TurnTooFar)


@pytest.mark.parametrize(("pause_seconds", "gap"), [(0, 500 * 0.95**9), (60, 500)])
def test_a_host_that_redirects_often_lead_to_learns_how_fast_it_may_be_asked(
    clock: Clock, pause_seconds: float, gap: float
) -> None:
    for _ in range(10):
        clock.pass_by(pause_seconds)
        turn = take(clock)
        clock.pass_by(0.1)
        run(queue.report_served_turn(URL, "", 0.1, 0.1, is_paced=turn.is_paced))
    assert gap_ms() == pytest.approx(gap)
    assert int(frontier.record()["ok"]) == 10


def test_what_was_sent_before_a_refusal_speeds_nothing_up(clock: Clock) -> None:
    take(clock)
    turn = take(clock)
    run(queue.report_refused_turn(URL, "", 0.1, 0))
    refused = frontier.record()["delay"]
    clock.pass_by(0.1)
    run(queue.report_served_turn(URL, "", 0.2, 0.2, is_paced=turn.is_paced))
    assert frontier.record()["delay"] == refused
