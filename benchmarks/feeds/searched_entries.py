"""`python -m benchmarks.feeds.searched_entries ENTRIES`: seconds that searches take to find the entries of a page.

DATABASE_URL names an empty database, which is filled before the index of words is made. Prints lines of a kind, a
name and figures: what making the index and storing entries took, and the median and the 99th percentile of searches.
"""

import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate, islice
from random import Random
from statistics import median
from typing import Any

import django

django.setup(set_prefix=False)

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from benchmarks.figures import percentile  # noqa: E402
from feeds import search_index  # noqa: E402
from feeds.models import Category, Entry, Feed  # noqa: E402
from feeds.pages import page_entries  # noqa: E402
from feeds.pages.query import PageQuery  # noqa: E402
from feeds.parser import documents  # noqa: E402

NOW = datetime(2026, 11, 1, tzinfo=UTC)
FEEDS, FEW, DAYS = 2_000, 20, 1_000
VOCABULARY, POOL = 60_000, 4_000_000
"""Words by Zipf's law, as in texts of people: the first is in nearly all entries, the 100th in a sixth."""
SHORTEST, LONGEST = 60, 360
"""Words of an entry."""
STORED_AT_ONCE, STORED_TIMES = 50, 40
ENTRIES_AT_ONCE = 10_000
TIMES = 60


class Words:
    """Words of made-up letters, and texts of them."""

    def __init__(self, luck: Random) -> None:
        self.luck = luck
        syllables = [first + second for first in "bdfghklmnprstvwz" for second in "aeiou"]
        self.all = list(
            dict.fromkeys("".join(luck.choices(syllables, k=luck.randint(1, 5))) for _ in range(3 * VOCABULARY))
        )
        self.all = self.all[:VOCABULARY]
        weights = list(accumulate(1 / (rank + 2.7) for rank in range(len(self.all))))
        self.pool = luck.choices(self.all, cum_weights=weights, k=POOL)

    def text(self, words: int) -> str:
        place = self.luck.randrange(POOL - words)
        return " ".join(self.pool[place : place + words])

    def word(self, rank: int) -> str:
        """A word of about this rank."""
        return self.all[self.luck.randint(rank, rank + rank // 5)]

    def phrase(self) -> str:
        """Two words that stand next to each other somewhere."""
        return self.text(2)


def main(entries: int) -> None:
    call_command("migrate", verbosity=0)
    search_index.drop_index()
    words = Words(Random(1))
    feeds = _make_feeds()
    rows = _entries(feeds, words, entries + 2 * STORED_AT_ONCE * STORED_TIMES)
    while batch := list(islice(rows, min(ENTRIES_AT_ONCE, entries))):
        Entry.objects.bulk_create(batch, batch_size=500)
        entries -= len(batch)
    plain = _store(rows)
    began, size = time.perf_counter(), _size()
    _make_index()
    print("index", "made in", time.perf_counter() - began, "s", sep="\t")
    print("index", "takes", (_size() - size) / 1_000_000, "MB", sep="\t")
    for name, took in (("without it", plain), ("with it", _store(rows))):
        print("store", name, median(took), percentile(took, 0.99), sep="\t")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    for name, address in _searches(words).items():
        searched = [_search(address()) for _ in range(TIMES)]
        found = median(number for _, number in searched)
        seconds = [each for each, _ in searched]
        print("search", name, median(seconds), percentile(seconds, 0.99), round(found), sep="\t")


def _make_index() -> None:
    """As the migration does."""
    search_index.split_stored_texts()
    search_index.create_index()
    search_index.fill_index()


def _searches(words: Words) -> dict[str, Callable[[], str]]:
    """The searches, by what they are for."""
    rare, mid, common, everywhere = (partial(words.word, rank) for rank in (50_000, 1_000, 100, 2))
    return {
        "a word of the rarest": lambda: f"all.atom?q={rare()}",
        "a word of one entry in 50": lambda: f"all.atom?q={mid()}",
        "a word of one in 6": lambda: f"all.atom?q={common()}",
        "a word of nearly all": lambda: f"all.atom?q={everywhere()}",
        "a word that none has": lambda: "all.atom?q=nowhere",
        "two words of one in 6": lambda: f"all.atom?q={common()}+{common()}",
        "a phrase": lambda: f'all.atom?q="{words.phrase()}"',
        "one in 50 without one in 6": lambda: f"all.atom?q={mid()}+-{common()}",
        "all without one in 6": lambda: f"all.atom?q=-{common()}",
        "a title's word": lambda: f"all.atom?q=title:{common()}",
        "an author": lambda: f"all.atom?q=author:{words.word(1_000)}",
        "a tag and a word of one in 6": lambda: f"all.atom?q=tag:{words.word(300)}+{common()}",
        "a feed and a word of one in 6": lambda: f"all.atom?q=feed:feed-7+{common()}",
        "a word's beginning of 4 letters": lambda: f"all.atom?q={mid()[:4].ljust(4, 'a')}*",
        "of half of the feeds, one in 6": lambda: f"category/half.atom?q={common()}",
        "of half of the feeds, one in 50": lambda: f"category/half.atom?q={mid()}",
        "of few feeds, one in 6": lambda: f"category/few.atom?q={common()}",
        "of one feed, one in 6": lambda: f"feed-9.atom?q={common()}",
        "since a day, one in 6": lambda: f"all.atom?since=2026-10-30&q={common()}",
        "the tenth page, one in 50": lambda: _page(10, f"all.atom?q={mid()}"),
        "the tenth page, one in 6": lambda: _page(10, f"all.atom?q={common()}"),
        "best first, the rarest": lambda: f"all.atom?order=rank&q={rare()}",
        "best first, one in 50": lambda: f"all.atom?order=rank&q={mid()}",
        "best first, one in 6": lambda: f"all.atom?order=rank&q={common()}",
        "best first, nearly all": lambda: f"all.atom?order=rank&q={everywhere()}",
    }


def _subject(asked: PageQuery) -> Feed | Category:
    return page_entries.find_subject(asked)


def _page(number: int, address: str) -> str:
    """The address of a later page."""
    asked = PageQuery.read_address(f"/feeds/{address}")
    for _ in range(number - 1):
        older = page_entries.select_entries(asked, _subject(asked)).older
        if older is None:
            break
        asked = asked.older_than(older)
    return asked.address.removeprefix("/feeds/")


def _search(address: str) -> tuple[float, int]:
    asked = PageQuery.read_address(f"/feeds/{address}")
    subject = _subject(asked)
    began = time.perf_counter()
    found = page_entries.select_entries(asked, subject)
    return time.perf_counter() - began, len(found.entries)


def _store(rows: Iterator[Entry]) -> list[float]:
    """Seconds an entry, stored in batches."""
    took = []
    for _ in range(STORED_TIMES):
        batch = [next(rows) for _ in range(STORED_AT_ONCE)]
        began = time.perf_counter()
        Entry.objects.bulk_create(batch, ignore_conflicts=True, batch_size=200)
        took.append((time.perf_counter() - began) / STORED_AT_ONCE)
    return took


def _size() -> int:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
        else:
            cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])


def _make_feeds() -> list[Feed]:
    """One in a hundred is hidden."""
    known = {"fetched_at": NOW, "next_check_at": NOW, "version": 1}
    made = [
        Feed(
            slug=f"feed-{place}",
            url=f"https://{place}.example/feed",
            key_digest=f"{place:064}",
            host=f"{place}.example",
            is_hidden=place % 100 == 99,
            **known,
        )
        for place in range(FEEDS)
    ]
    Feed.objects.bulk_create(made, batch_size=500)
    feeds = list(Feed.objects.order_by("pk"))
    link = Feed.categories.through._default_manager
    for slug, chosen in (("half", feeds[::2]), ("few", feeds[:FEW])):
        category = Category.objects.create(slug=slug, title=slug)
        link.bulk_create([link.model(feed=feed, category=category) for feed in chosen], batch_size=500)
    return feeds


def _entries(feeds: list[Feed], words: Words, number: int) -> Iterator[Entry]:
    """Entries as they come: most are dated shortly before, some long ago."""
    for nth in range(number):
        at = NOW - timedelta(days=DAYS * (1 - nth / number) + 300 * words.luck.random() ** 8)
        yield _entry(feeds[words.luck.randrange(FEEDS)], nth, at, words)


def _entry(feed: Feed, nth: int, at: datetime, words: Words) -> Entry:
    title, author, tags = words.text(8), words.text(2), words.text(2).split()
    body = words.text(words.luck.randint(SHORTEST, LONGEST))
    data: dict[str, Any] = {"title": title, "link": f"{feed.url}/{nth}", "content": f"<p>{body}</p>"}
    data |= {"authors": [{"name": author}], "categories": [{"term": tag} for tag in tags]}
    text = f"{title} {author} {' '.join(tags)} {body}"
    mark, moments = f"{nth:032}", {"happened_at": at, "first_seen_at": at, "changed_at": at}
    marks = {"identity": mark, "likeness": mark, "content": mark, "dates": mark}
    size = documents.count_json_characters(data)
    return Entry(feed=feed, title=title, link=data["link"], text=text, data=data, size=size, **marks, **moments)


if __name__ == "__main__":
    main(int(sys.argv[1]))
