"""The admin of domains: the facts of each, and its requests over time, counted by the database."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from resources.charts import RequestTally
from resources.fetch import timings
from resources.fetch.admin import domain_page
from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import DomainLimits
from resources.fetch.frontier.queue import PutJobBack
from resources.fetch.http.limit_scopes import scope_via
from resources.fetch.models import FetchDomain, FetchTiming
from retry import stores
from tests.support.admin_pages import text_of
from tests.support.domain_pages import LIST, facts, form, limits, page_of, press
from tests.support.fetch_outcomes import NOON
from tests.support.fetch_outcomes import record as timing
from tests.support.frontier import FAILED, HOST, OK, THROTTLED, backlog, claimed, enqueue, job, next_claimed, report
from tests.support.frontier_clock import Clock

pytestmark = pytest.mark.django_db


def test_the_list_says_in_a_word_how_each_stands(clock: Clock, admin_client: Client) -> None:
    names = ("paused", "blocked", "open", "waiting", "quiet")
    hosts = {name: f"{name}.example.com" for name in names}
    FetchDomain.objects.bulk_create(FetchDomain(scope=host) for host in hosts.values())
    stores.run_steps(queue.set_limits(hosts["paused"], DomainLimits(paused=True)))
    enqueue(job("x", hosts["blocked"]))
    report(claimed(), replace(THROTTLED, retry_after_seconds=7200))
    backlog(hosts["open"], 6)
    for _ in range(5):
        report(next_claimed(clock), FAILED)
    enqueue(*(job(str(number), hosts["waiting"], not_before_seconds=9e6) for number in range(3)))
    text = text_of(admin_client.get(LIST))
    stands = dict(
        zip(re.findall(r'change/">(\w+)\.example', text), re.findall(r"field-stands\">(.*?)<", text), strict=True)
    )
    assert stands["paused"] == "paused"
    assert stands["blocked"].startswith("blocked for ")
    assert stands["open"].startswith("circuit open for ")
    assert stands["waiting"] == "3 waiting"
    assert stands["quiet"] == "idle"


def test_the_list_asks_redis_once_and_the_database_no_more_for_more(row: FetchDomain, admin_client: Client) -> None:
    text_of(admin_client.get(LIST))  # sessions and scripts are known by then

    def asked() -> tuple[int, int]:
        before = int(stores.fast_client("state").info("stats")["total_commands_processed"])
        with CaptureQueriesContext(connection) as queries:
            admin_client.get(LIST)
        after = int(stores.fast_client("state").info("stats")["total_commands_processed"])
        return len(queries), after - before

    few = asked()
    FetchDomain.objects.bulk_create(FetchDomain(scope=f"{number}.example.com") for number in range(30))
    many = asked()
    assert many[0] == few[0]
    assert few[1] + 30 <= many[1] < few[1] + 60  # the script's own read of each: one call still


def test_domains_are_found_by_name_and_note(row: FetchDomain, admin_client: Client) -> None:
    FetchDomain.objects.create(scope="other.example.org", note="asked by mail")
    assert HOST not in text_of(admin_client.get(LIST, {"q": "mail"}))
    assert "other.example.org" not in text_of(admin_client.get(LIST, {"q": "a.example"}))


def test_the_page_says_why_nothing_is_fetched(row: FetchDomain, admin_client: Client) -> None:
    backlog(size=3)
    report(claimed(), replace(THROTTLED, retry_after_seconds=7200))
    text = text_of(admin_client.get(page_of(row)))
    assert "Blocked. The server asked for it (Retry-After): the next request is sent in " in text
    assert "s ago: requests 0.5 s apart were refused." in text
    found = facts(text)
    assert found["Block"].endswith("The server asked for it (Retry-After).")
    assert found["Block"].startswith("until ")
    assert found["Gap between requests"].startswith("0.8 s, learnt")
    assert found["Crawl-delay (robots.txt)"] == "none known"
    assert found["In flight"] == "0 of 2, learnt"
    assert found["Waiting"] == "3 now, 0 to be retried later"
    assert found["Last slowed down"].endswith("ago, refused at a gap of 0.5 s")
    assert found["Circuit"] == "closed"
    assert found["Last success"] == "never"
    assert found["Egress"] == "chosen by the system"


def test_the_page_says_what_robots_asks_for(clock: Clock, admin_client: Client) -> None:
    row = FetchDomain.objects.create(scope=HOST)
    enqueue(job("1", obeys_robots=True))
    held = claimed()
    backlog()
    stores.run_steps(queue.sign_in_fetcher("w"))
    asking = text_of(admin_client.get(page_of(row)))
    assert facts(asking)["Crawl-delay (robots.txt)"] == "robots.txt is being fetched"
    assert "robots.txt is being fetched: other requests wait for it." in asking
    assert "fetching robots.txt" in text_of(admin_client.get(LIST))
    stores.run_steps(queue.set_crawl_delay(HOST, 10, 86_400))
    report(held, OK, PutJobBack())
    known = text_of(admin_client.get(page_of(row)))
    assert facts(known)["Crawl-delay (robots.txt)"] == "10 s"
    assert "robots.txt is being fetched" not in known


def test_the_page_names_the_fetcher_that_owns_the_domain(row: FetchDomain, clock: Clock, admin_client: Client) -> None:
    assert facts(text_of(admin_client.get(page_of(row))))["Fetcher"] == "none runs"
    stores.run_steps(queue.sign_in_fetcher("here:1"))
    assert facts(text_of(admin_client.get(page_of(row))))["Fetcher"] == "here:1"


def test_a_domain_of_which_nothing_is_known_has_a_page(row: FetchDomain, admin_client: Client) -> None:
    text = text_of(admin_client.get(page_of(row)))
    assert "Nothing is queued." in text
    assert "No requests in the last 6 hours." in text
    assert 'role="img"' not in text
    assert "No requests." in text


def test_the_page_shows_what_was_fetched(row: FetchDomain, admin_client: Client) -> None:
    now = datetime.now(UTC)
    some = [timing(at=now - timedelta(minutes=ago)) for ago in range(1, 40)]
    timings.write_records([*some, timing(at=now - timedelta(minutes=2), outcome="throttled")])
    text = text_of(admin_client.get(page_of(row)))
    assert not re.search(r"\sstyle=|\son\w+=|<style|<script>", text.partition('id="content"')[2])
    assert "Requests in the last 6 hours: 40, refused: 1;" in text
    assert text.count('<polyline class="rate"') == 1
    assert facts(text)["Egress"] == "192.0.2.7"
    table = text.partition('id="latest-fetches"')[2]
    assert table.count("<tr") == 1 + domain_page.MAX_LATEST_TIMINGS
    assert '<tr class="is-refused">' in table
    assert "Requests in the last hour: 40" in text_of(admin_client.get(page_of(row), {"hours": "1"}))


def test_ways_out_are_told_beside_their_domain(row: FetchDomain, admin_client: Client) -> None:
    enqueue(job("x", egress="proxy"))
    timings.write_records([timing(scope_via(HOST, "proxy"))])
    way = FetchDomain.objects.get(scope=scope_via(HOST, "proxy"))
    assert f'change/">{way.scope}</a>: 1 waiting' in text_of(admin_client.get(page_of(row)))
    press(admin_client, row, "pause")
    assert "Paused by an admin" in text_of(admin_client.get(page_of(way)))
    assert admin_client.post(page_of(way), form(delay_seconds="3")).status_code == 302
    assert limits(way.scope) == DomainLimits(3)


@pytest.mark.parametrize("hours", ["0", "-1", "x", "7", "١", "6 "])
def test_hours_that_there_are_not_are_the_usual_ones(row: FetchDomain, admin_client: Client, hours: str) -> None:
    assert "No requests in the last 6 hours." in text_of(admin_client.get(page_of(row), {"hours": hours}))


STEP = timedelta(minutes=5)


def test_each_step_has_what_began_in_it() -> None:
    timings.write_records(
        [
            *(timing(after=after) for after in (0, 299.999999, 300, 899.5)),
            *(timing(after=after, outcome="throttled") for after in (1, 310)),
            timing(after=1200),
            timing(after=-0.001),
            timing("b.example.com", after=10),
        ]
    )
    found = domain_page.count_requests(["a.example.com"], NOON, NOON + 5 * STEP, STEP)
    assert found == [
        RequestTally(NOON, 3, 1),
        RequestTally(NOON + STEP, 2, 1),
        RequestTally(NOON + 2 * STEP, 1, 0),
        RequestTally(NOON + 3 * STEP, 0, 0),
        RequestTally(NOON + 4 * STEP, 1, 0),
    ]
    assert domain_page.count_requests(["a.example.com"], NOON, NOON + STEP, STEP) == found[:1]


def test_several_names_of_a_domain_count_together() -> None:
    timings.write_records(
        [timing(after=1), timing("a.example.com via proxy", after=2), timing("b.example.com", after=3)]
    )
    names = ["a.example.com", "a.example.com via proxy"]
    assert domain_page.count_requests(names, NOON, NOON + STEP, STEP) == [RequestTally(NOON, 2, 0)]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL chooses by what is in the table")
@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ({"scope": "a", "started_at__gt": NOON}, "COVERING INDEX timings_of_a_scope"),
        ({"url_digest": "a", "started_at__gt": NOON}, "INDEX timings_of_an_address"),
        ({"started_at__lt": NOON}, "INDEX timings_by_time"),
    ],
)
def test_schedules_charts_and_pruning_have_their_index(wanted: dict[str, object], index: str) -> None:
    rows = FetchTiming.objects.filter(**wanted)
    assert index in rows.order_by().values_list("outcome" if "scope" in wanted else "seconds").explain()
