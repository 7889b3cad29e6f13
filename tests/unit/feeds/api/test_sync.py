"""The change log in the API: every change is given once, in the order in which it came, over every selection."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
import requests

from feeds import catalogue, feed_rows, lifecycle, upkeep
from feeds.addresses import FeedLocation
from feeds.change_rows import ChangeLog, ChangeSpan, Removal
from feeds.changes import log, numbers
from feeds.changes.positions import ChangeCursor, ChangeScope, Position
from feeds.models import ALL_SLUG, Category, Entry, Feed
from feeds.parser.documents import Author, Enclosure, FeedHead, ParsedCategory
from tests.support.documentation import code_block
from tests.support.feed_copy import FeedCopy
from tests.support.feed_rows import NOW, add, category, entry, feed, publish
from tests.unit.resources.api.conftest import Caller, problem

Copies = Callable[..., FeedCopy]


@pytest.fixture
def copy_of(anybody: Caller) -> Copies:
    """Makes a program that copies a selection."""
    return lambda **selection: FeedCopy(lambda path: ask(anybody, path), selection)


def ask(caller: Caller, path: str) -> tuple[int, Any]:
    answer = caller.get(path)
    return answer.status_code, answer.json()


def at(minutes: int) -> datetime:
    return NOW + timedelta(minutes=minutes)


def number(minutes: int = 0) -> None:
    """Gives the numbers, as the process that stored the changes does after its commit."""
    numbers.heal_memberships()
    numbers.number_changes(at(minutes))


def titles(copy: FeedCopy) -> list[str]:
    return sorted(one["entry"]["title"] for one in copy.entries.values())


def test_an_entry_has_its_files_categories_authors_and_language(anybody: Caller) -> None:
    told = entry(
        1,
        authors=(Author("Ann"), Author(email="bob@example.org")),
        categories=(ParsedCategory("sea"), ParsedCategory("w", label="Whales")),
        enclosures=(Enclosure("https://a.example.org/1.mp3", "audio/mpeg", 5, 60, "One"),),
    )
    feed("sea", told, said=FeedHead(title="Sea", language="de"))
    number()
    _, page = ask(anybody, "/api/entries")
    [change] = page["changes"]
    row = Entry.objects.get()
    assert {name: change[name] for name in ("change", "entry_id", "feed_id", "feed")} == {
        **{"change": "entry", "entry_id": row.pk},
        **{"feed_id": row.feed_id, "feed": "sea"},
    }
    found = change["entry"]
    assert (found["authors"], found["categories"], found["language"]) == (
        ["Ann", "bob@example.org"],
        ["sea", "Whales"],
        "de",
    )
    assert found["enclosures"] == [
        {
            **{"url": "https://a.example.org/1.mp3", "media_type": "audio/mpeg", "length_bytes": 5, "seconds": 60},
            "title": "One",
        }
    ]


def test_an_entry_that_is_dated_long_ago_is_given_when_it_comes(copy_of: Copies) -> None:
    sea = feed("sea", entry(1), entry(2))
    number()
    copy = copy_of()
    copy.sync()
    add(sea, entry(3, published=NOW - timedelta(days=900)))
    number(1)
    copy.sync()
    assert titles(copy) == ["Entry 1", "Entry 2", "Entry 3"]
    assert copy.counts == {"entry": 3, "again": 0}


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_give_every_change_once(copy_of: Copies, limit: int) -> None:
    for each in range(4):
        feed(f"f{each}", *(entry(10 * each + one) for one in range(3)))
        number(each)
    copy = copy_of()
    copy.limit = limit
    assert copy.sync_page() is (limit < 12)
    Entry.objects.filter(title="Entry 0").update(title="edited", data={"title": "edited"}, change_number=None)
    number(9)
    copy.sync()
    assert copy.counts == {"entry": 13, "again": 0}
    assert "edited" in titles(copy)


def test_removed_entries_are_given_as_such(copy_of: Copies, settings: Any) -> None:
    settings.FEEDS_KEEP_DAYS = 10
    feed("sea", entry(1), entry(2))
    number()
    copy = copy_of()
    copy.sync()
    Entry.objects.filter(title="Entry 1").update(left_at=NOW - timedelta(days=11))
    assert upkeep.prune_old_entries(NOW, 1) == 1
    number(1)
    copy.sync()
    assert titles(copy) == ["Entry 2"]
    assert copy.counts["entry_removed"] == 1

    late = copy_of()
    late.sync()
    assert late.counts == {"entry": 1, "again": 0}


LEAVE: dict[str, Callable[[Feed], object]] = {
    "paused": lambda one: lifecycle.pause_feeds([one.pk], NOW),
    "hidden": lambda one: lifecycle.hide_feeds([one.pk], NOW),
    "deleted": lambda one: lifecycle.remove_feeds([one.pk], NOW),
    "deleted by others": lambda one: Feed.objects.filter(pk=one.pk).delete(),
}


@pytest.mark.parametrize("way", LEAVE)
def test_a_feed_that_leaves_takes_its_entries_along(copy_of: Copies, way: str) -> None:
    sea = feed("sea", entry(1), entry(2))
    feed("land", entry(3))
    category("wet", sea)
    number()
    copies = copy_of(), copy_of(category="wet")
    for copy in copies:
        copy.sync()
    LEAVE[way](sea)
    number(1)
    for copy, left in zip(copies, (["Entry 3"], []), strict=True):
        copy.sync()
        assert titles(copy) == left
        assert copy.counts["feed_removed"] == 1


def test_a_feed_that_comes_back_brings_its_entries_once(copy_of: Copies) -> None:
    sea = feed("sea", entry(1), entry(2), entry(3))
    number()
    copy = copy_of()
    copy.limit = 1
    copy.sync()
    lifecycle.pause_feeds([sea.pk], NOW)
    number(1)
    copy.sync()
    lifecycle.resume_feeds([sea.pk], NOW)
    Entry.objects.filter(title="Entry 2").update(change_number=None)
    number(2)
    copy.sync()
    assert titles(copy) == ["Entry 1", "Entry 2", "Entry 3"]
    assert copy.counts == {"entry": 6, "feed_removed": 1, "again": 0}


def test_one_that_was_away_meanwhile_has_the_same_in_the_end(copy_of: Copies) -> None:
    sea = feed("sea", entry(1), entry(2))
    number()
    copy = copy_of()
    copy.sync()
    lifecycle.hide_feeds([sea.pk], NOW)
    number(1)
    numbers.delete_entries(Entry.objects.filter(title="Entry 1"), "pruned")
    number(2)
    lifecycle.show_feeds([sea.pk], NOW)
    number(3)
    copy.sync()
    assert titles(copy) == ["Entry 2"]


def test_a_category_follows_its_feeds_and_its_place(copy_of: Copies) -> None:
    sea, land = feed("sea", entry(1)), feed("land", entry(2))
    world, wet = category("world"), category("wet", sea)
    number()
    above, below, all_feeds = copy_of(category="world"), copy_of(category="wet"), copy_of()
    for copy in (above, below, all_feeds):
        copy.sync()
    assert (titles(above), titles(below)) == ([], ["Entry 1"])

    feed_rows.touch_categories([wet.pk], NOW, withdrawn=True)
    Category.objects.filter(pk=wet.pk).update(parent=world)
    number(1)
    wet.feeds.set([land])
    feed_rows.touch_feeds([sea.pk, land.pk], NOW)
    number(2)
    for copy in (above, below, all_feeds):
        copy.sync()
    assert (titles(above), titles(below)) == (["Entry 2"], ["Entry 2"])
    assert all_feeds.counts == {"entry": 2, "again": 0}

    with_below = copy_of(category="world")
    feed_rows.touch_categories([wet.pk], NOW, withdrawn=True)
    wet.delete()
    number(3)
    above.sync()
    with_below.sync()
    assert (titles(above), titles(with_below)) == ([], [])


def test_entries_of_a_merged_feed_come_to_the_other_one(copy_of: Copies) -> None:
    kept, other = feed("kept", entry(1)), feed("other", entry(1), entry(2))
    number()
    copy = copy_of()
    copy.sync()
    Entry.objects.filter(title="Entry 1").update(likeness="same")
    lifecycle.merge_feeds(kept.pk, [other.pk], NOW)
    number(1)
    copy.sync()
    assert titles(copy) == ["Entry 1", "Entry 2"]
    assert {one["feed"] for one in copy.entries.values()} == {"kept"}


def test_a_feed_of_another_name_is_given_again(copy_of: Copies) -> None:
    sea = feed("sea", entry(1))
    number()
    copy = copy_of()
    copy.sync()
    wanted = catalogue.FeedEdit(FeedLocation(sea.url), None, {"slug": "ocean"})
    catalogue.edit_feed(sea.pk, wanted, NOW)
    number(1)
    copy.sync()
    assert [one["feed"] for one in copy.entries.values()] == ["ocean"]


def test_one_feed_is_followed_while_it_is_paused(copy_of: Copies, anybody: Caller) -> None:
    sea = feed("sea", entry(1))
    feed("land", entry(2))
    number()
    copy = copy_of(feed="sea")
    copy.sync()
    lifecycle.pause_feeds([sea.pk], NOW)
    add(sea, entry(3))
    number(1)
    copy.sync()
    assert titles(copy) == ["Entry 1", "Entry 3"]
    lifecycle.hide_feeds([sea.pk], NOW)
    assert "no feed" in problem(anybody.get("/api/entries?feed=sea"), 404)


def test_now_is_the_cursor_of_what_comes_from_now_on(copy_of: Copies, anybody: Caller) -> None:
    sea = feed("sea", entry(1))
    number()
    copy = copy_of()
    copy.cursor = "now"
    copy.sync()
    assert copy.entries == {}
    add(sea, entry(2))
    number(1)
    copy.sync()
    assert titles(copy) == ["Entry 2"]


def test_a_page_that_is_known_is_not_sent_again(anybody: Caller) -> None:
    feed("sea", entry(1))
    number()
    first = anybody.get("/api/entries")
    again = anybody.get("/api/entries", **{"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    add(Feed.objects.get(), entry(2))
    number(1)
    assert anybody.get("/api/entries", **{"If-None-Match": first["ETag"]}).status_code == 200


def test_a_short_page_leads_on_where_few_entries_are_of_the_category(
    copy_of: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MAX_WALKED_ENTRIES", 2)
    feed("land", *(entry(one) for one in range(7)))
    number()
    category("wet", feed("sea", entry(8), entry(9), entry(10)))
    number(1)
    copy = copy_of(category="wet")
    assert copy.sync_page()
    assert copy.entries == {}
    copy.sync()
    assert titles(copy) == ["Entry 10", "Entry 8", "Entry 9"]
    assert copy.counts == {"entry": 3, "again": 0}


def cursor_of(copy: FeedCopy) -> ChangeCursor:
    copy.sync()
    return ChangeCursor.read(copy.cursor)


def test_a_cursor_of_another_selection_or_site_is_refused(copy_of: Copies, anybody: Caller) -> None:
    feed("sea", entry(1))
    number()
    cursor = cursor_of(copy_of())
    assert "another selection" in problem(anybody.get(f"/api/entries?feed=sea&changed_since={cursor}"), 410)
    ChangeLog.objects.update(identity="0" * 12)
    assert "another site" in problem(anybody.get(f"/api/entries?changed_since={cursor}"), 410)


def test_a_cursor_from_after_the_backup_that_was_restored_is_refused(copy_of: Copies, anybody: Caller) -> None:
    sea = feed("sea", entry(1))
    number()
    copy = copy_of()
    before = cursor_of(copy)
    entries, spans = list(Entry.objects.all()), list(ChangeSpan.objects.all())
    add(sea, entry(2))
    number(10)
    lost = cursor_of(copy)

    Entry.objects.all().delete()
    ChangeSpan.objects.all().delete()
    Entry.objects.bulk_create(entries)
    ChangeSpan.objects.bulk_create(spans)
    ChangeLog.objects.update(head=before.number)
    assert "backup" in problem(anybody.get(f"/api/entries?changed_since={lost}"), 410)
    add(sea, entry(3))
    number(90)
    assert "backup" in problem(anybody.get(f"/api/entries?changed_since={lost}"), 410)

    copy.sync()
    assert titles(copy) == ["Entry 1", "Entry 3"]
    assert copy.counts["begun anew"] == 1
    known = copy_of()
    known.cursor = str(before)
    known.sync()
    assert titles(known) == ["Entry 3"]


def test_a_cursor_that_is_older_than_the_known_removals_is_refused(copy_of: Copies, anybody: Caller) -> None:
    sea = feed("sea", *(entry(one) for one in range(4)))
    number()
    old = cursor_of(copy_of())
    for one in range(3):
        numbers.delete_entries(Entry.objects.filter(title=f"Entry {one}"), "pruned")
        number(10 * one + 10)
    newer = copy_of()
    newer.cursor = str(ChangeCursor(old.identity, old.scope, old.begun, Position.after(_first_removal())))
    assert numbers.prune_log(at(15), 1) == 1
    assert "too old" in problem(anybody.get(f"/api/entries?changed_since={old}"), 410)
    newer.sync()
    assert newer.counts["entry_removed"] == 2

    fresh = copy_of()
    fresh.limit = 1
    fresh.sync_page()
    assert numbers.prune_log(at(60), 1) == 2
    add(sea, entry(9))
    number(70)
    fresh.sync()
    assert titles(fresh) == ["Entry 3", "Entry 9"]
    assert fresh.counts["begun anew"] == 0


def test_a_cursor_amid_removals_that_are_pruned_is_refused(copy_of: Copies, anybody: Caller) -> None:
    sea = feed("sea", *(entry(one) for one in range(5)))
    number()
    copy = copy_of()
    copy.sync()
    numbers.delete_entries(Entry.objects.filter(feed=sea), "pruned")
    number(10)
    copy.limit = 2
    copy.sync_page()
    done = copy_of()
    done.cursor = copy.cursor
    done.sync()
    assert numbers.prune_log(at(20), 1) == 5
    assert "too old" in problem(anybody.get(f"/api/entries?changed_since={copy.cursor}"), 410)
    assert done.sync_page() is False
    copy.sync()
    assert titles(copy) == []


def _first_removal() -> int:
    return Removal.objects.order_by("number").values_list("number", flat=True)[0] or 0


@pytest.mark.parametrize("written", ["x", "ü", "MS4w", "%00", "a" * 200, "=" * 3])
def test_what_is_no_cursor_is_refused(anybody: Caller, written: str) -> None:
    assert "no cursor" in problem(anybody.get(f"/api/entries?changed_since={written}"), 422)


@pytest.mark.parametrize(
    ("query", "status"),
    [("feed=a&category=b", 422), ("category=none", 404), ("feed=none", 404), ("feed=%00", 422), ("limit=0", 422)],
)
def test_wrong_selections_are_refused(anybody: Caller, query: str, status: int) -> None:
    problem(anybody.get(f"/api/entries?{query}"), status)


def test_a_forged_cursor_does_no_harm(anybody: Caller) -> None:
    feed("sea", entry(1))
    number()
    log_row, everything = ChangeLog.objects.get(), Category.objects.get(slug=ALL_SLUG)
    for place in (Position(2**63 - 1), Position(5), Position.after(2**62)):
        forged = ChangeCursor(log_row.identity, ChangeScope("c", everything.pk), 0, place)
        assert problem(anybody.get(f"/api/entries?changed_since={forged}"), 410)


def test_numbers_only_grow_when_the_clock_goes_back(copy_of: Copies) -> None:
    sea = feed("sea", entry(1))
    number(60)
    copy = copy_of()
    copy.sync()
    add(sea, entry(2))
    number(0)
    copy.sync()
    assert titles(copy) == ["Entry 1", "Entry 2"]


def test_the_documented_program_keeps_a_copy(copy_of: Copies, anybody: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    class Answer:
        def __init__(self, path: str) -> None:
            self.status_code, self._page = ask(anybody, path)

        def json(self) -> Any:
            return self._page

        def raise_for_status(self) -> None:
            assert self.status_code == 200

    def get(url: str, params: dict[str, str], timeout: float) -> Answer:
        return Answer(f"{url}?{urlencode(params)}")

    monkeypatch.setattr(requests, "get", get)
    written: dict[str, Any] = {}
    exec(code_block("docs/sync.md", "python", "def sync"), written)
    sea, land = feed("sea", entry(1), entry(2)), feed("land", entry(3))
    number()
    copy: dict[str, Any] = {"cursor": "", "entries": {}}
    written["sync"]("", copy)
    numbers.delete_entries(Entry.objects.filter(title="Entry 1"), "pruned")
    lifecycle.pause_feeds([land.pk], NOW)
    add(sea, entry(4))
    number(1)
    written["sync"]("", copy)
    assert sorted(one["entry"]["title"] for one in copy["entries"].values()) == ["Entry 2", "Entry 4"]
    copy["cursor"] = "MS4wMDAwMDAwMDAwMDAuYzEuMC4wLjAuMC4w"
    written["sync"]("", copy)
    assert len(copy["entries"]) == 2


def test_the_documented_answer_has_the_described_fields(anybody: Caller) -> None:
    shown = json.loads(code_block("docs/sync.md", "json", "changed_at"))
    described = anybody.get("/api/openapi.json").json()["components"]["schemas"]
    named = {"entry": "EntryChanged", "entry_removed": "EntryRemoved", "feed_removed": "FeedRemoved"}
    for change in shown["changes"]:
        assert change.keys() == described[named[change["change"]]]["properties"].keys()
    first = shown["changes"][0]["entry"]
    assert first.keys() == described["EntryDescribed"]["properties"].keys()
    assert first["enclosures"][0].keys() == described["EnclosureDescribed"]["properties"].keys()
    assert shown.keys() == described["Changes"]["properties"].keys()


def test_entries_of_one_story_can_be_grouped_also_once_an_edit_makes_them_one(anybody: Caller) -> None:
    link, text = "https://news.example.org/tides", " ".join(f"word{number}" for number in range(60))
    one, other, third = feed("one"), feed("other"), feed("third")
    publish(one, {"id": "a", "url": link, "content_html": text})
    publish(other, {"id": "b", "url": f"{link}?utm_source=x"})
    publish(third, {"id": "c", "content_html": "A draft"})
    number()
    page = ask(anybody, "/api/entries")[1]
    first, second, last = (Entry.objects.get(feed=row).pk for row in (one, other, third))
    assert {row["entry_id"]: row["story"] for row in page["changes"]} == {first: first, second: first, last: last}
    publish(third, {"id": "c", "content_html": text})
    number(1)
    page = ask(anybody, f"/api/entries?changed_since={page['cursor']}")[1]
    assert {row["entry_id"]: row["story"] for row in page["changes"]} == {last: first}
