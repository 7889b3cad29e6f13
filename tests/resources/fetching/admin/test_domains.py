"""The admin of domains: what it tells of each, and what takes effect at once."""

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from resources.fetching.addressing.scopes import via
from resources.fetching.admin import domain_page
from resources.fetching.keeping import timings
from resources.fetching.keeping.models import FetchDomain
from resources.fetching.queues import frontier
from resources.fetching.queues.frontier import PutBack
from resources.fetching.queues.jobs import Claimed, Limits
from retry import connections
from tests.conftest import RedisServers
from tests.resources.fetching.asking import (
    FAILED,
    HOST,
    OK,
    THROTTLED,
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
from tests.resources.fetching.clock import Clock
from tests.resources.fetching.fetches import record as timing

pytestmark = pytest.mark.django_db

LIST = "/admin/resources/fetchdomain/"


@pytest.fixture
def row(servers: RedisServers) -> FetchDomain:
    return FetchDomain.objects.create(scope=HOST)


@pytest.fixture
def away(servers: RedisServers) -> Iterator[None]:
    servers.state.stop()
    yield
    servers.state.start()


def page_of(row: FetchDomain) -> str:
    return f"{LIST}{row.pk}/change/"


def text_of(response: Any) -> str:
    assert response.status_code == 200
    return html.unescape(response.content.decode())


def facts(text: str) -> dict[str, str]:
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text))


def said(response: Any) -> list[str]:
    assert response.status_code == 200
    return [str(message) for message in response.context["messages"]]


def form(**fields: Any) -> dict[str, Any]:
    return {"counting": "", "address": "", "delay_seconds": "", "in_flight": "", "bytes_per_second": "", **fields}


def press(client: Client, row: FetchDomain, what: str, **sent: Any) -> list[str]:
    return said(client.post(f"{LIST}{row.pk}/act/{what}/", sent, follow=True))


def choose(client: Client, action: str, *rows: FetchDomain) -> list[str]:
    chosen = {"action": action, "_selected_action": [row.pk for row in rows]}
    return said(client.post(LIST, chosen, follow=True))


def limits(scope: str = HOST) -> Limits:
    return connections.run(frontier.limits_in_force([scope]))[0].limits


def test_the_list_says_in_a_word_how_each_stands(clock: Clock, admin_client: Client) -> None:
    names = ("paused", "blocked", "open", "waiting", "quiet")
    hosts = {name: f"{name}.example.com" for name in names}
    FetchDomain.objects.bulk_create(FetchDomain(scope=host) for host in hosts.values())
    connections.run(frontier.set_limits(hosts["paused"], Limits(paused=True)))
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
    assert stands["quiet"] == "quiet"


def test_the_list_asks_redis_once_and_the_database_no_more_for_more(row: FetchDomain, admin_client: Client) -> None:
    text_of(admin_client.get(LIST))  # sessions and scripts are known by then

    def asked() -> tuple[int, int]:
        before = int(connections.client("state").info("stats")["total_commands_processed"])
        with CaptureQueriesContext(connection) as queries:
            admin_client.get(LIST)
        after = int(connections.client("state").info("stats")["total_commands_processed"])
        return len(queries), after - before

    few = asked()
    FetchDomain.objects.bulk_create(FetchDomain(scope=f"{number}.example.com") for number in range(30))
    many = asked()
    assert many[0] == few[0]
    assert many[1] == few[1] + 30  # the script's own reads: one call still


def test_domains_are_found_by_name_and_note(row: FetchDomain, admin_client: Client) -> None:
    FetchDomain.objects.create(scope="other.example.org", note="asked by mail")
    assert HOST not in text_of(admin_client.get(LIST, {"q": "mail"}))
    assert "other.example.org" not in text_of(admin_client.get(LIST, {"q": "a.example"}))


def test_the_page_says_why_nothing_is_fetched(row: FetchDomain, admin_client: Client) -> None:
    backlog(size=3)
    report(claimed(), replace(THROTTLED, retry_after_seconds=7200))
    text = text_of(admin_client.get(page_of(row)))
    assert "Blocked. The site asked for it (Retry-After): the next request is sent in " in text
    found = facts(text)
    assert found["Block"].endswith("The site asked for it (Retry-After).")
    assert found["Block"].startswith("until ")
    assert found["Gap between requests"].startswith("0.8 s, as learnt")
    assert found["Gap by robots.txt"] == "none that is known"
    assert found["In flight"] == "0 of 2, as learnt"
    assert found["Waiting"] == "3 now, 0 to be tried again later"
    assert found["Last slowed down"].endswith("ago, when 0.5 s apart was refused")
    assert found["Circuit"] == "closed"
    assert found["Last success"] == "never"
    assert found["Way out"] == "as the system chooses it"


def test_the_page_says_what_robots_asks_for(clock: Clock, admin_client: Client) -> None:
    row = FetchDomain.objects.create(scope=HOST)
    enqueue(job("1", obeys_robots=True))
    held = claimed()
    assert facts(text_of(admin_client.get(page_of(row))))["Gap by robots.txt"] == "being asked for"
    connections.run(frontier.set_crawl_delay(HOST, 10, 86_400))
    report(held, OK, PutBack())
    assert facts(text_of(admin_client.get(page_of(row))))["Gap by robots.txt"] == "10 s"


def test_a_domain_of_which_nothing_is_known_has_a_page(row: FetchDomain, admin_client: Client) -> None:
    text = text_of(admin_client.get(page_of(row)))
    assert "Nothing waits to be fetched." in text
    assert "No requests in the last 6 hours." in text
    assert 'role="img"' not in text
    assert "None is known." in text


def test_the_page_shows_what_was_fetched(row: FetchDomain, admin_client: Client) -> None:
    now = datetime.now(UTC)
    some = [timing(at=now - timedelta(minutes=ago)) for ago in range(1, 40)]
    timings.write([*some, timing(at=now - timedelta(minutes=2), outcome="throttled")])
    text = text_of(admin_client.get(page_of(row)))
    assert "40 requests in the last 6 hours, 1 of them refused" in text
    assert text.count('<polyline class="rate"') == 1
    assert facts(text)["Way out"] == "192.0.2.7"
    table = text.partition('id="latest-fetches"')[2]
    assert table.count("<tr") == 1 + domain_page.MOST_LATEST
    assert '<tr class="is-refused">' in table
    assert "40 requests in the last hour" in text_of(admin_client.get(page_of(row), {"hours": "1"}))


def test_ways_out_are_told_beside_their_domain(row: FetchDomain, admin_client: Client) -> None:
    enqueue(job("x", egress="proxy"))
    timings.write([timing(via(HOST, "proxy"))])
    way = FetchDomain.objects.get(scope=via(HOST, "proxy"))
    assert f'change/">{way.scope}</a>: 1 waiting' in text_of(admin_client.get(page_of(row)))
    press(admin_client, row, "pause")
    assert "Paused by an admin" in text_of(admin_client.get(page_of(way)))
    assert admin_client.post(page_of(way), form(delay_seconds="3")).status_code == 302
    assert limits(way.scope) == Limits(3)


@pytest.mark.parametrize("hours", ["0", "-1", "x", "7", "١", "6 "])
def test_hours_that_there_are_not_are_the_usual_ones(row: FetchDomain, admin_client: Client, hours: str) -> None:
    assert "No requests in the last 6 hours." in text_of(admin_client.get(page_of(row), {"hours": hours}))


def test_nothing_of_the_page_is_against_the_content_policy(row: FetchDomain, admin_client: Client) -> None:
    timings.write([timing(at=datetime.now(UTC))])
    response = admin_client.get(page_of(row))
    shown = text_of(response).partition('id="content"')[2]
    assert not re.search(r"\sstyle=|\son\w+=|<style|<script>", shown)
    assert "unsafe" not in response["Content-Security-Policy"]


def test_saved_limits_are_in_force_at_once(row: FetchDomain, admin_client: Client) -> None:
    sent = form(delay_seconds="2.5", in_flight="3", bytes_per_second="0", note="as agreed")
    assert admin_client.post(page_of(row), sent).status_code == 302
    assert limits() == Limits(2.5, 3, 0)
    row.refresh_from_db()
    assert (row.scope, row.delay_seconds, row.note) == (HOST, 2.5, "as agreed")
    admin_client.post(page_of(row), form())
    assert limits() == Limits()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("delay_seconds", "-1"),
        ("delay_seconds", "nan"),
        ("delay_seconds", "inf"),
        ("delay_seconds", "86401"),
        ("delay_seconds", "1,5"),
        ("in_flight", "0"),
        ("in_flight", "1001"),
        ("in_flight", "1.5"),
        ("bytes_per_second", "-1"),
        ("bytes_per_second", "1" + "0" * 13),
        ("counting", "moon"),
        ("address", "192.0.2"),
    ],
)
def test_what_makes_no_sense_is_refused(row: FetchDomain, admin_client: Client, field: str, value: str) -> None:
    response = admin_client.post(page_of(row), form(**{field: value}))
    assert response.status_code == 200
    assert field in response.context["adminform"].form.errors
    assert limits() == Limits()


def test_a_form_that_was_open_for_long_takes_no_pause_back(row: FetchDomain, admin_client: Client) -> None:
    press(admin_client, row, "pause")
    admin_client.post(page_of(row), form(delay_seconds="1"))
    assert limits() == Limits(1, paused=True)


def test_limits_can_count_for_something_else(row: FetchDomain, admin_client: Client) -> None:
    for counting, address, kind in (
        ("path", "", "path"),
        ("address", "192.0.2.1", "address:192.0.2.1"),
        ("host", "", "host"),
        ("", "", ""),
    ):
        assert admin_client.post(page_of(row), form(counting=counting, address=address)).status_code == 302
        assert connections.run(frontier.limits_in_force([HOST]))[0].counted_by == kind
        chosen = admin_client.get(page_of(row)).context["adminform"].form
        assert (chosen["counting"].initial, chosen["address"].initial or "") == (counting, address)


@pytest.mark.parametrize("sent", [{"counting": "address"}, {"counting": "host", "address": "192.0.2.1"}])
def test_an_address_is_given_where_it_belongs(row: FetchDomain, admin_client: Client, sent: dict[str, str]) -> None:
    response = admin_client.post(page_of(row), form(**sent))
    assert "address" in response.context["adminform"].form.errors


def test_a_path_cannot_be_counted_otherwise(servers: RedisServers, admin_client: Client) -> None:
    row = FetchDomain.objects.create(scope=f"{HOST}/tiles")
    assert "Only hosts and registrable domains" in text_of(admin_client.get(page_of(row)))
    admin_client.post(page_of(row), form(counting="registrable", delay_seconds="4"))
    row.refresh_from_db()
    assert (row.counted_by, row.delay_seconds) == ("", 4)


def test_a_domain_can_be_added_before_anything_was_fetched(servers: RedisServers, admin_client: Client) -> None:
    sent = form(scope="https://Tiles.Example.org/", delay_seconds="9")
    assert admin_client.post(f"{LIST}add/", sent).status_code == 302
    assert limits("tiles.example.org") == Limits(9)
    again = admin_client.post(f"{LIST}add/", form(scope="tiles.example.org"))
    assert "scope" in again.context["adminform"].form.errors
    for scope in ("", "a b", "http://", "address:x"):
        refused = admin_client.post(f"{LIST}add/", form(scope=scope))
        assert "scope" in refused.context["adminform"].form.errors


def test_a_pause_and_its_end_are_seen_by_the_next_claim(row: FetchDomain, admin_client: Client) -> None:
    backlog(size=2)
    assert press(admin_client, row, "pause") == [f"Paused: {HOST}."]
    assert "Paused by an admin" in text_of(admin_client.get(page_of(row)))
    assert idle() > 1
    assert press(admin_client, row, "go-on") == [f"Going on: {HOST}."]
    assert isinstance(claim(), Claimed)


def test_unblocking_ends_a_block(row: FetchDomain, admin_client: Client) -> None:
    backlog(size=2)
    report(claimed(), replace(THROTTLED, retry_after_seconds=7200))
    assert not isinstance(claim(), Claimed)
    assert "act/unblock/" in text_of(admin_client.get(page_of(row)))
    assert press(admin_client, row, "unblock") == [f"Unblocked: {HOST}."]
    assert isinstance(claim(), Claimed)
    assert "act/unblock/" not in text_of(admin_client.get(page_of(row)))


def test_unblocking_closes_the_circuit(clock: Clock, admin_client: Client) -> None:
    row = FetchDomain.objects.create(scope=HOST)
    backlog(size=8)
    for _ in range(5):
        report(next_claimed(clock), FAILED)
    assert idle() > 10
    press(admin_client, row, "unblock")
    claimed()
    assert record()["opens"] == record()["failures"] == "0"
    clock.pass_by(1)
    claimed()  # two at a time, as before


def test_several_are_paused_and_unblocked_together(row: FetchDomain, admin_client: Client) -> None:
    other = FetchDomain.objects.create(scope="b.example.com")
    assert choose(admin_client, "pause", row, other) == [f"Paused: {HOST}, b.example.com."]
    assert limits().paused
    assert limits("b.example.com").paused
    choose(admin_client, "go_on", row)
    assert [limits(scope).paused for scope in (HOST, "b.example.com")] == [False, True]
    assert choose(admin_client, "unblock", row) == [f"Unblocked: {HOST}."]


def test_a_deleted_domain_leaves_no_limits_behind(row: FetchDomain, admin_client: Client) -> None:
    other = FetchDomain.objects.create(scope="b.example.com")
    choose(admin_client, "pause", row, other)
    assert admin_client.post(f"{LIST}{row.pk}/delete/", {"post": "yes"}).status_code == 302
    chosen = {"action": "delete_selected", "_selected_action": [other.pk], "post": "yes"}
    assert admin_client.post(LIST, chosen).status_code == 302
    assert [limits(scope) for scope in (HOST, "b.example.com")] == [Limits(), Limits()]
    assert not FetchDomain.objects.exists()


def test_a_proposal_can_be_accepted(clock: Clock, admin_client: Client) -> None:
    rows = [FetchDomain.objects.create(scope=f"{name}.example.com") for name in ("x", "y")]
    for _ in range(2):
        for one in rows:
            enqueue(job("1", one.scope))
            report(next_claimed(clock), THROTTLED)
        clock.pass_by(60)
    text = text_of(admin_client.get(page_of(rows[0])))
    assert "Proposed: limits of example.com count for all its hosts together" in text
    assert "x.example.com, y.example.com refused requests at the same time." in text
    assert press(admin_client, rows[0], "accept", proposal=["example.com", "path"]) == [
        "That is not proposed any more: nothing was changed."
    ]
    press(admin_client, rows[0], "accept", proposal=["example.com", "registrable"])
    assert FetchDomain.objects.get(scope="example.com").counted_by == "registrable"
    assert connections.run(frontier.limits_in_force(["example.com"]))[0].counted_by == "registrable"
    assert "Proposed" not in text_of(admin_client.get(page_of(rows[0])))


def test_without_redis_everything_is_as_it_was(row: FetchDomain, away: None, admin_client: Client) -> None:
    FetchDomain.objects.update(updated_at=datetime(2020, 1, 1, tzinfo=UTC))
    assert "not known: Redis does not answer" in text_of(admin_client.get(LIST))
    assert "Not known now: Redis does not answer." in text_of(admin_client.get(page_of(row)))
    nothing = ["Redis does not answer: nothing was changed."]
    assert said(admin_client.post(page_of(row), form(delay_seconds="2"), follow=True)) == nothing
    assert said(admin_client.post(f"{LIST}add/", form(scope="b.example.com"), follow=True)) == nothing
    assert said(admin_client.post(f"{LIST}{row.pk}/delete/", {"post": "yes"}, follow=True)) == nothing
    chosen = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    assert said(admin_client.post(LIST, chosen, follow=True)) == nothing
    for messages in (press(admin_client, row, "pause"), choose(admin_client, "unblock", row)):
        assert messages == [f"Redis does not answer: nothing was changed for {HOST} and what comes after it."]
    found = FetchDomain.objects.get()
    assert (found.scope, found.paused, found.delay_seconds) == (HOST, False, None)
    assert found.updated_at.year > 2020  # restore() compares it: Redis may carry out what it did not answer to


@pytest.mark.parametrize("what", ["explode", "accept", "delete"])
def test_a_button_that_there_is_not_is_404(row: FetchDomain, admin_client: Client, what: str) -> None:
    missing = admin_client.post(f"{LIST}{row.pk + 1}/act/{what}/")
    assert missing.status_code == 404
    if what != "accept":
        assert admin_client.post(f"{LIST}{row.pk}/act/{what}/").status_code == 404


def test_buttons_are_pressed_not_visited(row: FetchDomain, admin_client: Client) -> None:
    assert admin_client.get(f"{LIST}{row.pk}/act/pause/").status_code == 405
    assert Client(enforce_csrf_checks=True).post(f"{LIST}{row.pk}/act/pause/").status_code in {302, 403}
    assert not limits().paused


def test_who_may_only_look_changes_nothing(row: FetchDomain, client: Client) -> None:
    user = User.objects.create_user("looker", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_fetchdomain"))
    client.force_login(user)
    text = text_of(client.get(page_of(row)))
    assert "Nothing waits" in text
    assert "/act/" not in text
    assert client.post(f"{LIST}{row.pk}/act/pause/").status_code == 403
    assert client.post(page_of(row), form(delay_seconds="1")).status_code == 403
    assert limits() == Limits()


def test_what_was_done_stands_in_the_history(row: FetchDomain, admin_client: Client) -> None:
    press(admin_client, row, "pause")
    assert "Paused." in text_of(admin_client.get(f"{LIST}{row.pk}/history/"))
