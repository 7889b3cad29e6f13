"""Webhooks of new entries: signed, in batches, at least once, repeated until they are taken or given up."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from django.test import Client
from django.urls import reverse
from multidict import CIMultiDict
from standardwebhooks import Webhook as Receiver

from feeds import change_calls, credentials, filters, lifecycle
from feeds.change_calls import TASK
from feeds.change_rows import Webhook, WebhookCall
from feeds.changes import log, numbers
from feeds.changes.log import PageBounds
from feeds.errors import SearchTimeoutError
from feeds.models import Category, Entry, EntryFilter, Feed
from feeds.pages import entry_search
from feeds.parser.documents import ParsedCategory
from resources.fetch.frontier.jobs import ClaimedJob
from resources.fetch.http.messages import Body, Failure, Fetched, FetchFailed, FetchRequest, Head, Hop, OutcomeTiming
from retry.errors import PreparationError
from retry.work import Argument
from tests.conftest import RedisServers
from tests.support.feed_rows import NOW, add, category, entry, feed
from tests.support.frontier import claim

pytestmark = pytest.mark.django_db

HOOK = "https://hooks.example.org/told?key=1"
SECRET = change_calls.make_secret()
TIMING = OutcomeTiming(0, 0.1)


@pytest.fixture(autouse=True)
def _site(redis_servers: RedisServers) -> None:
    """Calls are claimed on a running server."""


def hook(name: str = "hook", **fields: Any) -> Webhook:
    """A webhook, whose place is the present end of the log."""
    known = {"url": HOOK, "sealed_secret": credentials.seal_password(SECRET)}
    made = Webhook.objects.create(name=name, **{**known, **fields})
    give()
    return made


def give(minutes: int = 0) -> None:
    """Numbers what has changed, and makes a pass."""
    now = NOW + timedelta(minutes=minutes)
    numbers.heal_memberships()
    numbers.number_changes(now)
    change_calls.call_webhooks(now)


def told(webhook: Webhook) -> Iterator[dict[str, Any]]:
    """The changes of the webhook's batches, in their order."""
    for call in webhook.calls.order_by("created_at", "pk"):
        yield from json.loads(call.body)["data"]["changes"]


def titles(webhook: Webhook) -> list[str]:
    return sorted(change["entry"]["title"] for change in told(webhook) if change["change"] == "entry")


def jobs() -> list[ClaimedJob]:
    """The jobs that fetchers would be given now."""
    found: list[ClaimedJob] = []
    while isinstance(job := claim(worker=f"w{len(found)}"), ClaimedJob):
        found.append(job)
    return found


def arguments(call: WebhookCall) -> tuple[Argument, ...]:
    return change_calls.call_work(call).arguments


def answered(status: int, *hops: Hop) -> Fetched:
    return Fetched(Head(status, HOOK, CIMultiDict(), hops=hops), Body(0, "", b""), TIMING)


def failed(status: int | None = 500, failure: Failure = Failure.TRANSIENT, wait: float | None = None) -> FetchFailed:
    return FetchFailed(failure, f"the server answered {status}", TIMING, status, retry_after_seconds=wait)


def made_call() -> WebhookCall:
    """A call of one new entry, whose first attempt is made now."""
    sea = feed("sea")
    hook()
    add(sea, entry(1))
    give(1)
    WebhookCall.objects.update(began_at=datetime.now(UTC))
    return WebhookCall.objects.get()


def test_new_entries_are_told_once_and_old_ones_never() -> None:
    sea = feed("sea", entry(1))
    told_of = hook()
    add(sea, entry(2))
    give(1)
    Entry.objects.update(change_number=None)  # both are edited
    give(2)
    give(3)
    assert titles(told_of) == ["Entry 2"]
    assert len(jobs()) == 1


def test_all_entries_that_came_at_once_are_told() -> None:
    sea = feed("sea")
    told_of = hook()
    for number in range(250):
        add(sea, entry(number))
    give(1)
    assert titles(told_of) == sorted(f"Entry {number}" for number in range(250))


def test_an_entry_that_is_edited_before_it_is_told_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_calls, "MAX_WAITING_CALLS", 1)
    monkeypatch.setattr(change_calls, "BATCH_BOUNDS", PageBounds(1, 1_000_000))
    sea, found = feed("sea"), list[str]()
    told_of = hook()
    for number in range(4):
        add(sea, entry(number))
        give(number)
    Entry.objects.exclude(title="Entry 2").update(change_number=None)
    for minutes in range(5, 11):
        found += titles(told_of)
        WebhookCall.objects.all().delete()  # it was taken
        give(minutes)
    assert found == ["Entry 0", "Entry 1", "Entry 2", "Entry 3"]


def test_entries_of_many_new_feeds_are_new_to_their_category(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "CHECKS_AT_ONCE", 2)
    wet = category("wet")
    told_of = hook(category=wet)
    for number in range(5):
        wet.feeds.add(feed(f"f{number}", entry(number)))
    give(1)
    assert titles(told_of) == [f"Entry {number}" for number in range(5)]


def test_news_among_many_entries_of_other_feeds_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MAX_WALKED_ENTRIES", 3)
    sea, land = feed("sea"), feed("land")
    told_of = hook(feed=sea)
    for number in range(20):
        add(sea if number % 7 == 6 else land, entry(number))
    give(1)
    assert titles(told_of) == ["Entry 13", "Entry 6"]


def test_a_webhook_of_what_an_earlier_version_deleted_goes_with_it_and_no_other_does() -> None:
    sea, land = feed("sea"), feed("land")
    earth, sky = category("earth", land), category("sky", land)
    hook("of sea", feed=sea)
    hook("of earth", category=earth)
    kept = {hook("of land", feed=land), hook("of sky", category=sky), hook("of all")}
    Feed.objects.filter(pk=sea.pk)._raw_delete("default")
    earth.feeds.clear()
    Category.objects.filter(pk=earth.pk)._raw_delete("default")
    give(1)
    assert set(Webhook.objects.all()) == kept


def test_a_call_is_signed_as_its_receiver_expects() -> None:
    call = made_call()
    asked = TASK.fetch(*arguments(call))
    assert isinstance(asked, FetchRequest)
    assert (asked.method, asked.url, asked.body) == ("POST", HOOK, call.body.encode())
    found = Receiver(SECRET).verify(asked.body, dict(asked.headers))
    assert (found["type"], found["timestamp"]) == ("entries.new", "2026-11-01T12:01:00Z")
    assert asked.headers["webhook-id"] == str(call.pk)
    again = TASK.fetch(*arguments(call))
    assert isinstance(again, FetchRequest)
    assert (again.headers["webhook-id"], again.body) == (asked.headers["webhook-id"], asked.body)


def test_a_webhook_whose_search_fails_holds_up_no_other_and_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sea = feed("sea")
    slow, other = hook("a", words="entry"), hook("b")
    with monkeypatch.context() as patched:
        patched.setattr(entry_search, "choose_matches", Mock(side_effect=SearchTimeoutError("It takes too long.")))
        add(sea, entry(1))
        give(1)
    assert (titles(slow), titles(other)) == ([], ["Entry 1"])
    give(2)
    assert titles(slow) == ["Entry 1"]


def test_a_webhook_is_told_of_its_feed_its_category_or_its_words() -> None:
    sea, land = feed("sea"), feed("land")
    wet = category("wet", sea)
    hooks = [hook("feed", feed=land), hook("category", category=wet), hook("words", words="ENTRY text 2"), hook("all")]
    add(sea, entry(1))
    add(land, entry(2))
    give(1)
    assert [titles(one) for one in hooks] == [["Entry 2"], ["Entry 1"], ["Entry 2"], ["Entry 1", "Entry 2"]]


def test_with_changes_edits_and_removals_are_told_too() -> None:
    sea = feed("sea", entry(1), entry(2))
    told_of = hook(with_changes=True)
    Entry.objects.filter(title="Entry 1").update(change_number=None)
    numbers.delete_entries(Entry.objects.filter(title="Entry 2"), "pruned")
    give(1)
    lifecycle.pause_feeds([sea.pk], NOW)
    give(2)
    assert [change["change"] for change in told(told_of)] == ["entry_removed", "entry", "feed_removed"]


def test_a_feed_that_joins_a_category_brings_no_news() -> None:
    sea = feed("sea", entry(1))
    wet = category("wet")
    told_of = hook(category=wet)
    wet.feeds.add(sea)
    give(1)
    add(sea, entry(2))
    give(2)
    assert titles(told_of) == ["Entry 2"]


def test_a_webhook_stays_with_a_feed_that_is_merged() -> None:
    kept, other = feed("kept"), feed("other")
    told_of = hook(feed=other)
    lifecycle.merge_feeds(kept.pk, [other.pk], NOW)
    add(kept, entry(1))
    give(1)
    assert titles(told_of) == ["Entry 1"]


def test_what_is_delivered_is_done() -> None:
    call = made_call()
    assert TASK.prepare(answered(204), *arguments(call)) == {}
    assert not WebhookCall.objects.exists()
    assert Webhook.objects.values_list("delivered", "answer").get() == (1, "delivered")
    assert TASK.fetch(*arguments(call)) == {}


def test_what_is_not_taken_is_repeated_after_longer_pauses() -> None:
    call = made_call()
    for attempt, seconds in enumerate((30, 60, 120), 1):
        with pytest.raises(PreparationError):
            TASK.prepare(failed(), *arguments(call))
        call.refresh_from_db()
        assert call.due_at is not None
        assert call.attempts == attempt
        assert seconds - 5 < (call.due_at - datetime.now(UTC)).total_seconds() <= seconds
    with pytest.raises(PreparationError):
        TASK.prepare(failed(503, wait=900), *arguments(call))
    call.refresh_from_db()
    assert call.due_at is not None
    assert (call.due_at - datetime.now(UTC)).total_seconds() > 800
    assert call.answer == "the server answered 503"


@pytest.mark.parametrize(
    ("outcome", "stays_on"),
    [(failed(410, Failure.PERMANENT), False), (failed(None, Failure.REFUSED), True)],
    ids=["gone", "private address"],
)
def test_what_is_hopeless_is_given_up_at_once(outcome: FetchFailed, *, stays_on: bool) -> None:
    call = made_call()
    TASK.prepare(outcome, *arguments(call))
    call.refresh_from_db()
    assert call.due_at is None
    assert Webhook.objects.get().enabled is stays_on


def test_what_is_given_up_after_a_day_can_be_sent_again(settings: Any) -> None:
    settings.FEEDS_WEBHOOK_SECONDS = 60
    call = made_call()
    WebhookCall.objects.update(began_at=datetime.now(UTC) - timedelta(seconds=61))
    TASK.prepare(failed(), *arguments(call))
    assert TASK.fetch(*arguments(call)) == {}
    assert change_calls.send_again([call.pk], datetime.now(UTC)) == 1
    asked = TASK.fetch(*arguments(call))
    assert isinstance(asked, FetchRequest)
    assert asked.headers["webhook-id"] == str(call.pk)


def test_a_redirect_that_leaves_the_body_behind_is_no_delivery() -> None:
    call = made_call()
    with pytest.raises(PreparationError):
        TASK.prepare(answered(200, Hop(HOOK, 302)), *arguments(call))
    call.refresh_from_db()
    assert "redirects by 302" in call.answer


def test_a_webhook_that_takes_nothing_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_calls, "MAX_WAITING_CALLS", 2)
    sea = feed("sea")
    stuck, well = hook("stuck"), hook("well")
    for number in range(4):
        add(sea, entry(number))
        give(number + 1)
        well.calls.all().delete()  # delivered
    assert titles(stuck) == ["Entry 0", "Entry 1"]
    stuck.calls.all().delete()
    give(9)
    assert titles(stuck) == ["Entry 2", "Entry 3"]


def test_a_secret_whose_key_is_gone_is_told(settings: Any) -> None:
    call = made_call()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another key", []
    assert TASK.fetch(*arguments(call)) == {}
    call.refresh_from_db()
    assert "SECRET_KEY" in call.answer


def test_admins_make_webhooks_test_them_and_send_what_was_given_up_again(admin_client: Client) -> None:
    feed("sea", entry(1))
    numbers.number_changes(NOW)
    fields = {"name": "mine", "url": HOOK, "enabled": "on", "words": "whale"}
    page = admin_client.post(reverse("admin:feeds_webhook_add"), fields)
    secret = page.context["secret"]
    made = Webhook.objects.get()
    assert credentials.unseal_secret(made.sealed_secret) == secret
    assert made.cursor

    changes = reverse("admin:feeds_webhook_changelist")
    admin_client.post(changes, {"action": "send_test", "_selected_action": [made.pk]})
    call = made.calls.get()
    asked = TASK.fetch(*arguments(call))
    assert isinstance(asked, FetchRequest)
    assert Receiver(secret).verify(asked.body, dict(asked.headers))["type"] == "test"

    WebhookCall.objects.update(due_at=None)
    calls = reverse("admin:feeds_webhookcall_changelist")
    assert "given up" in admin_client.get(f"{calls}?state=given-up").content.decode()
    admin_client.post(calls, {"action": "send_again", "_selected_action": [str(call.pk)]})
    assert WebhookCall.objects.filter(due_at__isnull=False).exists()

    admin_client.post(changes, {"action": "replace_secret", "_selected_action": [made.pk]})
    assert credentials.unseal_secret(Webhook.objects.get().sealed_secret) != secret
    assert admin_client.get(changes).status_code == 200


@pytest.mark.parametrize(
    "fields",
    [
        *(
            {"url": url}
            for url in ("ftp://a.example.org/", "no address", "http://[::1", "https://me:key@a.example.org/")
        ),
        {"feed": "1", "category": "1"},
        {"words": 'a "b'},
    ],
)
def test_wrong_webhooks_are_refused(admin_client: Client, fields: dict[str, str]) -> None:
    feed("sea")
    named = {name: str(Feed.objects.get().pk if name == "feed" else value) for name, value in fields.items()}
    if "category" in named:
        named["category"] = str(category("wet").pk)
    page = admin_client.post(reverse("admin:feeds_webhook_add"), {"name": "mine", "url": HOOK, **named})
    assert page.status_code == 200
    assert not Webhook.objects.exists()


def test_webhooks_get_what_filters_show() -> None:
    sea = feed("sea")
    planet = category("planet", sea)
    EntryFilter.objects.create(feed=sea, words="ad")
    EntryFilter.objects.create(category=planet, action="only", words="tag:whales")
    of_feed, of_planet = hook(feed=sea), hook("planet", category=planet, with_changes=True)
    whales = {"categories": (ParsedCategory("Whales"),)}
    rows = [add(sea, entry(1, **whales)), add(sea, entry(2)), add(sea, entry(3, title="Ad", **whales))]
    filters.judge_stored(sea.pk, [row.identity for row in rows], NOW)
    give()
    assert (titles(of_feed), titles(of_planet)) == (["Entry 1", "Entry 2"], ["Entry 1"])
    Entry.objects.filter(pk=rows[0].pk).update(data={"title": "Entry 1"}, change_number=None)
    give(1)
    assert [change["change"] for change in told(of_planet)] == ["entry", "entry_removed"]
