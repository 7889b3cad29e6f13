"""A simulated week of 1,000 feeds: programs that know the API's description alone have the same entries in the end.

Feeds publish, edit and drop entries, some of them dated long ago; people pause, hide, move, merge, rename, filter and
delete feeds, and filter categories. The site's processes are killed between the commit of a change and its number, or
the verdict on entries, the programs between the answer and its storing.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from multidict import CIMultiDict

from feeds import addresses, catalogue, feed_rows, filters, lifecycle, readings, upkeep
from feeds.changes import numbers
from feeds.models import Category, Entry, EntryFilter, Feed
from feeds.opml import ListedFeed
from feeds.readings import BodyToRead, FeedReading
from feeds.scan import store
from feeds.scan.store import FetchResult, KeptEntries, StoreOutcome
from feeds.schedule.next_check import FeedRead
from resources.fetch.http.messages import Body, Fetched, Head, OutcomeTiming
from tests.conftest import RedisServers
from tests.support.feed_copy import FeedCopy
from tests.support.feed_rows import NOW, category

FEEDS, HOURS, FETCHES_PER_HOUR = 1_000, 7 * 24, 6
PATTERN, TAG = "[05]$", "three"
"""The titles that a filter of a feed hides, and the tag by which that of a category goes: each third entry's."""
KILLED, STOPPED = 0.2, 0.1
"""The share of commits without numbers, and that of pages that a program does not store."""


@dataclass(slots=True)
class World:
    """The publishers' documents, by the ids of feeds: titles by the entries' ids. All that is random is from `luck`."""

    luck: random.Random
    now: datetime = NOW
    documents: dict[int, dict[str, tuple[str, datetime]]] = field(default_factory=dict)
    written: int = 0

    def publish(self, feed_id: int) -> None:
        document = self.documents.setdefault(feed_id, {})
        for _ in range(self.luck.randint(1, 3)):
            self.written += 1
            age = timedelta(hours=self.luck.choice((0, 0, 5, 900)))
            document[f"e{self.written}"] = (f"Text {self.written}", self.now - age)
        for name in self.luck.sample(sorted(document), min(len(document), 2)):
            self.written += 1
            document[name] = (f"Edited {self.written}", document[name][1])
        while len(document) > 5:
            del document[next(iter(document))]

    def fetch(self, feed_id: int) -> None:
        """Reads and stores the feed's document, as a fetcher does."""
        row = Feed.objects.filter(pk=feed_id).first()
        if row is None or row.paused:
            return
        self.publish(feed_id)
        kept, body = KeptEntries.of(row), self._write(feed_id)
        found = readings.read_feed_body(
            body, BodyToRead("application/rss+xml", row.url, self.now, tuple(kept.marks.values()))
        )
        assert isinstance(found, FeedReading)
        head = Head(200, row.url, CIMultiDict())
        outcome = Fetched(head, Body(len(body), f"{len(body):064}", body), OutcomeTiming(self.now.timestamp(), 1.0))
        came = FetchResult(outcome, FeedRead(head, is_same=found.is_same), self.now, found)
        assert store.store_result(row, kept, came, self.now) is StoreOutcome.STORED

    def _write(self, feed_id: int) -> bytes:
        items = "".join(
            f"<item><guid isPermaLink='false'>{name}</guid><title>{title}</title><category>{tag_of(title)}</category>"
            f"<pubDate>{at:%a, %d %b %Y %H:%M:%S} GMT</pubDate></item>"
            for name, (title, at) in self.documents[feed_id].items()
        )
        return f"<rss version='2.0'><channel><title>{feed_id}</title>{items}</channel></rss>".encode()

    def manage(self) -> None:
        """Does one thing that people do."""
        ids = sorted(Feed.objects.values_list("pk", flat=True))
        one, other = self.luck.sample(ids[1:], 2)  # the first one is followed by its slug
        acts: list[Callable[[], object]] = [
            lambda: lifecycle.pause_feeds([one], self.now),
            lambda: lifecycle.resume_feeds(self.luck.sample(ids, min(50, len(ids))), self.now),
            lambda: lifecycle.hide_feeds([one], self.now),
            lambda: lifecycle.show_feeds(self.luck.sample(ids, min(50, len(ids))), self.now),
            lambda: lifecycle.remove_feeds([one], self.now),
            lambda: lifecycle.merge_feeds(one, [other], self.now),
            lambda: self._rename(one),
            lambda: self._categorise(one),
            self._move_category,
            lambda: self._filter_feed(self.luck.choice([one, ids[0]])),
            lambda: self._filter_category(self.luck.choice("ac")),
        ]
        self.luck.choice(acts)()

    def _rename(self, feed_id: int) -> None:
        self.written += 1
        row = Feed.objects.get(pk=feed_id)
        edit = catalogue.FeedEdit(addresses.FeedLocation(row.url), None, {"slug": f"slug-{self.written}"})
        catalogue.edit_feed(feed_id, edit, self.now)

    def _categorise(self, feed_id: int) -> None:
        row = Feed.objects.get(pk=feed_id)
        feed_rows.touch_feeds([feed_id], self.now, withdrawn=True)
        row.categories.set(Category.objects.filter(slug__in=self.luck.sample(["a", "b", "c", "none"], 2)))
        feed_rows.touch_feeds([feed_id], self.now)

    def _filter_feed(self, feed_id: int) -> None:
        wanted = [EntryFilter(feed_id=feed_id, action="hide", pattern=PATTERN, field="title")]
        filters.replace_filters(feed_id, [] if EntryFilter.objects.filter(feed=feed_id).exists() else wanted)

    def _filter_category(self, slug: str) -> None:
        row = Category.objects.get(slug=slug)
        if not row.filters.all().delete()[0]:
            row.filters.create(action=self.luck.choice(["hide", "only"]), words=f"tag:{TAG}")
        filters.show_category_anew(row.pk, self.now)

    def _move_category(self) -> None:
        """Category c is now in a, now in none."""
        row = Category.objects.get(slug="c")
        feed_rows.touch_categories([row.pk], self.now, withdrawn=True)
        row.parent = None if row.parent_id else Category.objects.get(slug="a")
        row.save()
        feed_rows.touch_categories([row.pk], self.now)


def tag_of(title: str) -> str:
    return TAG if int(title.rpartition(" ")[2]) % 3 == 0 else "other"


@dataclass(slots=True)
class Program:
    """A program, and what it has stored. `share`: how often it is running at all."""

    copy: FeedCopy
    share: float
    saved: str = ""

    def run(self, luck: random.Random) -> None:
        if luck.random() > self.share:
            return
        if self.saved and luck.random() < 0.2:  # it was started anew
            self.copy.entries = {}
            self.copy.load(self.saved)
        self.copy.limit = luck.choice((7, 50, 500))
        while self.copy.sync_page(dies=luck.random() < STOPPED):
            pass
        self.saved = self.copy.saved()


def ask(path: str) -> tuple[int, Any]:
    answer = Client().get(path)
    return answer.status_code, answer.json()


def stored(**selection: str) -> dict[int, str]:
    """The entries that the database has for a selection, as the site's combinations show them."""
    shown = Feed.objects.filter(is_hidden=False)
    shown = shown.filter(slug=selection["feed"]) if "feed" in selection else shown.filter(paused=False)
    if "category" in selection:
        own = Category.objects.filter(slug=selection["category"])
        within = [*own, *Category.objects.filter(parent__in=own)]
        shown = shown.filter(categories__in=within)
    hiding = set(EntryFilter.objects.filter(category=None).values_list("feed_id", flat=True))
    found = Entry.objects.filter(feed__in=shown).values_list("pk", "title", "feed_id")
    filtered = EntryFilter.objects.filter(category__slug=selection.get("category", "all")).first()
    return {pk: title for pk, title, feed_id in found if is_shown(title, filtered, is_filtered=feed_id in hiding)}


def is_shown(title: str, filtered: EntryFilter | None, *, is_filtered: bool) -> bool:
    if is_filtered and re.search(PATTERN, title):
        return False
    return filtered is None or (tag_of(title) == TAG) == (filtered.action == "only")


@pytest.mark.timeout(480)
@pytest.mark.django_db(transaction=True)
def test_copies_of_a_week_of_changes_are_equal_in_the_end(
    redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.FEEDS_KEEP_ENTRIES, settings.FEEDS_KEEP_DAYS, removals_days = 8, 1, 2
    world = World(random.Random(7))

    def give_numbers() -> None:
        if world.luck.random() > KILLED:
            numbers.number_changes(world.now)

    monkeypatch.setattr(numbers, "_number_quietly", give_numbers)

    def judge() -> None:
        if world.luck.random() > KILLED:
            filters.judge_waiting(world.now)

    monkeypatch.setattr(filters, "_judge_quietly", judge)
    monkeypatch.setattr(feed_rows, "ask_for_scan", lambda: None)
    for slug in "abc":
        category(slug)
    ids = _add_feeds(world)
    watched = Feed.objects.get(pk=ids[0])
    chosen: list[tuple[dict[str, str], float]] = [({}, 0.9), ({"category": "a"}, 0.7), ({"category": "c"}, 0.3)]
    chosen.append(({"feed": watched.slug}, 0.5))
    programs = [Program(FeedCopy(ask, selection), share) for selection, share in chosen]
    away = Program(FeedCopy(ask), 1.0)
    away.run(world.luck)
    for hour in range(HOURS):
        world.now = NOW + timedelta(hours=hour)
        for feed_id in (*world.luck.sample(ids, FETCHES_PER_HOUR), watched.pk):
            world.fetch(feed_id)
        world.manage()
        upkeep.prune_old_entries(world.now, 1)
        numbers.prune_log(world.now - timedelta(days=removals_days), 1)
        for program in programs:
            program.run(world.luck)
    filters.judge_waiting(world.now)
    numbers.heal_memberships()
    numbers.number_changes(world.now)
    _assert_equal(programs)
    assert Entry.objects.filter(filtered_at__isnull=False).exists()
    assert world.written > 2_500
    assert programs[0].copy.counts["begun anew"] == 0
    assert programs[0].copy.counts["entry_removed"] > 100
    assert programs[0].copy.counts["feed_removed"] > 20
    away.run(world.luck)
    assert away.copy.counts["begun anew"] == 1
    _assert_equal([away])


def _add_feeds(world: World) -> list[int]:
    listed = [
        ListedFeed(
            addresses.read_address(f"https://f{number}.example.org/feed"),
            f"F {number}",
            categories=(("ABC"[number % 3],),),
        )
        for number in range(FEEDS)
    ]
    added = catalogue.add_feeds(listed, world.now)
    return [feed.pk for feed in added.feeds]


def _assert_equal(programs: list[Program]) -> None:
    """Equal to the database, and in all fields to a copy that is made only now; nothing was given twice."""
    for program in programs:
        copy, fresh = program.copy, FeedCopy(ask, program.copy.selection, limit=500)
        copy.sync()
        fresh.sync()
        titles = {key: one["entry"]["title"] for key, one in copy.entries.items()}
        assert titles == stored(**copy.selection)
        assert copy.entries == fresh.entries
        assert (copy.counts["again"], fresh.counts["again"]) == (0, 0)
        assert copy.entries
