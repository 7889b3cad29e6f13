"""What people are told of a domain: from records as the frontier keeps them."""

from dataclasses import replace

import pytest

from resources.fetching.queues import frontier
from resources.fetching.queues.domains import Domain, read
from resources.fetching.queues.explaining import duration, explain, in_a_word
from resources.fetching.queues.frontier import PutBack
from resources.fetching.queues.jobs import Around, Limits, Report, Verdict
from resources.fetching.queues.politeness import Politeness
from retry import connections
from tests.resources.fetching.asking import (
    FAILED,
    HOST,
    OK,
    THROTTLED,
    backlog,
    claimed,
    enqueue,
    job,
    next_claimed,
    report,
)
from tests.resources.fetching.clock import Clock

run = connections.run

AWAY = Report(Verdict.AWAY)


HERE = Around(fetchers=2, machines=1)


def told(clock: Clock, around: Around = HERE) -> list[str]:
    _, fields = run(frontier.look(HOST))
    return explain(read(HOST, clock.ms, fields, Politeness()), around)


def test_of_an_unknown_domain_nothing_waits(clock: Clock) -> None:
    assert told(clock)[0] == "Nothing waits to be fetched."


def test_the_gap_between_requests_is_told(clock: Clock) -> None:
    backlog()
    report(claimed())
    first = told(clock)[0]
    assert first.startswith("Requests are 0.5 s apart: the next request is sent in 0.")


def test_a_full_domain_waits_for_one_of_its_requests(clock: Clock) -> None:
    backlog()
    claimed(), next_claimed(clock)
    expected = "2 in flight, and no more than 2 may be: the next request is sent when one of them ends."
    assert told(clock)[0] == expected


def test_what_is_due_waits_for_a_fetcher(clock: Clock) -> None:
    backlog()
    assert told(clock)[0] == "The next request is due: it is sent as soon as a fetcher has room."


def test_a_block_has_its_cause_and_its_end(clock: Clock) -> None:
    backlog()
    report(claimed(), replace(THROTTLED, retry_after_seconds=5400))
    lines = told(clock)
    assert lines[0] == "Blocked. The site asked for it (Retry-After): the next request is sent in 1 h 30 min."
    assert "Slowed down 0.0 s ago, when requests 0.5 s apart were refused." in lines
    run(frontier.block(HOST, 86_400 * 2))
    assert told(clock)[0] == "Blocked. An admin has blocked it: the next request is sent in 2 d."


def test_a_host_that_fails_is_left_alone(clock: Clock) -> None:
    backlog()
    for _ in range(5):
        report(next_claimed(clock), FAILED)
    lines = told(clock)
    assert lines[0].startswith("Left alone after 5 failures in a row: the next request is sent in ")
    assert "It has failed 5 times in a row: one request at a time tries it." in lines
    assert "So far: 0 succeeded, 0 refused, 5 failed." in lines


def test_a_pause_goes_before_all_else(clock: Clock) -> None:
    backlog()
    run(frontier.set_limits(HOST, Limits(delay_seconds=3, paused=True)))
    lines = told(clock)
    assert lines[0] == "Paused by an admin: nothing is fetched until that is taken back."
    assert "Requests are 3 s apart, as an admin has set it." in lines


def test_a_domain_whose_robots_is_asked_for_waits_for_it(clock: Clock) -> None:
    enqueue(job("1", obeys_robots=True))
    held = claimed()
    expected = "Its robots.txt is asked for: nothing else is sent until that has come."
    assert told(clock)[0] == expected
    backlog()
    assert told(clock)[0] == expected
    run(frontier.set_crawl_delay(HOST, 0, 86_400))
    report(held, OK, PutBack())
    assert expected not in told(clock)


def test_the_gap_that_robots_asks_for_is_told(clock: Clock) -> None:
    run(frontier.set_crawl_delay(HOST, 10, 86_400))
    enqueue(*(job(name, obeys_robots=True) for name in "12"))
    report(claimed())
    clock.pass_by(5)
    lines = told(clock)
    assert lines[0].startswith("Its robots.txt asks for 10 s between requests: the next request is sent in ")
    assert "Its robots.txt asks for 10 s between requests: requests that obey it leave as much." in lines


def test_a_request_that_need_not_obey_robots_leaves_the_usual_gap(clock: Clock) -> None:
    run(frontier.set_crawl_delay(HOST, 10, 86_400))
    backlog()
    report(claimed())
    assert told(clock)[0].startswith("Requests are 0.5 s apart: ")


def test_an_admins_gap_is_told_to_hold_instead_of_that_of_robots(clock: Clock) -> None:
    run(frontier.set_crawl_delay(HOST, 10, 86_400))
    run(frontier.set_limits(HOST, Limits(delay_seconds=2)))
    enqueue(*(job(name, obeys_robots=True) for name in "12"))
    report(claimed())
    lines = told(clock)
    assert lines[0].startswith("Requests are 2 s apart: ")
    assert "Its robots.txt asks for 10 s between requests: what an admin has set holds instead." in lines


def test_a_word_tells_that_robots_is_asked_for(clock: Clock) -> None:
    enqueue(job("1", obeys_robots=True))
    claimed()
    _, fields = run(frontier.look(HOST))
    assert in_a_word(read(HOST, clock.ms, fields, Politeness())) == "asking for robots.txt"


def test_bytes_are_told(clock: Clock) -> None:
    run(frontier.set_limits(HOST, Limits(bytes_per_second=100)))
    backlog()
    report(claimed(), replace(OK, bytes=7000))
    assert told(clock)[0].startswith("It has sent as many bytes as it may for now: the next request is sent in 1 min")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (0.34, "0.3 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (7260, "2 h 1 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations_have_two_units_at_the_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_domain_is_read_with_the_politeness_of_the_settings_where_nothing_was_learnt() -> None:
    domain = read(HOST, 0, {}, Politeness(delay=3, in_flight=5))
    assert isinstance(domain, Domain)
    assert (domain.gap_seconds, domain.most_in_flight, domain.last_cut) == (3, 5, None)


NOBODY = "No fetcher runs: nothing is fetched, from no domain, until one does."


def test_without_a_fetcher_that_is_said_first_where_it_is_what_is_missing(clock: Clock) -> None:
    assert told(clock, Around(0, 0))[0] == "Nothing waits to be fetched."
    assert told(clock, Around(0, 0))[-1] == NOBODY
    backlog()
    assert told(clock, Around(0, 0))[0] == NOBODY
    run(frontier.set_limits(HOST, Limits(paused=True)))
    lines = told(clock, Around(0, 0))
    assert lines[0].startswith("Paused by an admin")
    assert lines[-1] == NOBODY


def test_a_network_that_is_away_is_told(clock: Clock) -> None:
    for worker in ("here:1", "here:2", "there:1"):
        run(frontier.sign_in(worker))
    assert run(frontier.around("")) == Around(3, 2)
    backlog()
    report(claimed(machine="here"), AWAY, machine="here")
    found = run(frontier.around(""))
    assert (found, run(frontier.around("other"))) == (Around(3, 2, ("here",)), Around(3, 2))
    assert told(clock, found)[0] == "The network of here is away: others fetch meanwhile."
    assert told(clock, replace(found, machines=1))[0].startswith("The network is away (here): what answered")
    clock.pass_by(3600)
    assert run(frontier.around("")) == Around(0, 0)
