"""The storing of a fetch: fenced, all or nothing; and of answers with the times of a clock that was ahead."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pytest
from multidict import CIMultiDict

from feeds import addresses, lifecycle, readings, versions
from feeds.models import Category, Entry, EntryFilter, Feed
from feeds.readings import BodyToRead, FeedReading
from feeds.scan import store as scan_store
from feeds.scan.store import FetchResult, KeptEntries, StoreOutcome
from feeds.schedule.next_check import FeedRead, FeedUnchanged, FeedUnreadable
from resources.fetch.http.messages import Body, Failure, Fetched, FetchFailed, Head, Hop, NotModified, OutcomeTiming
from tests.support import plain_feeds
from tests.support.feed_scans import rss, subscribe, titles

pytestmark = pytest.mark.django_db

URL = "https://example.org/feed"
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def one() -> Feed:
    return subscribe(URL, "one", next_check_at=NOW)


def head(status: int = 200, etag: str | None = None, last_modified: str | None = None) -> Head:
    return Head(status, URL, CIMultiDict(), etag=etag, last_modified=last_modified)


def came(
    kept: KeptEntries, body: bytes, began_at: datetime = NOW, seconds: float = 1.0, answer: Head | None = None
) -> FetchResult:
    question = BodyToRead("application/rss+xml", URL, began_at, tuple(kept.marks.values()))
    found = readings.read_feed_body(body, question)
    outcome = Fetched(
        answer or head(), Body(len(body), f"{len(body):064}", body), OutcomeTiming(began_at.timestamp(), seconds)
    )
    if isinstance(found, FeedReading):
        return FetchResult(outcome, FeedRead(outcome.head, is_same=found.is_same), began_at, found)
    return FetchResult(outcome, FeedUnreadable(found.why), began_at)


def store(
    feed: Feed, body: bytes, began_at: datetime = NOW, seconds: float = 1.0, answer: Head | None = None
) -> StoreOutcome:
    kept = loaded(feed)
    return scan_store.store_result(feed, kept, came(kept, body, began_at, seconds, answer), began_at)


def loaded(feed: Feed) -> KeptEntries:
    """The feed's entries, once its row is read anew."""
    feed.refresh_from_db()
    return KeptEntries.of(feed)


def minutes(number: int) -> datetime:
    return NOW + timedelta(minutes=number)


@pytest.mark.parametrize("ahead", [0, 2], ids=["right", "a little ahead"])
def test_a_result_that_was_overtaken_by_any_clock_changes_nothing(one: Feed, ahead: int) -> None:
    kept = loaded(one)
    old = came(kept, rss("old"), minutes(-1))
    assert store(one, rss("new"), NOW + timedelta(seconds=ahead)) is StoreOutcome.STORED

    assert scan_store.store_result(one, kept, old, NOW) is StoreOutcome.OVERTAKEN
    assert titles() == ["new"]


def test_a_result_that_began_in_the_future_overtakes_nothing(one: Feed) -> None:
    assert store(one, rss("of a clock that was ahead"), minutes(60)) is StoreOutcome.STORED
    assert store(one, rss("new"), minutes(0)) is StoreOutcome.STORED
    assert "new" in titles()


def test_a_result_that_was_compared_with_what_is_no_more_is_compared_anew(one: Feed) -> None:
    kept = loaded(one)
    late = came(kept, rss("old edited"), minutes(5))
    store(one, rss("old"))

    assert scan_store.store_result(one, kept, late, minutes(6)) is StoreOutcome.AGAIN
    assert titles() == ["old"]


def test_a_body_is_compared_until_nothing_comes_between(one: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = [StoreOutcome.AGAIN, StoreOutcome.STORED]
    monkeypatch.setattr(scan_store, "store_result", lambda *_: outcomes.pop(0))
    unchanged = NotModified(head(304), OutcomeTiming(NOW.timestamp(), 1.0))
    assert scan_store.settle_fetch(one.pk, URL, unchanged, NOW) is StoreOutcome.STORED
    assert outcomes == []


@pytest.mark.parametrize("was_fetched", [True, False])
def test_what_is_merged_into_a_feed_while_it_is_read_is_not_there_twice(one: Feed, *, was_fetched: bool) -> None:
    other = subscribe(f"{URL}/other", "other")
    store(other, rss("both"))
    if was_fetched:
        store(one, b"<rss version='2.0'><channel><title>A feed</title></channel></rss>", minutes(-9))
    kept = loaded(one)
    same = rss("both").replace(b">both</guid>", b">another id</guid>")
    late = came(kept, same, minutes(5))
    lifecycle.merge_feeds(one.pk, [other.pk], minutes(5))

    assert scan_store.store_result(one, kept, late, minutes(6)) is StoreOutcome.AGAIN
    kept = loaded(one)
    assert scan_store.store_result(one, kept, came(kept, same, minutes(5)), minutes(6)) is StoreOutcome.STORED
    assert titles() == ["both"]


def test_a_feed_that_moves_to_where_another_one_is_stays_and_says_so(one: Feed) -> None:
    there = subscribe(f"{URL}/there", "there", key_digest=addresses.read_address(f"{URL}/there").key_digest)
    seen = {"url": there.url, "first_at": minutes(-9999).isoformat(), "last_at": minutes(-999).isoformat(), "times": 2}
    Feed.objects.filter(pk=one.pk).update(moving=seen, fetched_at=minutes(-9), own_title="A feed")
    moved = replace(head(), url=there.url, hops=(Hop(URL, 301),))
    assert store(one, rss("one"), answer=moved) is StoreOutcome.STORED

    one.refresh_from_db()
    assert (one.url, one.moving) == (URL, seen)
    assert "the address of “there”. Merge the two." in one.reason
    assert "Moved permanently" not in one.reason


def test_what_came_from_an_earlier_address_is_not_stored(one: Feed) -> None:
    kept = loaded(one)
    Feed.objects.filter(pk=one.pk).update(url=f"{URL}/new")

    assert scan_store.store_result(one, kept, came(kept, rss("one")), NOW) is StoreOutcome.GONE
    assert titles() == []


def test_a_failure_in_the_middle_leaves_all_as_it_was(one: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "touch_combinations", Mock(side_effect=RuntimeError))
    with pytest.raises(RuntimeError):
        store(one, rss("one"))

    one.refresh_from_db()
    assert (titles(), one.fetched_at, one.version) == ([], None, 0)


def test_entries_of_other_ids_are_the_same_rows(one: Feed) -> None:
    store(one, rss("one", "two"))
    before = set(Entry.objects.values_list("pk", "title", "first_seen_at", "changed_at"))
    changed = rss("one", "two").replace(b">one</guid>", b">another</guid>")
    store(one, changed, minutes(5))

    assert set(Entry.objects.values_list("pk", "title", "first_seen_at", "changed_at")) == before
    assert Entry.objects.get(title="one").data["id"] == "another"


def test_what_left_and_is_back_has_not_left(one: Feed) -> None:
    for minute, entries in enumerate([("one", "two"), ("two",), ("one", "two")]):
        store(one, rss(*entries), minutes(minute))
        assert Entry.objects.filter(left_at__isnull=False).count() == 2 - len(entries)
    assert titles() == ["one", "two"]


def test_an_edited_entry_without_a_date_keeps_its_place(one: Feed) -> None:
    undated = rss("one").replace(b"pubDate", b"noDate")
    store(one, undated)
    happened_at = Entry.objects.get().happened_at
    store(one, undated.replace(b"<title>one", b"<title>one edited"), minutes(60))

    assert Entry.objects.get().title == "one edited"
    assert Entry.objects.get().happened_at == happened_at


def test_versions_grow_only_where_something_else_is_served(one: Feed) -> None:
    outer = Category.objects.create(slug="outer", title="Outer")
    inner = Category.objects.create(slug="inner", title="Inner", parent=outer)
    aside = Category.objects.create(slug="aside", title="Aside")
    one.categories.add(inner)
    store(one, rss("one", more="<lastBuildDate>Sun, 01 Nov 2026 12:00:00 GMT</lastBuildDate>"))
    first = served(one, inner, outer)
    store(one, rss("one", more="<lastBuildDate>Sun, 01 Nov 2026 12:05:00 GMT</lastBuildDate>"), minutes(5))
    assert served(one, inner, outer) == first

    store(one, rss("one", title="Another title"), minutes(6))
    assert all(after > before for before, after in zip(first, served(one, inner, outer), strict=True))
    aside.refresh_from_db()
    assert aside.version == 0


def served(*rows: Feed | Category) -> list[int]:
    for row in rows:
        row.refresh_from_db()
    return [row.version for row in rows]


def test_validators_are_kept_as_they_came_and_a_304_need_not_repeat_them(one: Feed) -> None:
    store(one, rss("one"), answer=head(200, 'W/"a b"', "yesterday"))
    one.refresh_from_db()
    same = NotModified(replace(head(304), etag=None), OutcomeTiming(minutes(5).timestamp(), 1.0))
    scan_store.store_result(
        one, KeptEntries.of(one), FetchResult(same, FeedUnchanged(same.head), minutes(5)), minutes(5)
    )

    one.refresh_from_db()
    assert (one.etag, one.last_modified, one.validated_url) == ('W/"a b"', "yesterday", URL)


def test_what_is_no_feed_leaves_no_validators_by_which_it_would_pass_for_one(one: Feed) -> None:
    store(one, b"<!doctype html>", answer=head(200, '"page"'))

    one.refresh_from_db()
    assert (one.etag, one.body_digest, one.fetched_at, one.trouble) == ("", "", None, "UNREADABLE")


def test_it_is_expected_to_take_as_long_as_its_last_complete_fetches_on_average(one: Feed) -> None:
    for seconds, outcome in ((2.0, "fetched"), (6.0, "too slow"), (100.0, "throttled"), (100.0, "ours")):
        plain_feeds.timing(one, seconds, outcome, minutes(-5))
    store(one, rss("one"), seconds=1.0)

    one.refresh_from_db()
    assert one.expected_seconds == 3.0


def test_a_failure_keeps_what_was_read(one: Feed) -> None:
    store(one, rss("one"), answer=head(200, '"a"'))
    one.refresh_from_db()
    failed = FetchFailed(Failure.TRANSIENT, "answered 500", OutcomeTiming(minutes(5).timestamp(), 0.5), status=500)
    scan_store.store_result(one, KeptEntries.of(one), FetchResult(failed, failed, minutes(5)), minutes(5))

    one.refresh_from_db()
    assert (one.state, one.trouble, one.failures, one.etag) == ("failing", "SERVER", 1, '"a"')
    assert (one.own_title, titles()) == ("A feed", ["one"])


@pytest.mark.parametrize(("began_at", "stays"), [(NOW - timedelta(seconds=2), False), (NOW + timedelta(hours=1), True)])
def test_a_flag_is_done_with_only_by_a_fetch_that_is_known_to_have_begun_after_it(
    began_at: datetime, stays: bool
) -> None:
    one = subscribe(URL, flagged_at=NOW - timedelta(seconds=3))
    failed = FetchFailed(Failure.TRANSIENT, "It hung up.", OutcomeTiming(began_at.timestamp(), 2.0))
    assert scan_store.settle_fetch(one.pk, URL, failed, NOW) is StoreOutcome.STORED
    found = Feed.objects.get()
    assert (found.flagged_at is not None) is stays
    assert found.fetch_began_at
    assert found.fetch_began_at <= NOW


def item(guid: str, link: str = "", title: str = "Title") -> str:
    return f'<item><guid isPermaLink="false">{guid}</guid><link>{link}</link><title>{title}</title></item>'


def document(*items: str) -> bytes:
    return f"<rss version='2.0'><channel><title>A feed</title>{''.join(items)}</channel></rss>".encode()


def shared_ids(feed: Feed) -> dict[str, int]:
    return dict(feed.entries.values_list("title", "shared_id"))


def test_entries_note_that_another_feed_had_their_id_first(one: Feed) -> None:
    other = subscribe(f"{URL}/other", "other")
    store(one, document(item("urn:x:1", title="First"), item("urn:x:2", title="Second")))
    linked = item("", "https://example.org/3", "Linked")
    store(other, document(item("urn:x:1", title="Copied"), item("urn:x:9", title="Own"), linked), minutes(1))
    store(one, document(item("https://example.org/3", title="Third")), minutes(2))

    assert shared_ids(other) == {"Copied": 1, "Own": 0, "Linked": 0}
    assert shared_ids(one) == {"First": 0, "Second": 0, "Third": 1}


def test_edits_of_entries_change_nothing_of_who_had_their_id_first(one: Feed) -> None:
    other = subscribe(f"{URL}/other", "other")
    store(one, document(item("urn:x:1")))
    store(other, document(item("urn:x:1")), minutes(1))
    lifecycle.remove_feeds([one.pk], minutes(2))
    store(other, document(item("urn:x:1", title="Edited")), minutes(3))
    assert shared_ids(other) == {"Edited": 1}


def test_entries_that_link_to_one_page_have_no_id_of_their_own(one: Feed) -> None:
    link = "https://example.org/"
    store(one, document(item("", link, "First")))
    store(one, document(item("", link, "Second"), item("", link, "First")), minutes(1))
    assert shared_ids(one) == {"First": 0, "Second": 2}


def test_hidden_feeds_do_not_show_by_the_ids_of_others(one: Feed) -> None:
    Feed.objects.filter(pk=one.pk).update(is_hidden=True)
    other = subscribe(f"{URL}/other", "other")
    store(one, document(item("urn:x:1")))
    store(other, document(item("urn:x:1")), minutes(1))
    assert shared_ids(other) == {"Title": 0}


def test_new_and_edited_entries_are_judged_by_the_filters_while_they_are_stored(one: Feed) -> None:
    EntryFilter.objects.create(feed=one, words="whale")
    EntryFilter.objects.create(feed=one, pattern="\\bad\\b", field="title")
    store(one, rss("1 whale", "2 ad", "3 tern"))
    assert hidden() == {"1 whale", "2 ad"}
    store(one, rss("1 gull", "2 ad", "3 tern ad", "4 whale"), NOW + timedelta(hours=1))
    assert hidden() == {"2 ad", "3 tern ad", "4 whale"}


def hidden() -> set[str]:
    return set(Entry.objects.filter(filtered_at__isnull=False).values_list("title", flat=True))
