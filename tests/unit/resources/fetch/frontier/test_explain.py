"""Explanations of a domain, from records as the frontier keeps them, and proposals for the scope of limits."""

from dataclasses import replace

from resources.fetch.frontier import queue
from resources.fetch.frontier.explain import (
    DomainState,
    RefusedRequest,
    ScopeProposal,
    explain_domain,
    parse_domain,
    propose_scope,
    summarise_domain,
)
from resources.fetch.frontier.jobs import DomainLimits, RateVerdict, RequestReport, Surroundings
from resources.fetch.frontier.politeness import Politeness
from resources.fetch.frontier.queue import PutJobBack
from retry import stores
from tests.support.frontier import FAILED, HOST, OK, THROTTLED, backlog, claimed, enqueue, job, next_claimed, report
from tests.support.frontier_clock import Clock

run = stores.run_steps

AWAY = RequestReport(RateVerdict.AWAY)


HERE = Surroundings(fetchers=2, machines=1)


def told(clock: Clock, around: Surroundings = HERE) -> list[str]:
    _, fields = run(queue.read_domain_record(HOST))
    return explain_domain(parse_domain(HOST, clock.ms, fields, Politeness()), around)


def test_of_an_unknown_domain_nothing_waits(clock: Clock) -> None:
    assert told(clock)[0] == "Nothing is queued."


def test_the_gap_between_requests_is_told(clock: Clock) -> None:
    backlog()
    report(claimed())
    first = told(clock)[0]
    assert first.startswith("Requests are 0.5 s apart: the next request is sent in 0.")


def test_a_full_domain_waits_for_one_of_its_requests(clock: Clock) -> None:
    backlog()
    claimed(), next_claimed(clock)
    expected = "2 of 2 requests in flight: the next request is sent when one of them ends."
    assert told(clock)[0] == expected


def test_what_is_due_waits_for_a_fetcher(clock: Clock) -> None:
    backlog()
    assert told(clock)[0] == "The next request is due, and waits for a free fetcher slot."


def test_a_block_has_its_cause_and_its_end(clock: Clock) -> None:
    backlog()
    report(claimed(), replace(THROTTLED, retry_after_seconds=5400))
    lines = told(clock)
    assert lines[0] == "Blocked. The server asked for it (Retry-After): the next request is sent in 1 h 30 min."
    assert "Slowed down 0.0 s ago: requests 0.5 s apart were refused." in lines
    run(queue.block_domain(HOST, 86_400 * 2))
    assert told(clock)[0] == "Blocked. An admin blocked it: the next request is sent in 2 d."


def test_a_host_that_fails_is_left_alone(clock: Clock) -> None:
    backlog()
    for _ in range(5):
        report(next_claimed(clock), FAILED)
    lines = told(clock)
    assert lines[0].startswith("Circuit open after 5 failures in a row: the next request is sent in ")
    assert "Failed 5 times in a row: one request at a time tests it." in lines
    assert "So far: 0 succeeded, 0 refused, 5 failed." in lines


def test_a_pause_goes_before_all_else(clock: Clock) -> None:
    backlog()
    run(queue.set_limits(HOST, DomainLimits(delay_seconds=3, paused=True)))
    lines = told(clock)
    assert lines[0] == "Paused by an admin: nothing is fetched until it is resumed."
    assert "Requests are 3 s apart, set by an admin." in lines


def test_a_domain_whose_robots_is_asked_for_waits_for_it(clock: Clock) -> None:
    enqueue(job("1", obeys_robots=True))
    held = claimed()
    expected = "robots.txt is being fetched: other requests wait for it."
    assert told(clock)[0] == expected
    _, fields = run(queue.read_domain_record(HOST))
    assert summarise_domain(parse_domain(HOST, clock.ms, fields, Politeness())) == "fetching robots.txt"
    backlog()
    assert told(clock)[0] == expected
    run(queue.set_crawl_delay(HOST, 0, 86_400))
    report(held, OK, PutJobBack())
    assert expected not in told(clock)


def test_the_gap_that_robots_asks_for_is_told(clock: Clock) -> None:
    run(queue.set_crawl_delay(HOST, 10, 86_400))
    enqueue(*(job(name, obeys_robots=True) for name in "12"))
    report(claimed())
    clock.pass_by(5)
    lines = told(clock)
    assert lines[0].startswith("robots.txt asks for 10 s between requests: the next request is sent in ")
    assert "robots.txt asks for 10 s between requests: requests that obey it keep this gap." in lines


def test_a_request_that_need_not_obey_robots_leaves_the_usual_gap(clock: Clock) -> None:
    run(queue.set_crawl_delay(HOST, 10, 86_400))
    backlog()
    report(claimed())
    assert told(clock)[0].startswith("Requests are 0.5 s apart: ")


def test_an_admins_gap_is_told_to_hold_instead_of_that_of_robots(clock: Clock) -> None:
    run(queue.set_crawl_delay(HOST, 10, 86_400))
    run(queue.set_limits(HOST, DomainLimits(delay_seconds=2)))
    enqueue(*(job(name, obeys_robots=True) for name in "12"))
    report(claimed())
    lines = told(clock)
    assert lines[0].startswith("Requests are 2 s apart: ")
    assert "robots.txt asks for 10 s between requests: the gap set by an admin applies instead." in lines


def test_bytes_are_told(clock: Clock) -> None:
    run(queue.set_limits(HOST, DomainLimits(bytes_per_second=100)))
    backlog()
    report(claimed(), replace(OK, bytes=7000))
    assert told(clock)[0].startswith("The limit of bytes per second is reached: the next request is sent in 1 min")


def test_a_domain_is_read_with_the_politeness_of_the_settings_where_nothing_was_learnt() -> None:
    domain = parse_domain(HOST, 0, {}, Politeness(delay_seconds=3, in_flight=5))
    assert isinstance(domain, DomainState)
    assert (domain.gap_seconds, domain.most_in_flight, domain.last_cut) == (3, 5, None)


NOBODY = "No fetcher runs: nothing is fetched from any domain. Start `fetch`."


def test_without_a_fetcher_that_is_said_first_where_it_is_what_is_missing(clock: Clock) -> None:
    assert told(clock, Surroundings(0, 0))[0] == "Nothing is queued."
    assert told(clock, Surroundings(0, 0))[-1] == NOBODY
    backlog()
    assert told(clock, Surroundings(0, 0))[0] == NOBODY
    run(queue.set_limits(HOST, DomainLimits(paused=True)))
    lines = told(clock, Surroundings(0, 0))
    assert lines[0].startswith("Paused by an admin")
    assert lines[-1] == NOBODY


def test_a_network_that_is_away_is_told(clock: Clock) -> None:
    for worker in ("here:1", "here:2", "there:1"):
        run(queue.sign_in_fetcher(worker))
    assert run(queue.read_surroundings("")) == Surroundings(3, 2)
    backlog()
    report(claimed(machine="here"), AWAY, machine="here")
    found = run(queue.read_surroundings(""))
    assert (found, run(queue.read_surroundings("other"))) == (Surroundings(3, 2, ("here",)), Surroundings(3, 2))
    assert told(clock, found)[0] == "The network of here is down: other fetchers take over."
    assert told(clock, replace(found, machines=1))[0].startswith("The network is down (here): known servers")
    clock.pass_by(3600)
    assert run(queue.read_surroundings("")) == Surroundings(0, 0)


def refusal(at: float, host: str = "a.example.com", path: str = "x", scope: str = "") -> RefusedRequest:
    return RefusedRequest(at, host, f"{host}/{path}", scope or host)


def test_nothing_is_proposed_without_evidence() -> None:
    assert propose_scope("example.com", []) is None
    assert propose_scope("example.com", [refusal(1), refusal(2, "b.example.com")]) is None


def test_hosts_that_refuse_at_once_twice_may_have_one_limit() -> None:
    refusals = [refusal(at, host) for at in (1, 100) for host in ("a.example.com", "b.example.com")]
    why = "a.example.com, b.example.com refused requests at the same time."
    assert propose_scope("example.com", refusals) == ScopeProposal("example.com", "registrable", why)


def test_hosts_that_refuse_at_different_times_have_limits_of_their_own() -> None:
    refusals = [refusal(60.0 * number, f"{'ab'[number % 2]}.example.com") for number in range(20)]
    assert propose_scope("example.com", refusals) is None


def test_what_is_one_scope_already_is_not_widened() -> None:
    hosts = ("a.example.com", "b.example.com")
    refusals = [refusal(at, host, scope="example.com") for at in (1, 100) for host in hosts]
    assert propose_scope("example.com", refusals) is None


def test_one_host_that_refuses_alone_gets_limits_of_its_own() -> None:
    refusals = [refusal(60.0 * number, scope="example.com") for number in range(10)]
    found = propose_scope("example.com", refusals)
    assert found == ScopeProposal("a.example.com", "host", "Only the host a.example.com refuses requests.")


def test_one_path_that_refuses_alone_gets_limits_of_its_own() -> None:
    refusals = [refusal(60.0 * number) for number in range(10)]
    assert propose_scope("example.com", refusals) == ScopeProposal(
        "a.example.com", "path", "Only a.example.com/x refuses requests."
    )
    assert propose_scope("example.com", [*refusals, refusal(999, path="y")]) is None
    assert propose_scope("example.com", refusals[:9]) is None
