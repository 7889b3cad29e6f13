"""robots.txt: its gap, its time of validity, and the turns it takes in the frontier."""

import time

import pytest

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import DomainLimits, JobRequeued, RateVerdict, RequestReport, Waiter
from resources.fetch.frontier.queue import PutJobBack, RetryJob
from resources.fetch.http import messages
from resources.fetch.worker import robots
from resources.fetch.worker.robots import CrawlDelay
from retry import stores
from tests.support import frontier
from tests.support.frontier_clock import Clock

run = stores.run_steps
AGENT = "Tarry/0.1 (+https://tarry.example)"
DAY, HOUR = 86_400, 3600

TEXTS = {
    "for all": (b"User-agent: *\nCrawl-delay: 7", 7),
    "for us": (b"User-agent: *\nCrawl-delay: 7\n\nUser-agent: tarry\nCrawl-delay: 2.5", 2.5),
    "for others": (b"User-agent: other\nCrawl-delay: 7", 0),
    "none for us": (b"User-agent: tarry\nDisallow: /x\n\nUser-agent: *\nCrawl-delay: 7", 0),
    "too long": (b"User-agent: *\nCrawl-delay: 86400", 60),
    "negative": (b"User-agent: *\nCrawl-delay: -1", 0),
    "no number": (b"User-agent: *\nCrawl-delay: slow", 0),
    "nan": (b"User-agent: *\nCrawl-delay: nan", 0),
    "endless": (b"User-agent: *\nCrawl-delay: inf", 0),
    "marked as UTF-8": (b"\xef\xbb\xbfUser-agent: *\nCrawl-delay: 7", 7),
    "with lines of Windows": (b"User-agent: *\r\nCrawl-delay: 7\r\n", 7),
    "no text": (b"\xff\xfe\x00" * 100, 0),
    "a page": (b"<html><body>Crawl-delay: 7</body></html>", 0),
    "nothing": (b"", 0),
}


@pytest.mark.parametrize(("text", "seconds"), TEXTS.values(), ids=TEXTS)
def test_the_crawl_delay_is_read(text: bytes, seconds: float) -> None:
    assert robots.parse_crawl_delay(text, AGENT) == seconds


AGENTS = b"".join(b"User-agent: %d\n" % number for number in range(12_000))
RULES = b"Allow:/a\n" * 28_000
COSTLY = {
    "many agents with many rules": AGENTS + RULES,
    "the same, with comments between": AGENTS.replace(b"\n", b"\n#\n") + RULES,
    "the same, with nonsense between": AGENTS.replace(b"\n", b"\nallow\n") + RULES,
    "the same agent": b"User-agent: a\n" * 36_000,
    "agents again and again": AGENTS + b"x:1\n" + AGENTS,
}


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY)
def test_what_would_cost_too_much_is_not_read_to_its_end(text: bytes) -> None:
    began = time.process_time()
    assert robots.parse_crawl_delay(b"User-agent: *\nCrawl-delay: 7\n" + text, AGENT) == 7
    assert time.process_time() - began < 5


def fetched(text: bytes) -> messages.Outcome:
    head = messages.Head(200, "", {})  # type: ignore[arg-type]
    return messages.Fetched(head, messages.Body(len(text), "", data=text), messages.OutcomeTiming(0, 0))


def failed(failure: messages.Failure, status: int | None) -> messages.Outcome:
    return messages.FetchFailed(failure, "", messages.OutcomeTiming(0, 0), status)


OUTCOMES = {
    "there": (fetched(b"User-agent: *\nCrawl-delay: 7"), CrawlDelay(7, DAY)),
    "there, and asking for nothing": (fetched(b""), CrawlDelay(0, DAY)),
    "not there": (failed(messages.Failure.PERMANENT, 404), CrawlDelay(0, DAY)),
    "not for us": (failed(messages.Failure.PERMANENT, 403), CrawlDelay(0, DAY)),
    "broken": (failed(messages.Failure.TRANSIENT, 500), CrawlDelay(0, HOUR)),
    "unreachable": (failed(messages.Failure.TRANSIENT, None), CrawlDelay(0, HOUR)),
    "redirecting in a circle": (failed(messages.Failure.PERMANENT, 302), CrawlDelay(0, HOUR)),
    "no such host": (failed(messages.Failure.PERMANENT, None), CrawlDelay(0, HOUR)),
    "too large": (failed(messages.Failure.TOO_BIG, 200), CrawlDelay(0, HOUR)),
}


@pytest.mark.parametrize(("outcome", "expected"), OUTCOMES.values(), ids=OUTCOMES)
def test_how_long_it_is_believed_depends_on_what_came(outcome: messages.Outcome, expected: CrawlDelay) -> None:
    assert robots.read_crawl_delay(outcome, AGENT) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://user:pw@A.example/x/y?z", "https://a.example/robots.txt"),
        ("http://a.example:8080", "http://a.example:8080/robots.txt"),
        ("http://[2001:db8::1]:80/x", "http://[2001:db8::1]/robots.txt"),
    ],
)
def test_it_is_at_the_root_of_the_origin(url: str, expected: str) -> None:
    assert robots.robots_request(url, messages.FetchLimits()).url == expected


def test_its_body_is_small_and_stays_in_memory() -> None:
    asked = robots.robots_request("https://a.example/x", messages.FetchLimits(max_body_bytes=10**9, deadline_seconds=7))
    assert asked.limits.max_body_bytes == asked.limits.spool_bytes == 512_000
    assert asked.limits.deadline_seconds == 7


def knows(seconds: float, for_seconds: float = DAY) -> None:
    run(queue.set_crawl_delay(frontier.HOST, seconds, for_seconds))


def test_the_first_job_that_obeys_robots_needs_it_and_is_put_back_at_its_place(clock: Clock) -> None:
    frontier.enqueue(frontier.job("1", obeys_robots=True), frontier.job("2", obeys_robots=True))
    held = frontier.claimed()
    assert (held.needs_robots, held.url) == (True, f"https://{frontier.HOST}/1")
    knows(0)
    assert frontier.report(held, frontier.OK, PutJobBack()) == JobRequeued(0)
    again = frontier.next_claimed(clock)
    assert (again.needs_robots, again.url, again.attempts, again.lapses) == (False, held.url, 0, 0)


def test_nothing_else_is_sent_while_robots_is_asked_for(clock: Clock) -> None:
    run(queue.set_limits(frontier.HOST, DomainLimits(in_flight=5)))
    frontier.enqueue(frontier.job("1", obeys_robots=True), frontier.job("2", obeys_robots=True), frontier.job("3"))
    held = frontier.claimed()
    clock.pass_by(1)
    frontier.idle()
    knows(0)
    frontier.report(held, frontier.OK, PutJobBack())
    clock.pass_by(1)
    assert not frontier.claimed().needs_robots


def test_a_fetcher_that_dies_over_robots_leaves_it_to_another(clock: Clock) -> None:
    frontier.enqueue(frontier.job("1", obeys_robots=True), frontier.job("2"))
    frontier.claimed()
    clock.pass_by(15.1)
    assert frontier.claimed().needs_robots


def test_the_crawl_delay_holds_for_those_that_obey_it(clock: Clock) -> None:
    knows(10)
    frontier.enqueue(frontier.job("1", obeys_robots=True), frontier.job("2"), frontier.job("3"))
    frontier.report(frontier.claimed())
    assert 9 <= frontier.idle() <= 11.01
    clock.pass_by(11.01)
    frontier.report(frontier.claimed())
    assert frontier.idle() < 1


def test_requests_at_the_pace_of_robots_say_nothing_of_a_faster_one(clock: Clock) -> None:
    knows(10)
    for name in "12345":
        frontier.enqueue(frontier.job(name, obeys_robots=True))
    for _ in range(4):
        frontier.report(frontier.next_claimed(clock))
    assert "delay" not in frontier.record()


def test_robots_is_asked_for_again_when_it_is_no_longer_known(clock: Clock) -> None:
    knows(0, for_seconds=60)
    frontier.enqueue(frontier.job("1", obeys_robots=True))
    assert not frontier.next_claimed(clock).needs_robots
    clock.pass_by(61)
    frontier.enqueue(frontier.job("2", obeys_robots=True))
    assert frontier.next_claimed(clock).needs_robots


def test_a_gap_that_an_admin_has_set_needs_no_robots(clock: Clock) -> None:
    knows(10, for_seconds=0)
    run(queue.set_limits(frontier.HOST, DomainLimits(delay_seconds=0.2)))
    frontier.enqueue(frontier.job("1", obeys_robots=True), frontier.job("2", obeys_robots=True))
    held = frontier.claimed()
    assert not held.needs_robots
    frontier.report(held)
    assert frontier.idle() < 0.3


def test_a_job_that_somebody_wants_who_need_not_obey_does_not(clock: Clock) -> None:
    frontier.enqueue(frontier.job("1", obeys_robots=True), frontier.job("1", waiter=Waiter("another")))
    assert not frontier.claimed().needs_robots


def test_robots_that_is_refused_or_broken_counts_for_the_domain_and_not_for_the_job(clock: Clock) -> None:
    frontier.enqueue(frontier.job("1", obeys_robots=True))
    throttled = frontier.report(frontier.claimed(), frontier.THROTTLED, PutJobBack())
    assert isinstance(throttled, JobRequeued)
    assert throttled.wait_seconds > 0
    held = frontier.next_claimed(clock)
    assert held.needs_robots
    knows(0, for_seconds=HOUR)
    assert frontier.report(held, frontier.FAILED, PutJobBack()) == JobRequeued(0)
    assert frontier.record()["failures"] == "1"
    held = frontier.next_claimed(clock)
    assert (held.needs_robots, held.attempts) == (False, 0)


def test_what_is_put_back_costs_no_retry(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    frontier.enqueue(frontier.job("1"), *(frontier.job(f"more-{number}") for number in range(30)))
    for _ in range(30):
        assert frontier.report(frontier.next_claimed(clock), frontier.OK, PutJobBack()) == JobRequeued(0)
    failed = frontier.report(frontier.next_claimed(clock), RequestReport(RateVerdict.FAILED), RetryJob(1))
    assert failed == JobRequeued(1)
