"""The admin of domains: changes that take effect at once, and inputs that change nothing."""

from datetime import UTC, datetime

import pytest
from django.test import Client

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import ClaimedJob, DomainLimits
from resources.fetch.models import FetchDomain
from retry import stores
from tests.conftest import RedisServers
from tests.support import frontier
from tests.support.admin_pages import log_in_to_look, said, text_of
from tests.support.domain_pages import LIST, choose, form, limits, page_of, press
from tests.support.frontier_clock import Clock

pytestmark = pytest.mark.django_db


def test_saved_limits_are_in_force_at_once(row: FetchDomain, admin_client: Client) -> None:
    sent = form(delay_seconds="2.5", in_flight="3", bytes_per_second="0", note="as agreed")
    assert admin_client.post(page_of(row), sent).status_code == 302
    assert limits() == DomainLimits(2.5, 3, 0)
    row.refresh_from_db()
    assert (row.scope, row.delay_seconds, row.note) == (frontier.HOST, 2.5, "as agreed")
    admin_client.post(page_of(row), form())
    assert limits() == DomainLimits()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("delay_seconds", value) for value in ("-1", "nan", "inf", "86401", "1,5")),
        *(("in_flight", value) for value in ("0", "1001", "1.5")),
        *(("bytes_per_second", value) for value in ("-1", "1" + "0" * 13)),
        *(("counting", "moon"), ("address", "192.0.2"), ("address", "192.0.2.1")),
    ],
)
def test_what_makes_no_sense_is_refused(row: FetchDomain, admin_client: Client, field: str, value: str) -> None:
    response = admin_client.post(page_of(row), form(**{field: value}))
    assert response.status_code == 200
    assert field in response.context["adminform"].form.errors
    assert limits() == DomainLimits()


def test_a_form_that_was_open_for_long_takes_no_pause_back(row: FetchDomain, admin_client: Client) -> None:
    press(admin_client, row, "pause")
    admin_client.post(page_of(row), form(delay_seconds="1"))
    assert limits() == DomainLimits(1, paused=True)


def test_limits_can_count_for_something_else(row: FetchDomain, admin_client: Client) -> None:
    for counting, address, kind in (
        ("path", "", "path"),
        ("address", "192.0.2.1", "address:192.0.2.1"),
        ("host", "", "host"),
        ("", "", ""),
    ):
        assert admin_client.post(page_of(row), form(counting=counting, address=address)).status_code == 302
        assert stores.run_steps(queue.read_limits_in_force([frontier.HOST]))[0].counted_by == kind
        chosen = admin_client.get(page_of(row)).context["adminform"].form
        assert (chosen["counting"].initial, chosen["address"].initial or "") == (counting, address)
    without_address = admin_client.post(page_of(row), form(counting="address"))
    assert "address" in without_address.context["adminform"].form.errors


def test_a_path_cannot_be_counted_otherwise(servers: RedisServers, admin_client: Client) -> None:
    row = FetchDomain.objects.create(scope=f"{frontier.HOST}/tiles")
    assert "Only limits of hosts and registrable domains" in text_of(admin_client.get(page_of(row)))
    admin_client.post(page_of(row), form(counting="registrable", delay_seconds="4"))
    row.refresh_from_db()
    assert (row.counted_by, row.delay_seconds) == ("", 4)


def test_a_domain_can_be_added_before_anything_was_fetched(servers: RedisServers, admin_client: Client) -> None:
    sent = form(scope="https://Tiles.Example.org/", delay_seconds="9")
    assert admin_client.post(f"{LIST}add/", sent).status_code == 302
    assert limits("tiles.example.org") == DomainLimits(9)
    again = admin_client.post(f"{LIST}add/", form(scope="tiles.example.org"))
    assert "scope" in again.context["adminform"].form.errors
    for scope in ("", "a b", "http://", "address:x"):
        assert "scope" in admin_client.post(f"{LIST}add/", form(scope=scope)).context["adminform"].form.errors


def test_a_pause_and_its_end_are_seen_by_the_next_claim(row: FetchDomain, admin_client: Client) -> None:
    frontier.backlog(size=2)
    assert press(admin_client, row, "pause") == [f"Paused: {frontier.HOST}."]
    assert "Paused by an admin" in text_of(admin_client.get(page_of(row)))
    assert frontier.idle() > 1
    assert press(admin_client, row, "go-on") == [f"Resumed: {frontier.HOST}."]
    assert isinstance(frontier.claim(), ClaimedJob)


def test_unblocking_closes_the_circuit(clock: Clock, admin_client: Client) -> None:
    row = FetchDomain.objects.create(scope=frontier.HOST)
    frontier.backlog(size=8)
    for _ in range(5):
        frontier.report(frontier.next_claimed(clock), frontier.FAILED)
    assert frontier.idle() > 10
    press(admin_client, row, "unblock")
    frontier.claimed()
    assert frontier.record()["opens"] == frontier.record()["failures"] == "0"
    clock.pass_by(1)
    frontier.claimed()  # two at a time, as before


def test_a_block_of_an_hour_ends_by_itself_or_by_a_button(row: FetchDomain, admin_client: Client) -> None:
    assert "act/unblock/" not in text_of(admin_client.get(page_of(row)))
    assert press(admin_client, row, "block") == [f"Blocked for an hour: {frontier.HOST}."]
    text = text_of(admin_client.get(page_of(row)))
    assert "act/unblock/" in text
    assert "blocked for 1 h" in text or "blocked for 59 min" in text
    assert "An admin blocked it" in text
    assert press(admin_client, row, "unblock") == [f"Unblocked: {frontier.HOST}."]
    assert "An admin blocked it" not in text_of(admin_client.get(page_of(row)))
    assert choose(admin_client, "block", row) == [f"Blocked for an hour: {frontier.HOST}."]


def test_several_are_paused_and_unblocked_together(row: FetchDomain, admin_client: Client) -> None:
    other = FetchDomain.objects.create(scope="b.example.com")
    assert choose(admin_client, "pause", row, other) == [f"Paused: {frontier.HOST}, b.example.com."]
    assert limits().paused
    assert limits("b.example.com").paused
    choose(admin_client, "go_on", row)
    assert [limits(scope).paused for scope in (frontier.HOST, "b.example.com")] == [False, True]
    assert choose(admin_client, "unblock", row) == [f"Unblocked: {frontier.HOST}."]


def test_a_deleted_domain_leaves_no_limits_behind(row: FetchDomain, admin_client: Client) -> None:
    other = FetchDomain.objects.create(scope="b.example.com")
    choose(admin_client, "pause", row, other)
    assert admin_client.post(f"{LIST}{row.pk}/delete/", {"post": "yes"}).status_code == 302
    chosen = {"action": "delete_selected", "_selected_action": [other.pk], "post": "yes"}
    assert admin_client.post(LIST, chosen).status_code == 302
    assert [limits(scope) for scope in (frontier.HOST, "b.example.com")] == [DomainLimits(), DomainLimits()]
    assert not FetchDomain.objects.exists()


def test_a_proposal_can_be_accepted(clock: Clock, admin_client: Client) -> None:
    rows = [FetchDomain.objects.create(scope=f"{name}.example.com") for name in ("x", "y")]
    for _ in range(2):
        for one in rows:
            frontier.enqueue(frontier.job("1", one.scope))
            frontier.report(frontier.next_claimed(clock), frontier.THROTTLED)
        clock.pass_by(60)
    text = text_of(admin_client.get(page_of(rows[0])))
    assert "Proposal: limits of example.com count per registrable domain, all hosts together" in text
    assert "x.example.com, y.example.com refused requests at the same time." in text
    assert press(admin_client, rows[0], "accept", proposal=["example.com", "path"]) == [
        "The proposal is out of date. Nothing was changed."
    ]
    press(admin_client, rows[0], "accept", proposal=["example.com", "registrable"])
    assert FetchDomain.objects.get(scope="example.com").counted_by == "registrable"
    assert stores.run_steps(queue.read_limits_in_force(["example.com"]))[0].counted_by == "registrable"
    assert "Proposal" not in text_of(admin_client.get(page_of(rows[0])))


def test_without_redis_everything_is_as_it_was(row: FetchDomain, servers: RedisServers, admin_client: Client) -> None:
    FetchDomain.objects.update(updated_at=datetime(2020, 1, 1, tzinfo=UTC))
    servers.state.stop()
    assert "unknown: Redis does not answer" in text_of(admin_client.get(LIST))
    assert "Unknown: Redis does not answer." in text_of(admin_client.get(page_of(row)))
    nothing = ["Redis does not answer: nothing was changed."]
    assert said(admin_client.post(page_of(row), form(delay_seconds="2"), follow=True)) == nothing
    assert said(admin_client.post(f"{LIST}add/", form(scope="b.example.com"), follow=True)) == nothing
    assert said(admin_client.post(f"{LIST}{row.pk}/delete/", {"post": "yes"}, follow=True)) == nothing
    chosen = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    assert said(admin_client.post(LIST, chosen, follow=True)) == nothing
    for messages in (press(admin_client, row, "pause"), choose(admin_client, "unblock", row)):
        assert messages == [f"Redis does not answer: {frontier.HOST} and the domains after it were not changed."]
    found = FetchDomain.objects.get()
    assert (found.scope, found.paused, found.delay_seconds) == (frontier.HOST, False, None)
    assert found.updated_at.year > 2020  # restore() compares it: Redis may carry out a call without answering


@pytest.mark.parametrize("what", ["explode", "accept", "delete"])
def test_a_button_that_there_is_not_is_404(row: FetchDomain, admin_client: Client, what: str) -> None:
    assert admin_client.post(f"{LIST}{row.pk + 1}/act/{what}/").status_code == 404
    if what != "accept":
        assert admin_client.post(f"{LIST}{row.pk}/act/{what}/").status_code == 404


def test_buttons_are_pressed_not_visited(row: FetchDomain, admin_client: Client) -> None:
    assert admin_client.get(f"{LIST}{row.pk}/act/pause/").status_code == 405
    assert Client(enforce_csrf_checks=True).post(f"{LIST}{row.pk}/act/pause/").status_code in {302, 403}
    assert not limits().paused


def test_who_may_only_look_changes_nothing(row: FetchDomain, client: Client) -> None:
    log_in_to_look(client, "fetchdomain")
    text = text_of(client.get(page_of(row)))
    assert "Nothing is queued" in text
    assert "/act/" not in text
    assert client.post(f"{LIST}{row.pk}/act/pause/").status_code == 403
    assert client.post(page_of(row), form(delay_seconds="1")).status_code == 403
    assert limits() == DomainLimits()


def test_what_was_done_stands_in_the_history(row: FetchDomain, admin_client: Client) -> None:
    press(admin_client, row, "pause")
    assert "Paused." in text_of(admin_client.get(f"{LIST}{row.pk}/history/"))
