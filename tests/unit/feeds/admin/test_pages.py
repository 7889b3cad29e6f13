"""The admin's pages of feeds: their contents, their buttons, their refusals."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.test import Client
from pytest_django import Settings

from feeds import addresses, catalogue, credentials, feed_rows, lifecycle, supplements
from feeds import opml as feeds_opml
from feeds.admin import actions
from feeds.models import ALL_SLUG, Category, Feed, Follow, Move, Scan, Supplement
from feeds.schedule.state import FeedStatus
from resources.fetch.frontier import queue
from retry import stores
from tests.conftest import RedisServers
from tests.support import admin_pages, plain_feeds
from tests.support.admin_pages import log_in_to_look, rows_of, text_of
from tests.support.plain_feeds import NOW

pytestmark = pytest.mark.django_db

LIST, CATEGORIES, FOLLOWS, SCANS = (f"/admin/feeds/{name}/" for name in ("feed", "category", "follow", "scan"))
NEW = "https://new.example/feed"


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has an item for each time that a scan was asked for. A test's own transaction is none of the site's."""
    monkeypatch.setattr(transaction, "on_commit", lambda do: do())
    found: list[str] = []
    monkeypatch.setattr(feed_rows, "ask_for_scan", lambda: found.append("scan"))
    return found


def said(response: Any) -> str:
    return " ".join(admin_pages.said(response))


def missing(page: str, *parts: str) -> list[str]:
    """The parts that a page lacks."""
    return [part for part in parts if part not in page]


def listed(client: Client, **query: str) -> list[str]:
    """The names of the feeds in the list, in its order."""
    return list(dict.fromkeys(re.findall(r"([\w-]+)\.example", text_of(client.get(LIST, query)))))


def page_of(feed: Feed) -> str:
    return f"{LIST}{feed.pk}/change/"


def choose(client: Client, action: str, *feeds: Feed, **more: str) -> Any:
    chosen = {"action": action, "_selected_action": [feed.pk for feed in feeds], **more}
    return client.post(LIST, chosen, follow=True)


def press(client: Client, feed: Feed, button: str, **more: str) -> Any:
    return client.post(f"{LIST}{feed.pk}/act/{button}/", more, follow=True)


def form(feed: Feed | None = None, /, **fields: Any) -> dict[str, Any]:
    """The fields that the form of a feed sends."""
    if feed is None:
        return fields
    shown = {"url": feed.url, "slug": feed.slug, "title": feed.title, "user": feed.user}
    initial = {f"initial-{name}": value for name, value in shown.items()}
    return {**initial, **shown, **rows_of("filters"), **fields}


def save(client: Client, feed: Feed, **fields: Any) -> Any:
    return client.post(page_of(feed), form(feed, **fields), follow=True)


def test_the_list_tells_the_health_of_all_at_a_glance(admin_client: Client) -> None:
    plain_feeds.feed("well", fetched_at=NOW, state="active", expected_seconds=7.5)
    plain_feeds.feed(
        "bad", state="failing", trouble="TLS", failures=3, failing_since=datetime.now(UTC) - timedelta(days=2)
    )
    plain_feeds.feed("fresh")
    Scan.objects.create(
        started_at=NOW, feeds=2, hosts=2, expected_seconds=1, bound_seconds=2, makespan_seconds=3, ended_at=NOW
    )
    assert not missing(
        text_of(admin_client.get(LIST)),
        *("3</span> feeds", "1</span> failing", "1</span> never fetched", "1</span> slow"),
        "no trusted TLS connection, for 2 d",
        "7.50\N{NO-BREAK SPACE}s",
        "2 feeds in 3.0 s, 1.50 times the lower bound",
    )


def test_feeds_that_are_due_and_not_fetched_are_told(admin_client: Client) -> None:
    plain_feeds.feed("late", next_check_at=datetime.now(UTC) - timedelta(hours=1))
    assert "Do <code>work</code>, <code>beat</code> and <code>fetch</code> run?" in text_of(admin_client.get(LIST))


@pytest.mark.parametrize(
    ("health", "fields"),
    [
        ("failing", {"state": "failing"}),
        ("gone", {"state": "gone"}),
        ("throttled", {"state": "throttled"}),
        ("slow", {"expected_seconds": 6.0}),
        ("pushed", {"is_pushed": True}),
        ("paused", {"paused": True, "state": "failing"}),
        ("moving", {"moving": {"url": NEW}}),
        ("new", {"fetched_at": None}),
    ],
)
def test_the_list_is_narrowed_by_health(admin_client: Client, health: str, fields: dict[str, Any]) -> None:
    plain_feeds.feed("wanted", **{"fetched_at": NOW, **fields})
    plain_feeds.feed("other", fetched_at=NOW)
    assert listed(admin_client, health=health) == ["wanted"]


def test_feeds_that_gave_the_same_bytes_are_likely_duplicates_and_stand_side_by_side(admin_client: Client) -> None:
    for name, digest in (("a", "b"), ("b", "a"), ("c", "b"), ("d", "a"), ("other", "c")):
        plain_feeds.feed(name, body_digest=digest * 64)
    assert listed(admin_client, health="twice") == ["d", "b", "c", "a"]


def test_the_list_is_narrowed_by_a_category_and_those_below_it(admin_client: Client) -> None:
    plain_feeds.feed("other")
    plain_feeds.category("europe", plain_feeds.feed("wanted"), parent=plain_feeds.category("news"))
    assert listed(admin_client, category="news") == ["wanted"]
    assert "News / Europe" in text_of(admin_client.get(LIST))


def test_the_list_is_sorted_by_expected_duration(admin_client: Client) -> None:
    for name, seconds in (("middle", 2.0), ("slow", 9.0), ("quick", 0.1)):
        plain_feeds.feed(name, expected_seconds=seconds)
    assert listed(admin_client, o="-4") == ["slow", "middle", "quick"]


def test_a_list_takes_few_queries_however_many_feeds(admin_client: Client, django_assert_max_num_queries: Any) -> None:
    for number in range(20):
        plain_feeds.feed(f"feed{number}")
    with django_assert_max_num_queries(15):
        text_of(admin_client.get(LIST))


@pytest.mark.parametrize("page", [LIST, CATEGORIES, FOLLOWS, SCANS])
def test_lists_answer_whatever_is_asked(admin_client: Client, page: str) -> None:
    plain_feeds.feed("one")
    for query in ("p=2", "q=x", "health=x", "category=x", "o=1.-2.3", "q=%00"):
        assert admin_client.get(f"{page}?{query}", follow=True).status_code == 200, query


def test_the_page_tells_why_this_time(admin_client: Client) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=30)
    feed = plain_feeds.feed("one", next_check_at=soon, reason="Publishes about every hour.", fetched_at=NOW)
    page = text_of(admin_client.get(page_of(feed)))
    assert re.search("Next check in (30|29) min, at ", page)
    assert not missing(page, "Reason", "Publishes about every hour.")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"paused": True}, "Paused: not fetched"),
        ({"flagged_at": datetime.now(UTC) - timedelta(hours=1)}, "Flagged"),
        ({"flagged_at": datetime.now(UTC) + timedelta(hours=1)}, "Pushed again soon after a fetch"),
        ({"handed_over_at": NOW}, "Queued for fetching"),
        ({}, "Due for"),
    ],
)
def test_the_page_tells_where_a_feed_stands(admin_client: Client, fields: dict[str, Any], sentence: str) -> None:
    feed = plain_feeds.feed("one", next_check_at=NOW - timedelta(days=400), **fields)
    assert sentence in text_of(admin_client.get(page_of(feed)))


def test_the_page_tells_what_a_feed_in_hand_waits_for(admin_client: Client, redis_servers: RedisServers) -> None:
    feed = plain_feeds.feed("one", handed_over_at=NOW)
    stores.run_steps(queue.block_domain(feed.host, 3600))
    assert f"{feed.host}: Blocked. An admin blocked it" in text_of(admin_client.get(page_of(feed)))


def test_the_page_shows_the_last_fetches_and_entries(admin_client: Client) -> None:
    feed = plain_feeds.feed("one")
    entry = {"data": {"content": "<p>All of <b>it</b></p>"}, "link": "https://one.example/a"}
    plain_feeds.entry(feed, "An entry", **entry)
    plain_feeds.entry(feed, "Bad <link>", link="javascript:alert(1)", left_at=NOW)
    for outcome in ("fetched", "not modified", "throttled"):
        plain_feeds.timing(feed, 0.25, outcome)
    response = admin_client.get(page_of(feed))
    assert not missing(
        text_of(response),
        "Last 3 fetches: 1 downloaded, 1 not modified, 1 failed",
        'class="fetch-failed"',
        '<a href="https://one.example/a" rel="noopener noreferrer nofollow">An entry</a>',
        "All of it",
        "no longer in the feed",
    )
    assert "javascript:" not in text_of(response)
    assert "Bad &lt;link&gt;" in response.content.decode()


def test_fetch_now_flags_feeds_and_asks_for_a_scan(admin_client: Client, asked: list[str]) -> None:
    feed, paused = plain_feeds.feed("one"), plain_feeds.feed("two", paused=True)
    asked.clear()
    message = said(choose(admin_client, "fetch_now", feed, paused))
    assert not missing(message, "Queued for fetching: one.", "Not fetched, because paused: 1.")
    assert asked == ["scan"]
    assert list(Feed.objects.exclude(flagged_at=None)) == [feed]


def test_pausing_and_resuming_change_what_is_combined(admin_client: Client) -> None:
    feed = plain_feeds.feed("one")
    for button, paused in (("pause", True), ("resume", False)):
        before = Category.objects.get(slug=ALL_SLUG).version
        press(admin_client, feed, button)
        feed.refresh_from_db()
        assert feed.paused is paused
        assert Category.objects.get(slug=ALL_SLUG).version > before


def test_a_pause_that_is_there_is_no_change(admin_client: Client) -> None:
    assert "Nothing was changed" in said(choose(admin_client, "pause", plain_feeds.feed("one", paused=True)))


def test_a_redirect_is_adopted_and_taken_back(admin_client: Client, asked: list[str]) -> None:
    feed = plain_feeds.feed("one", moving={"url": NEW, "times": 2})
    asked.clear()
    assert f"Permanent redirect to {NEW}" in text_of(admin_client.get(page_of(feed)))
    assert "Address updated" in said(press(admin_client, feed, "adopt"))
    feed.refresh_from_db()
    assert feed.url == NEW
    assert ">Undo</button>" in text_of(admin_client.get(page_of(feed)))
    press(admin_client, feed, "bring-back")
    feed.refresh_from_db()
    assert (feed.url, feed.refused_moves) == ("https://one.example/feed", [NEW])
    assert asked == ["scan", "scan"]


def test_what_stands_in_the_way_of_a_move_is_said_and_stops_no_other(admin_client: Client) -> None:
    there, stuck, free = plain_feeds.feed("there"), plain_feeds.feed("stuck"), plain_feeds.feed("free")
    Feed.objects.filter(pk=stuck.pk).update(moving={"url": there.url})
    Feed.objects.filter(pk=free.pk).update(moving={"url": NEW})
    assert not missing(
        said(choose(admin_client, "adopt", stuck, free)), "stuck: Another feed has the address", "“there”"
    )
    assert Feed.objects.get(url=NEW) == free


def test_another_feed_of_its_page_can_be_taken(admin_client: Client) -> None:
    feed = plain_feeds.feed("one", discovered=[{"url": "https://one.example/feed"}, {"url": NEW, "title": "New"}])
    assert NEW in text_of(admin_client.get(page_of(feed)))
    press(admin_client, feed, "choose", url="https://evil.example/")
    assert not Move.objects.exists()
    press(admin_client, feed, "choose", url=NEW)
    assert Feed.objects.get().url == NEW


def test_merging_asks_which_is_kept(admin_client: Client) -> None:
    one, two = plain_feeds.feed("one", subscriber_count=1), plain_feeds.feed("two", subscriber_count=5)
    plain_feeds.entry(one, "same")
    plain_feeds.entry(two, "same")
    page = text_of(choose(admin_client, "merge", one, two))
    assert f'value="{two.pk}" checked' in page
    assert "no entry in common" not in page
    assert "Feeds merged into “one”: 1." in said(choose(admin_client, "merge", one, two, kept=str(one.pk)))
    assert Feed.objects.get() == one


def test_merging_proposes_a_healthy_feed_before_a_failing_one_with_more_subscribers(admin_client: Client) -> None:
    healthy = plain_feeds.feed("one", fetched_at=NOW, subscriber_count=1)
    failing = plain_feeds.feed("two", fetched_at=NOW, subscriber_count=5, state=FeedStatus.FAILING.value)
    assert f'value="{healthy.pk}" checked' in text_of(choose(admin_client, "merge", failing, healthy))


def test_feeds_without_a_common_entry_are_merged_only_after_a_warning(admin_client: Client) -> None:
    one, two = plain_feeds.feed("one"), plain_feeds.feed("two")
    plain_feeds.entry(one, "this")
    plain_feeds.entry(two, "that")
    assert "no entry in common" in text_of(choose(admin_client, "merge", one, two))
    assert Feed.objects.count() == 2
    assert "Select 2 to" in said(choose(admin_client, "merge", one))


def test_chosen_feeds_are_exported_without_passwords(admin_client: Client) -> None:
    feed = plain_feeds.feed("one", user="me", sealed_password=credentials.seal_password("secret"))
    plain_feeds.feed("other")
    response = choose(admin_client, "export", feed)
    assert response["Content-Disposition"].startswith('attachment; filename="feeds-')
    assert b"secret" not in response.content
    assert [each.address.url for each in feeds_opml.parse_opml(response.content).subscriptions] == [feed.url]


def test_a_feed_is_added_by_its_address_alone(admin_client: Client, asked: list[str]) -> None:
    response = admin_client.post(f"{LIST}add/", form(url="me:pw@new.example/feed"), follow=True)
    assert response.status_code == 200
    response = admin_client.post(f"{LIST}add/", form(url="https://me:pw@new.example/feed", title="New"), follow=True)
    feed = Feed.objects.get(url=NEW)
    assert (feed.slug, feed.user, credentials.unseal_password(feed)) == ("new", "me", "pw")
    assert feed.flagged_at is not None
    assert asked == ["scan"] * 2  # it is new, and it is flagged: the first scan counts for both


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"url": "ftp://x.example/"}, "Only http and https"),
        ({"url": "https://one.example/feed#again"}, "already exists: “one”"),
        ({"url": NEW, "password": "p"}, "user of this password"),
        ({"url": NEW, "user": "a:b"}, "no colon"),
        ({"url": NEW, "headers": "nonsense"}, "one header per line"),
        ({"url": NEW, "headers": "Host: x"}, "cannot be sent"),
        ({"url": NEW, "headers": "X-A: 1\nx-a: 2"}, "twice"),
        ({"url": NEW, "headers": "\n".join(f"X-{n}: 1" for n in range(30))}, "at most 20 headers"),
        ({"url": NEW, "least_seconds": "100", "most_seconds": "60"}, "below the minimum"),
        ({"url": NEW, "least_seconds": "1"}, "greater than or equal to 60"),
        ({"url": NEW, "most_seconds": "2592001"}, "less than or equal to 2592000"),
        ({"url": ""}, "required"),
        ({"url": NEW, "title": "\0"}, "Null characters"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(admin_client: Client, fields: dict[str, str], message: str) -> None:
    plain_feeds.feed("one")
    assert message in text_of(admin_client.post(f"{LIST}add/", form(**fields)))
    assert Feed.objects.count() == 1


def test_headers_and_bounds_of_a_new_feed_are_kept(admin_client: Client) -> None:
    admin_client.post(f"{LIST}add/", form(url=NEW, headers="X-Key: k", least_seconds="60", title="New"))
    feed = Feed.objects.get()
    assert credentials.request_headers(feed) == {"X-Key": "k"}
    assert feed.least_seconds == 60


def test_secrets_are_never_shown_and_stay_where_nothing_is_typed(admin_client: Client) -> None:
    feed = plain_feeds.feed(
        "one",
        user="me",
        sealed_password=credentials.seal_password("secret"),
        sealed_headers=credentials.seal_headers({"X-Key": "covert"}),
    )
    page = text_of(admin_client.get(page_of(feed)))
    assert "secret" not in page
    assert "covert" not in page
    assert "A password is stored." in page
    save(admin_client, feed, title="Renamed")
    feed.refresh_from_db()
    assert (feed.title, credentials.unseal_password(feed)) == ("Renamed", "secret")
    assert credentials.unseal_headers(feed) == {"X-Key": "covert"}
    save(admin_client, feed, user="", forget_headers="on")
    feed.refresh_from_db()
    assert not credentials.is_private(feed)


def test_another_address_is_a_move_and_leaves_secrets_behind(admin_client: Client, asked: list[str]) -> None:
    feed = plain_feeds.feed("one", user="me", sealed_password=credentials.seal_password("secret"))
    asked.clear()
    assert "headers were removed" in said(save(admin_client, feed, url=NEW))
    feed.refresh_from_db()
    assert (feed.url, feed.user, feed.sealed_password) == (NEW, "", "")
    assert Move.objects.get().new_url == NEW
    assert asked == ["scan"]


def test_another_address_with_user_and_password_takes_those(admin_client: Client) -> None:
    feed = plain_feeds.feed("one", etag='"a"', body_digest="b")
    save(admin_client, feed, url="https://me:pw@new.example/feed")
    feed.refresh_from_db()
    assert (feed.url, feed.user, credentials.unseal_password(feed)) == (NEW, "me", "pw")
    assert (feed.etag, feed.body_digest) == ("", "")


def test_saving_the_form_overwrites_nothing_that_fetchers_wrote_and_moved_meanwhile(admin_client: Client) -> None:
    feed = plain_feeds.feed("one")
    sent = form(feed, title="Renamed")
    Feed.objects.filter(pk=feed.pk).update(own_title="Read just now", failures=3, paused=True)
    lifecycle.try_move_feed(feed.pk, NEW, "It has moved.", NOW)
    admin_client.post(page_of(feed), sent)
    feed.refresh_from_db()
    assert (feed.title, feed.own_title, feed.failures, feed.paused) == ("Renamed", "Read just now", 3, True)
    assert (feed.url, Move.objects.count()) == (NEW, 1)


def test_another_slug_leaves_the_old_one_leading_to_the_feed(admin_client: Client) -> None:
    feed = plain_feeds.feed("one")
    for slug in ("other", "one", "third"):
        save(admin_client, feed, slug=slug)
    assert feed_rows.current_slug("other") == feed_rows.current_slug("one") == "third"
    added, _ = catalogue.add_feed(addresses.read_address("https://else.example/feed"), title="one", now=plain_feeds.NOW)
    assert added.slug == "one-2"


@pytest.mark.parametrize("slug", ["all", "category", "Über", "a b", "-a", ""])
def test_slugs_that_cannot_be_are_refused(admin_client: Client, slug: str) -> None:
    assert "Please correct the error" in text_of(save(admin_client, plain_feeds.feed("one"), slug=slug))


def test_a_feed_that_came_to_the_address_since_the_form_was_checked_is_said(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, there = plain_feeds.feed("one"), plain_feeds.feed("two")
    sent = form(feed, url=there.url)
    monkeypatch.setattr("feeds.admin.forms.ChangeFeedForm._clean_address", _unchecked)
    response = admin_client.post(page_of(feed), sent, follow=True)
    assert "Nothing was changed: Another feed has the address" in said(response)


def _unchecked(self: Any, cleaned: dict[str, Any]) -> None:
    self.address = addresses.read_address(cleaned["url"])


def test_categories_of_a_feed_change_what_they_give(admin_client: Client) -> None:
    feed = plain_feeds.feed("one")
    old, new = plain_feeds.category("old", feed), plain_feeds.category("new")
    save(admin_client, feed, categories=[new.pk])
    assert min(Category.objects.filter(pk__in=[old.pk, new.pk]).values_list("version", flat=True)) > 0
    assert list(feed.categories.all()) == [new]
    assert Category.objects.get(pk=old.pk).least_version > 0


def test_deleting_names_feeds_and_not_their_entries(admin_client: Client) -> None:
    feed = plain_feeds.feed("one")
    plain_feeds.entry(feed, "An entry")
    news = plain_feeds.category("news", feed)
    page = text_of(choose(admin_client, "delete_selected", feed))
    assert feed.url in page
    assert "An entry" not in page
    choose(admin_client, "delete_selected", feed, post="yes")
    news.refresh_from_db()
    assert news.version > 0
    other = plain_feeds.feed("other")
    admin_client.post(f"{LIST}{other.pk}/delete/", {"post": "yes"})
    assert not Feed.objects.exists()


@pytest.mark.parametrize("action", ["fetch_now", "pause", "resume", "export", "bring_back", "delete_selected"])
def test_more_than_main_does_in_one_go_is_refused(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    for name in ("MAX_ACTED_FEEDS", "MAX_MOVED_FEEDS", "MAX_EXPORTED_FEEDS"):
        monkeypatch.setattr(actions, name, 1)
    page = text_of(choose(admin_client, action, plain_feeds.feed("one"), plain_feeds.feed("two")))
    assert "Nothing was changed" in page
    assert ("manage.py export_opml" in page) is (action == "export")
    assert Feed.objects.filter(paused=False, flagged_at=None).count() == 2


def test_what_was_done_with_many_is_logged_at_once(admin_client: Client, django_assert_max_num_queries: Any) -> None:
    feeds = [plain_feeds.feed(f"f{number}") for number in range(25)]
    with django_assert_max_num_queries(52):  # the list that follows takes most of them
        choose(admin_client, "pause", *feeds)
    assert LogEntry.objects.filter(change_message__contains="Paused").count() == 25


def opml(*urls: str) -> SimpleUploadedFile:
    outlines = "".join(f'<outline type="rss" xmlUrl="{url}"/>' for url in urls)
    return SimpleUploadedFile("list.opml", f"<opml><body>{outlines}</body></opml>".encode())


def test_a_list_is_imported_after_saying_what_it_would_do(admin_client: Client, asked: list[str]) -> None:
    plain_feeds.feed("one")
    asked.clear()
    urls = (NEW, "https://one.example/feed", "gopher://x")
    page = text_of(admin_client.post(f"{LIST}import/", {"file": opml(*urls), "dry_run": "on"}))
    assert not missing(page, NEW, "Only http and https are fetched.")
    assert Feed.objects.count() == 1
    response = admin_client.post(f"{LIST}import/", {"file": opml(*urls), "follow": "on"}, follow=True)
    assert not missing(said(response), "Feeds added: 1, already present: 1", "Only http and https are fetched.")
    assert Follow.objects.count() == 2
    assert asked == ["scan"]


@pytest.mark.parametrize("content", [b"", b"<html></html>", b"\x00\xff"])
def test_what_is_no_list_is_refused_in_the_form(admin_client: Client, content: bytes) -> None:
    page = text_of(admin_client.post(f"{LIST}import/", {"file": SimpleUploadedFile("x", content)}))
    assert "errorlist" in page


def test_a_list_that_takes_too_long_is_for_the_command(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MAX_IMPORTED_FEEDS", 1)
    page = text_of(admin_client.post(f"{LIST}import/", {"file": opml(NEW, "https://b.example/")}))
    assert "manage.py import_opml" in page


def test_what_is_added_while_too_many_others_are_is_said_to_be_to_try_again(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "CREATE_ATTEMPTS", 0)
    adding_one = admin_client.post(f"{LIST}add/", form(url=NEW, title="", user=""), follow=True)
    importing_some = admin_client.post(f"{LIST}import/", {"file": opml(NEW)}, follow=True)
    for answer in (adding_one, importing_some):
        assert "Too many feeds are being added at once. Try again." in said(answer)
    assert not Feed.objects.exists()


def test_categories_show_where_they_stand_and_what_they_hold(admin_client: Client) -> None:
    plain_feeds.category("europe", plain_feeds.feed("one"), parent=plain_feeds.category("news"))
    page = text_of(admin_client.get(CATEGORIES))
    assert not missing(page, "News / Europe", "/feeds/category/europe.atom", "/feeds/all.atom")


def test_a_category_cannot_stand_in_itself(admin_client: Client) -> None:
    news = plain_feeds.category("news")
    europe = plain_feeds.category("europe", parent=news)
    page = f"{CATEGORIES}{news.pk}/change/"
    assert "cannot contain itself" in text_of(
        admin_client.post(page, {"title": "N", "slug": "news", "parent": europe.pk})
    )


def test_nothing_is_put_into_the_category_that_has_everything_anyway(admin_client: Client) -> None:
    feed, everything = plain_feeds.feed("one"), Category.objects.get(slug=ALL_SLUG)
    save(admin_client, feed, categories=[everything.pk])
    assert not feed.categories.exists()
    sent = {"title": "News", "slug": "news", **rows_of("filters")}
    admin_client.post(f"{CATEGORIES}add/", {**sent, "parent": everything.pk})
    assert Category.objects.get(slug="news").parent is None


def test_a_category_that_moves_changes_what_is_around_it(admin_client: Client) -> None:
    old, new = plain_feeds.category("old"), plain_feeds.category("new")
    moved = plain_feeds.category("moved", parent=old)
    sent = {"title": "moved", "slug": "moved", "parent": new.pk, **rows_of("filters")}
    admin_client.post(f"{CATEGORIES}{moved.pk}/change/", sent)
    moved.refresh_from_db()
    assert moved.parent == new
    assert min(Category.objects.exclude(slug=ALL_SLUG).values_list("version", flat=True)) > 0
    assert Category.objects.get(pk=old.pk).least_version > 0


def test_the_category_of_everything_stays(admin_client: Client) -> None:
    everything = Category.objects.get(slug=ALL_SLUG)
    assert admin_client.post(f"{CATEGORIES}{everything.pk}/delete/", {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [everything.pk], "post": "yes"}
    admin_client.post(CATEGORIES, chosen)
    sent = {"title": "All of it", "slug": "other", **rows_of("filters")}
    admin_client.post(f"{CATEGORIES}{everything.pk}/change/", sent)
    everything.refresh_from_db()
    assert (everything.slug, everything.title) == (ALL_SLUG, "All of it")


def test_a_category_that_goes_takes_those_below_along_and_leaves_the_feeds(admin_client: Client) -> None:
    news = plain_feeds.category("news")
    plain_feeds.category("europe", plain_feeds.feed("one"), parent=news)
    assert "News / Europe" in text_of(admin_client.get(f"{CATEGORIES}{news.pk}/delete/"))
    admin_client.post(f"{CATEGORIES}{news.pk}/delete/", {"post": "yes"})
    assert [category.slug for category in Category.objects.all()] == [ALL_SLUG]
    assert Feed.objects.count() == 1


def test_follows_are_counted_when_they_come_and_go(admin_client: Client, admin_user: User) -> None:
    feed = plain_feeds.feed("one")
    admin_client.post(f"{FOLLOWS}add/", {"user": admin_user.pk, "feed": feed.pk})
    feed.refresh_from_db()
    assert feed.subscriber_count == 1
    admin_client.post(f"{FOLLOWS}{Follow.objects.get().pk}/delete/", {"post": "yes"})
    feed.refresh_from_db()
    assert feed.subscriber_count == 0


def test_scans_are_told_with_their_bound(admin_client: Client) -> None:
    Scan.objects.create(started_at=NOW, feeds=5, hosts=3, expected_seconds=10)
    Scan.objects.create(
        started_at=NOW, feeds=5, hosts=3, expected_seconds=10, bound_seconds=20, makespan_seconds=21, ended_at=NOW
    )
    assert not missing(text_of(admin_client.get(SCANS)), "running, began", "1.05")


def test_the_page_of_a_scan_draws_its_fetches_and_the_bound(client: Client) -> None:
    sea, land = plain_feeds.feed("sea"), plain_feeds.feed("land")
    ended = {"ended_at": NOW, "makespan_seconds": 4.0, "bound_seconds": 3.0}
    scan, other = (Scan.objects.create(started_at=NOW, feeds=2, hosts=2, expected_seconds=1, **ended) for _ in "ab")
    plain_feeds.timing(sea, 3.0, scan=scan.pk)
    plain_feeds.timing(land, 1.0, "transient", NOW + timedelta(seconds=3), scan.pk)
    plain_feeds.timing(land, 99.0, scan=other.pk)
    log_in_to_look(client, "scan")
    assert f'href="{SCANS}{scan.pk}/change/"' in text_of(client.get(SCANS))
    page = text_of(client.get(f"{SCANS}{scan.pk}/change/"))
    bars = re.findall(r'<rect class="(fetch-\w+)" x="(\S+)" .*?<title>(.*?)</title>', page)
    assert bars == [
        ("fetch-new", "0.0", "sea: 3.00 s, from 0.0 s on"),
        ("fetch-failed", "540.0", "land: 1.00 s, from 3.0 s on"),
    ]
    assert not missing(page, '<polyline class="rate" points="540.0,0 540.0,100"/>', "2 fetches, at most 1 at once")


def test_the_list_says_in_one_sentence_that_no_feed_can_be_pushed(admin_client: Client, settings: Settings) -> None:
    settings.FEEDS_PUSH_NOTE = "Feeds are polled only."
    assert text_of(admin_client.get(LIST)).count("Feeds are polled only.") == 1
    settings.FEEDS_PUSH_NOTE = ""
    assert "polled only" not in text_of(admin_client.get(LIST))


@pytest.mark.parametrize("button", ["fetch", "pause", "resume", "adopt", "bring-back", "choose"])
def test_who_may_only_look_can_press_no_button(client: Client, button: str) -> None:
    feed = plain_feeds.feed("one", moving={"url": NEW})
    log_in_to_look(client, "feed")
    page = text_of(client.get(page_of(feed)))
    assert "Reason" in page
    assert "/act/" not in page
    assert client.post(f"{LIST}{feed.pk}/act/{button}/").status_code == 403
    assert client.get(f"{LIST}import/").status_code == 403


def test_buttons_that_there_are_not_and_feeds_that_are_gone_are_not_found(admin_client: Client) -> None:
    feed = plain_feeds.feed("one")
    assert admin_client.post(f"{LIST}{feed.pk}/act/nonsense/").status_code == 404
    assert admin_client.post(f"{LIST}0/act/pause/").status_code == 404
    assert admin_client.get(f"{LIST}{feed.pk}/act/pause/").status_code == 405


def test_moves_are_listed_with_what_was_taken_back(admin_client: Client) -> None:
    feed = plain_feeds.feed("one")
    lifecycle.try_move_feed(feed.pk, NEW, "It has moved.", NOW)
    lifecycle.undo_move(Move.objects.get().pk, NOW)
    page = text_of(admin_client.get(page_of(feed)))
    assert not missing(page, "It has moved.", "22 Nov 2026 12:00")
    assert ">Undo</button>" not in page


def test_a_feeds_page_says_when_readers_are_not_counted(admin_client: Client, settings: Settings) -> None:
    feed = plain_feeds.feed("one", reader_count=7, subscriber_count=7)
    assert "0 followers, 7 readers" in text_of(admin_client.get(page_of(feed)))
    settings.OBSERVE = False
    assert "7 readers (no longer counted: OBSERVE=0)" in text_of(admin_client.get(page_of(feed)))


def test_a_feeds_page_says_who_can_read_it(admin_client: Client) -> None:
    feed = plain_feeds.feed("one", user="me")
    assert b"Public, although fetched with a user, a password or headers" in admin_client.get(page_of(feed)).content
    Feed.objects.update(is_hidden=True)
    assert b"Hidden: readable only in the admin" in admin_client.get(page_of(feed)).content


def test_full_articles_are_switched_on_and_what_is_missing_is_told_with_the_reason(admin_client: Client) -> None:
    row = plain_feeds.feed("blog")
    link = "https://blog.example/tide"
    entry = plain_feeds.entry(row, "Tide", link=link, data={"link": link, "content": "Cut…"})
    assert "not fetched" in text_of(admin_client.get(page_of(row)))
    save(admin_client, row, full_content="on")
    row.refresh_from_db()
    assert row.full_content
    wanted = Supplement.objects.get(entry=entry)
    assert "0 shown, 1 waiting, 0 without" in text_of(admin_client.get(page_of(row)))
    supplements.end_supplement(wanted, NOW, "No article was found on the page.")
    page = text_of(admin_client.get(page_of(row)))
    assert missing(page, "0 shown, 0 waiting, 1 without", "No article was found on the page.") == []
