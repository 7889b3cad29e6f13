"""Turns at domains that redirects lead to."""

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import TurnGranted, TurnTooFar
from retry import stores
from tests.support.frontier import HOST, enqueue, idle, job, record
from tests.support.frontier_clock import Clock

run = stores.run_steps
URL = f"https://{HOST}/led/here"


def take(clock: Clock) -> TurnGranted:
    """The next turn, when it has come."""
    found = run(queue.take_turn(URL, "", 10))
    assert isinstance(found, TurnGranted)
    clock.pass_by(found.wait_seconds)
    return found


def test_turns_keep_the_gap_among_themselves_and_to_jobs(clock: Clock) -> None:
    assert take(clock).wait_seconds == 0
    assert 0.4 < take(clock).wait_seconds < 0.6
    enqueue(job())
    assert idle() > 0.4
    run(queue.block_domain(HOST, 60))
    assert isinstance(run(queue.take_turn(URL, "", 10)), TurnTooFar)


def test_a_host_that_only_redirects_lead_to_learns_how_fast_it_may_be_asked(clock: Clock) -> None:
    for _ in range(10):
        turn = take(clock)
        clock.pass_by(0.1)
        run(queue.report_served_turn(URL, "", 0.1, is_paced=turn.is_paced))
    assert 400 < float(record()["delay"]) < 450
    assert int(record()["ok"]) == 10


def test_nor_does_one_earn_anything_that_is_seldom_led_to(clock: Clock) -> None:
    for _ in range(10):
        clock.pass_by(60)
        turn = take(clock)
        run(queue.report_served_turn(URL, "", 0.1, is_paced=turn.is_paced))
    assert "delay" not in record()


def test_what_was_sent_before_a_refusal_speeds_nothing_up(clock: Clock) -> None:
    take(clock)
    turn = take(clock)
    run(queue.report_refused_turn(URL, "", 0.1, 0))
    refused = record()["delay"]
    clock.pass_by(0.1)
    run(queue.report_served_turn(URL, "", 0.2, is_paced=turn.is_paced))
    assert record()["delay"] == refused
