"""Explanations of a domain, from records as the frontier keeps them, and proposals for the scope of limits."""

from dataclasses import replace
from typing import cast

import pytest

from resources.fetch.frontier import explain, queue
from resources.fetch.frontier.jobs import ClaimedJob, DomainLimits, RateVerdict, RequestReport, Surroundings
from resources.fetch.frontier.politeness import Politeness
from retry import stores
from tests.support import frontier
from tests.support.frontier_clock import Clock

run = stores.run_steps

AWAY = RequestReport(RateVerdict.AWAY)


HERE = Surroundings(fetchers=2, machines=1)


def told(clock: Clock, around: Surroundings = HERE) -> list[str]:
    _, fields = run(queue.read_domain_record(frontier.HOST))
    return explain.explain_domain(explain.parse_domain(frontier.HOST, clock.ms, fields, Politeness()), around)


def test_what_the_next_request_waits_for_is_told(clock: Clock) -> None:
    assert told(clock)[0] == "Nothing is queued."
    frontier.backlog()
    assert told(clock)[0] == "The next request is due, and waits for a free fetcher slot."
    frontier.claimed()
    assert told(clock)[0].startswith("Requests are 0.5 s apart: the next request is sent in 0.")
    frontier.next_claimed(clock)
    assert told(clock)[0] == "2 of 2 requests in flight: the next request is sent when one of them ends."


def test_a_host_that_fails_is_left_alone(clock: Clock) -> None:
    frontier.backlog()
    for _ in range(5):
        frontier.report(frontier.next_claimed(clock), frontier.FAILED)
    lines = told(clock)
    assert lines[0].startswith("Circuit open after 5 failures in a row: the next request is sent in ")
    assert "Failed 5 times in a row: one request at a time tests it." in lines
    assert "So far: 0 succeeded, 0 refused, 5 failed." in lines


ROBOTS_GAP = "robots.txt asks for 10 s between requests: "


@pytest.mark.parametrize(
    ("obeys", "set_seconds", "first", "background"),
    [
        pytest.param(True, None, ROBOTS_GAP, "requests that obey it keep this gap.", id="it holds"),
        pytest.param(
            False, None, "Requests are 0.5 s apart: ", "requests that obey it keep this gap.", id="for others"
        ),
        pytest.param(True, 2, "Requests are 2 s apart: ", "the gap set by an admin applies instead.", id="by an admin"),
    ],
)
def test_the_gap_that_robots_asks_for_is_told_and_so_is_the_one_that_holds(
    clock: Clock, obeys: bool, set_seconds: float | None, first: str, background: str
) -> None:
    run(queue.set_crawl_delay(frontier.HOST, 10, 86_400))
    run(queue.set_limits(frontier.HOST, DomainLimits(delay_seconds=set_seconds)))
    frontier.enqueue(*(frontier.job(name, obeys_robots=obeys) for name in "12"))
    frontier.report(frontier.claimed())
    clock.pass_by(0.1)
    lines = told(clock)
    assert lines[0].startswith(f"{first}the next request is sent in ")
    assert f"{ROBOTS_GAP}{background}" in lines


def test_bytes_are_told(clock: Clock) -> None:
    run(queue.set_limits(frontier.HOST, DomainLimits(bytes_per_second=1000)))
    frontier.backlog()
    frontier.report(frontier.claimed(), replace(frontier.OK, bytes=10_000))
    assert frontier.idle() == pytest.approx(9, abs=0.1)
    assert told(clock)[0].startswith("The limit of bytes per second is reached: the next request is sent in 9.0 s.")


def test_a_domain_is_read_with_the_politeness_of_the_settings_where_nothing_was_learnt() -> None:
    domain = explain.parse_domain(frontier.HOST, 0, {}, Politeness(delay_seconds=3, in_flight=3))
    assert isinstance(domain, explain.DomainState)
    assert (domain.gap_seconds, domain.most_in_flight, domain.last_cut) == (3, 3, None)


def test_what_was_learnt_is_told_within_the_ceilings() -> None:
    politeness = Politeness(least_delay_seconds=0.1, most_in_flight=4)
    domain = explain.parse_domain(frontier.HOST, 0, {"delay": "20", "cap": "8.5"}, politeness)
    assert (domain.gap_seconds, domain.most_in_flight) == (0.1, 4)


def test_a_gap_that_comes_of_slow_answers_is_told(clock: Clock) -> None:
    frontier.backlog()
    frontier.report(frontier.claimed(), replace(frontier.OK, latency_seconds=6))
    lines = told(clock)
    assert "Requests are 0.75 s apart." in lines
    assert "Its answers take 6 s: a share of that makes the gap." in lines


def test_a_refused_number_in_flight_is_told(clock: Clock) -> None:
    frontier.backlog()
    frontier.claimed()
    frontier.report(frontier.next_claimed(clock), frontier.THROTTLED)
    lines = told(clock)
    assert "2 requests at once were refused: fewer are in flight." in lines
    assert "49 requests waiting, 1 of 1 in flight." in lines


@pytest.mark.parametrize(
    ("fields", "in_flight", "gap_seconds"),
    [
        pytest.param({}, 4, 0.1, id="the ceilings where nothing was refused"),
        pytest.param({"delay": "900", "cap": "1.2"}, 4, 0.1, id="nor where it was only learnt slowly"),
        pytest.param({"cap": "2.3", "cap_refused": "3"}, 2, 0.1, id="fewer than were refused"),
        pytest.param({"cap": "3", "cap_refused": "3"}, 3, 0.1, id="and those that are tried again"),
        pytest.param({"delay": "520", "floor": "500", "cut_beside": "0"}, 4, 0.5, id="a gap refused alone"),
        pytest.param({"delay": "520", "floor": "500", "cut_beside": "2"}, 4, 0.1, id="not one refused beside others"),
        pytest.param({"delay": "520", "floor": "500"}, 4, 0.1, id="nor one of an earlier version"),
        pytest.param({"set_delay": "2000", "set_cap": "8", "cap_refused": "2"}, 8, 2, id="an admin's limits"),
        pytest.param({"set_delay": "0"}, 4, 0, id="also without a gap"),
    ],
)
def test_a_domain_allows_what_it_has_not_refused(fields: dict[str, str], in_flight: int, gap_seconds: float) -> None:
    assert explain.parse_allowance(fields, Politeness()) == explain.DomainAllowance(in_flight, gap_seconds)


NOBODY = "No fetcher runs: nothing is fetched from any domain. Start `fetch`."


def test_without_a_fetcher_that_is_said_first_where_it_is_what_is_missing(clock: Clock) -> None:
    assert told(clock, Surroundings(0, 0))[-1] == NOBODY
    frontier.backlog()
    assert told(clock, Surroundings(0, 0))[0] == NOBODY
    run(queue.set_limits(frontier.HOST, DomainLimits(delay_seconds=3, paused=True)))
    lines = told(clock, Surroundings(0, 0))
    assert lines[0] == "Paused by an admin: nothing is fetched until it is resumed."
    assert "Requests are 3 s apart, set by an admin." in lines
    assert lines[-1] == NOBODY


def test_the_owner_of_a_domain_is_told(clock: Clock) -> None:
    frontier.backlog()
    assert run(queue.read_surroundings("", frontier.HOST)).owner == ""
    run(queue.sign_in_fetcher("here:1"))
    around = run(queue.read_surroundings("", frontier.HOST))
    assert around == Surroundings(1, 1, owner="here:1")
    assert told(clock, around)[-1] == "Fetcher 1 of here sends its requests."


def test_a_network_that_is_away_is_told(clock: Clock) -> None:
    for worker in ("here:1", "here:2", "there:1"):
        run(queue.sign_in_fetcher(worker))
    assert run(queue.read_surroundings("")) == Surroundings(3, 2)
    frontier.backlog()
    for name in "bcdefgh":  # some of them are here's
        frontier.enqueue(frontier.job(host=f"{name}.example.com"))
    frontier.report(cast(ClaimedJob, frontier.claim(worker="here:1", machine="here")), AWAY, machine="here")
    found = run(queue.read_surroundings(""))
    assert (found, run(queue.read_surroundings("other"))) == (Surroundings(3, 2, ("here",)), Surroundings(3, 2))
    assert told(clock, found)[0] == "The network of here is down: other fetchers take over."
    assert told(clock, replace(found, machines=1))[0].startswith("The network is down (here): known servers")
    clock.pass_by(3600)
    assert run(queue.read_surroundings("")) == Surroundings(0, 0)


def refusal(at: float, host: str = "a.example.com", path: str = "x", scope: str = "") -> explain.RefusedRequest:
    return explain.RefusedRequest(at, host, f"{host}/{path}", scope or host)


A, B = "a.example.com", "b.example.com"
AT_ONCE = explain.ScopeProposal("example.com", "registrable", f"{A}, {B} refused requests at the same time.")
ALONE = [refusal(60.0 * number) for number in range(10)]


@pytest.mark.parametrize(
    ("refusals", "proposal"),
    [
        pytest.param([], None, id="no evidence"),
        pytest.param([refusal(1), refusal(2, B)], None, id="at once only once"),
        pytest.param([refusal(at, host) for at in (1, 100) for host in (A, B)], AT_ONCE, id="at once, twice"),
        pytest.param([refusal(60.0 * number, (A, B)[number % 2]) for number in range(20)], None, id="not at once"),
        pytest.param([refusal(at, host, scope="example.com") for at in (1, 100) for host in (A, B)], None, id="of one"),
        pytest.param(
            [replace(one, scope="example.com") for one in ALONE],
            explain.ScopeProposal(A, "host", f"Only the host {A} refuses requests."),
            id="one host alone",
        ),
        pytest.param(ALONE, explain.ScopeProposal(A, "path", f"Only {A}/x refuses requests."), id="one path alone"),
        pytest.param([*ALONE, refusal(999, path="y")], None, id="two paths"),
        pytest.param(ALONE[:9], None, id="one path, too seldom"),
    ],
)
def test_another_scope_is_proposed_where_refusals_show_one(
    refusals: list[explain.RefusedRequest], proposal: explain.ScopeProposal | None
) -> None:
    assert explain.propose_scope("example.com", refusals) == proposal
