"""Rows of supplements: which articles, chapters and icons are wanted, and when each is fetched.

The rows of a feed's articles are spread over several scans. A supplement that cannot be fetched is tried again after
pauses that grow, and then given up until its entry changes; an icon is looked for again, ever more seldom.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Q, QuerySet

from resources.fetch.http.messages import Failure, FetchFailed

from . import readings
from .models import Entry, Feed, Supplement
from .parser import documents
from .readings import EntryRow

ARTICLE, CHAPTERS, ICON = "article", "chapters", "icon"
MAX_WANTED = 50
"""Entries of one document, or of a feed that is switched to full articles: the newest. Older ones stay as they are."""
PER_SCAN, SCAN_APART = 10, timedelta(minutes=1)
"""So many supplements of a feed are due at once, the next ones so much later."""
FIRST_PAUSE, PAUSE_FACTOR, MAX_TRIES = timedelta(hours=1), 4, 4
UNCOUNTED_PAUSE = timedelta(minutes=10)
ICON_EVERY, MAX_ICON_PAUSES = timedelta(days=30), 6
_UNCOUNTED = frozenset({Failure.OURS, Failure.POSTPONED, Failure.THROTTLED})
_FINAL = frozenset({Failure.PERMANENT, Failure.REFUSED, Failure.TOO_BIG, Failure.EXPIRED})


@dataclass(frozen=True, slots=True)
class WantedSupplement:
    """An entry's supplement: `identity` and `mark` are the entry's."""

    identity: str
    mark: str
    kind: str
    url: str


def want_supplements(feed: Feed, rows: Iterable[EntryRow], now: datetime) -> int:
    """Wants the supplements of new and edited entries; returns their number. Call it after these are stored."""
    newest = sorted((row for row in rows if row.is_edited), key=lambda row: row.happened_at, reverse=True)
    found = [each for row in newest[:MAX_WANTED] for each in _row_supplements(feed, row)]
    return _want(feed, found, now) if found else 0


def _row_supplements(feed: Feed, row: EntryRow) -> Iterable[WantedSupplement]:
    identity, mark = row.marks.identity, row.marks.content
    chapters_url = str(row.data.get("chapters_url", ""))
    if chapters_url and "chapters" not in row.data:
        yield WantedSupplement(identity, mark, CHAPTERS, chapters_url)
    if feed.full_content and row.is_excerpt:
        yield WantedSupplement(identity, mark, ARTICLE, row.link)


def _want(feed: Feed, wanted: Sequence[WantedSupplement], now: datetime) -> int:
    rows_of_feed = Entry.objects.filter(feed=feed, identity__in={each.identity for each in wanted})
    ids = dict(rows_of_feed.values_list("identity", "pk"))
    known = [each for each in wanted if each.identity in ids]
    rows = [
        Supplement(
            entry_id=ids[each.identity],
            kind=each.kind,
            url=each.url,
            mark=each.mark,
            due_at=now + SCAN_APART * (place // PER_SCAN),
        )
        for place, each in enumerate(known)
    ]
    Supplement.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["entry", "kind"],
        update_fields=["url", "mark", "due_at", "tries", "reason", "handed_over_at"],
    )
    return len(rows)


def want_icon(feed_id: int, now: datetime) -> None:
    """Wants the icon of a feed that has been read, unless it is known when its icon is looked for."""
    Supplement.objects.bulk_create([Supplement(feed_id=feed_id, kind=ICON, due_at=now)], ignore_conflicts=True)


def switch_articles(feed_id: int, now: datetime) -> None:
    """Wants the articles of a feed's newest entries, or has them removed, as the feed says by now."""
    feed = Feed.objects.only("full_content").get(pk=feed_id)
    if not feed.full_content:
        Supplement.objects.filter(entry__feed=feed, kind=ARTICLE).update(due_at=now)
        return
    rows = Entry.objects.filter(feed=feed, left_at=None).exclude(link="").defer("text")
    wanted = [
        WantedSupplement(row.identity, row.content, ARTICLE, row.link)
        for row in rows[:MAX_WANTED]
        if readings.is_excerpt(documents.entry_from_json(row.data))
    ]
    if wanted:
        _want(feed, wanted, now)


def due_supplements(now: datetime) -> QuerySet[Supplement]:
    """The due supplements, the longest due first, with their entries and feeds."""
    rows = Supplement.objects.filter(due_at__lte=now).order_by("due_at")
    return rows.select_related("entry__feed", "feed").defer("entry__text", "entry__data")


def addresses_in_hand(until: datetime) -> list[str]:
    """The addresses of supplements that the fetchers have, which are handed over again until then.

    Of icons that are looked for on the site's page, the site's.
    """
    rows = Supplement.objects.filter(handed_over_at__isnull=False, due_at__lte=until)
    return [url or site or "" for url, site in rows.values_list("url", "feed__site")]


@dataclass(frozen=True, slots=True)
class ArticleCounts:
    """The articles of a feed: how many are shown, wait, and are not shown for a reason."""

    shown: int
    waiting: int
    missing: int


def count_articles(feed_id: int) -> ArticleCounts:
    rows = Supplement.objects.filter(entry__feed_id=feed_id, kind=ARTICLE)
    ended, has_reason = Q(due_at=None), ~Q(reason="")
    return ArticleCounts(
        **rows.aggregate(
            shown=Count("pk", filter=ended & ~has_reason),
            waiting=Count("pk", filter=~ended),
            missing=Count("pk", filter=ended & has_reason),
        )
    )


def missing_articles(feed_id: int) -> QuerySet[Supplement]:
    """The articles that came to nothing, or not yet, with the reasons; those of the newest entries first."""
    rows = Supplement.objects.filter(entry__feed_id=feed_id, kind=ARTICLE).exclude(reason="")
    return rows.select_related("entry").defer("entry__text", "entry__data").order_by("-entry__happened_at")


def note_failure(row: Supplement, failed: FetchFailed, now: datetime) -> None:
    """Notes a failure: it is tried again later, or given up."""
    reason = f"{failed.detail.rstrip('.')}."
    if failed.failure in _UNCOUNTED:
        asked = timedelta(seconds=failed.retry_after_seconds or 0)
        _settle(row, due_at=now + max(UNCOUNTED_PAUSE, asked), reason=reason)
        return
    tries = row.tries + 1
    is_over = failed.failure in _FINAL or tries >= MAX_TRIES
    pause = FIRST_PAUSE * PAUSE_FACTOR ** (tries - 1)
    _settle(row, due_at=None if is_over else now + pause, tries=tries, reason=reason)


def end_supplement(row: Supplement, now: datetime, why: str = "") -> None:
    """Ends a supplement that came; `why` there is nothing of it, if so."""
    _settle(row, due_at=None, tries=0, fetched_at=now, reason=why)


def rest_icon(row: Supplement, now: datetime, *, was_found: bool) -> None:
    """Has the icon looked for again: each month, and more and more seldom where there is none."""
    tries = 0 if was_found else min(row.tries + 1, MAX_ICON_PAUSES)
    _settle(row, url="", due_at=now + ICON_EVERY * max(1, tries), tries=tries, fetched_at=now, reason="")


def look_for_icon_at(row: Supplement, url: str, now: datetime) -> None:
    _settle(row, url=url, due_at=now)


def postpone_supplement(row: Supplement, at: datetime) -> None:
    """Puts off a supplement that the fetchers do not take now."""
    _settle(row, due_at=at)


def _settle(row: Supplement, **fields: object) -> None:
    Supplement.objects.filter(pk=row.pk, mark=row.mark).update(handed_over_at=None, **fields)
