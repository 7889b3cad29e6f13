"""`python -m benchmarks.feeds.combined_pages FEEDS ENTRIES`: seconds that pages of combinations take to make.

DATABASE_URL names an empty database, which is filled: so many feeds with so many entries each. Prints a line for
each page: its name, the median of five times that it is made, in seconds, and its bytes.
"""

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from statistics import median

import django

django.setup(set_prefix=False)

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from feeds.models import Category, Entry, Feed  # noqa: E402
from feeds.pages import render  # noqa: E402
from feeds.pages.query import Cursor  # noqa: E402
from feeds.parser import documents  # noqa: E402

ROUNDS = 5
NOW = datetime(2026, 11, 1, tzinfo=UTC)
WORD = "lorem"
CONTENT = f"<p>{f'{WORD} ipsum dolor sit amet ' * 80}</p>"
FEW = 20
"""Feeds of the category that has few, which publish seldom: most of what is newer is not theirs."""
DEEP = Cursor(NOW - timedelta(days=150), 0)
PAGES = {
    "all, 50 entries": "/feeds/all.atom",
    "all, 200 entries": "/feeds/all.atom?limit=200",
    "all, 200 entries as JSON": "/feeds/all.json?limit=200",
    "all, 200 entries from the middle on": f"/feeds/all.atom?before={DEEP}&limit=200",
    "half of the feeds, 200 entries": "/feeds/category/half.atom?limit=200",
    "few feeds of many, 200 entries": "/feeds/category/few.atom?limit=200",
}


def main(feeds: int, entries: int) -> None:
    call_command("migrate", verbosity=0)
    _fill(feeds, entries)
    for name, address in PAGES.items():
        took = [_took(address) for _ in range(ROUNDS)]
        print(name, median(seconds for seconds, _ in took), took[0][1], sep="\t")


def _took(address: str) -> tuple[float, int]:
    began = time.perf_counter()
    (page,) = render.prepare_page(address).values()
    return time.perf_counter() - began, len(page.body)


def _fill(feeds: int, entries: int) -> None:
    luck = Random(1)
    Feed.objects.bulk_create([_feed(place) for place in range(feeds)], batch_size=2000)
    rows = list(Feed.objects.order_by("pk"))
    link = Feed.categories.through._default_manager
    for slug, chosen in (("half", rows[::2]), ("few", rows[:FEW])):
        category = Category.objects.create(slug=slug, title=slug)
        link.bulk_create([link.model(feed=feed, category=category) for feed in chosen], batch_size=2000)
    Entry.objects.bulk_create(_entries(rows, entries, luck), batch_size=500)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _feed(place: int) -> Feed:
    return Feed(
        slug=f"feed-{place}",
        url=f"https://{place}.example/feed",
        key_digest=f"{place:064}",
        host=f"{place}.example",
        title=f"Feed {place}",
        fetched_at=NOW,
        next_check_at=NOW + timedelta(days=1),
        version=1,
    )


def _entries(feeds: list[Feed], number: int, luck: Random) -> Iterator[Entry]:
    """The first FEW feeds have published nothing for a year."""
    for place, feed in enumerate(feeds):
        for nth in range(number):
            days = luck.random() * 300 + (365 if place < FEW else 0)
            yield _entry(feed, f"{place:08}{nth:024}", NOW - timedelta(days=days))


def _entry(feed: Feed, mark: str, at: datetime) -> Entry:
    data = {"id": f"urn:{mark}", "link": f"{feed.url}/{mark}", "title": f"Entry {mark}", "content": CONTENT}
    data |= {"published": at.isoformat()}
    return Entry(
        feed=feed,
        identity=mark,
        likeness=mark,
        content=mark,
        dates=mark,
        title=data["title"],
        link=data["link"],
        text=f"{data['title']} {WORD} ipsum dolor sit amet " * 80,
        data=data,
        size=documents.count_json_characters(data),
        happened_at=at,
        first_seen_at=at,
        changed_at=at,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
