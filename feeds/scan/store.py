"""Stores the outcome of a fetch: entries, the feed's row, the versions of the output. All of it, or nothing.

The answer is read where needed, and compared with the stored entries. A result whose fetch began before that of the
stored one is not stored: a late fetch overwrites nothing newer.
"""

import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Case, F, Q, When

from resources import database
from resources.database import MAX_CLOCK_LEAD, write_turn
from resources.fetch.http.messages import Body, Fetched, FetchFailed, NotModified, OutcomeTiming
from resources.sandbox import ChildAllowance
from retry import metrics

from .. import catalogue, diff, feed_rows, filters, lifecycle, readings, stories, supplements, upkeep, versions
from ..changes import numbers
from ..diff import EntryMarks
from ..models import MAX_URL_CHARACTERS, Entry, Feed, Supplement
from ..parser import documents
from ..push import offers
from ..push.websub import LinkedHubs
from ..readings import BodyToRead, EntryRow, FeedReading, NoFeed
from ..schedule import next_check
from ..schedule.next_check import MAX_PUBLICATIONS, CheckDecision, FeedRead, FeedUnchanged, FeedUnreadable, FetchFinding
from ..schedule.state import PublisherHints, Trouble, trouble_of
from . import due, push_trust
from .reader_process import ReaderPool

_MAX_OWN_TITLE_CHARACTERS = 2000


def validator_fields(feed: Feed, outcome: Fetched | NotModified) -> dict[str, Any]:
    """Validators for the next conditional request. A 304 need not repeat them."""
    head = outcome.head
    if len(head.url) > MAX_URL_CHARACTERS:
        return catalogue.NO_VALIDATORS
    if isinstance(outcome, Fetched):
        given = {"etag": head.etag or "", "last_modified": head.last_modified or "", "body_digest": outcome.body.digest}
    else:
        given = {"etag": head.etag or feed.etag, "last_modified": head.last_modified or feed.last_modified}
    return {"validated_url": head.url, **given}


def offer_fields(feed: Feed, outcome: Fetched | NotModified, reading: FeedReading | None) -> dict[str, Any]:
    """Fields that say where the feed can be subscribed. A 304 need not repeat Link fields."""
    fields, linked = outcome.head.headers.getall("Link", []), feed.linked
    if fields or isinstance(outcome, Fetched):
        kept = {name: feed.linked[name] for name in offers.OWN_KEYS if name in feed.linked}
        linked = {**LinkedHubs.read(fields, outcome.head.url).to_json(), **kept}
    offer = offers.find_offer(feed.said if reading is None else reading.said, linked, feed.url)
    return {"linked": linked, "offer_digest": offer.digest if offer else ""}


def build_reading_fields(reading: FeedReading) -> dict[str, Any]:
    site = str(reading.said.get("link", ""))
    return {
        "said": reading.said,
        "own_title": str(reading.said.get("title", ""))[:_MAX_OWN_TITLE_CHARACTERS],
        "site": site if len(site) <= MAX_URL_CHARACTERS else "",
        "notes": list(reading.notes),
    }


PUBLICATION_ENTRIES = 10 * MAX_PUBLICATIONS
"""The last entries that show how often a feed publishes: entries that came together are one publication."""
IDENTITIES_PER_QUERY = 500
_MARK_FIELDS = ("identity", "likeness", "content", "dates")
_SAID_FIELDS = ("data", "size")
_TEXT_FIELDS = ("title", "link", "text", *_SAID_FIELDS)


class StoreOutcome(Enum):
    STORED = "stored"
    OVERTAKEN = "a later fetch has been stored"
    AGAIN = "something was stored since the feed was read: compare anew"
    GONE = "the feed was deleted"


@dataclass(frozen=True, slots=True)
class KeptEntries:
    """The stored entries of a feed: their marks by row id, and the ids of those that have left the document."""

    marks: Mapping[int, EntryMarks]
    left: frozenset[int]

    @classmethod
    def of(cls, feed: Feed) -> "KeptEntries":
        """Loads the entries of a feed. Raises DatabaseError."""
        names = ("pk", "identity", "likeness", "content", "dates", "left_at")
        rows = list(Entry.objects.filter(feed=feed).values_list(*names))
        marks = {row[0]: EntryMarks(*row[1:5]) for row in rows}
        return cls(marks, frozenset(row[0] for row in rows if row[5] is not None))


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The result of a fetch that began at `began_at`. `reading` is there for a feed that differs from before."""

    outcome: Fetched | NotModified | FetchFailed
    finding: FetchFinding
    began_at: datetime
    reading: FeedReading | None = None


def store_result(feed: Feed, kept: KeptEntries, came: FetchResult, now: datetime) -> StoreOutcome:
    """Stores a result for a feed that was loaded, with its entries, before. Raises DatabaseError."""
    with write_turn(), transaction.atomic():
        if (missed := lock_feed_to_store(feed, came.began_at, now)) is not None:
            return missed
        if came.reading is not None:
            store_entries(feed, kept, came.reading, now, is_whole=True)
            _note_language(feed, came.reading)
        news, changed = has_news(feed, came.reading), came.reading is not None and bool(came.reading.rows)
        reliance = push_trust.note_look(feed, came.began_at, has_news=news, has_changed=changed)
        feed.is_pushed = reliance.is_relied_on
        decision = _decide_next_check(feed, came, now, told_in_vain=reliance.told_in_vain)
        is_changed = came.reading is not None and _changes_output(feed, came.reading)
        _store_feed(feed, came, decision, now, is_changed=is_changed)
        if is_changed:
            versions.touch_combinations([feed.pk], now)
        if decision.adopts is not None:
            _follow_redirect(feed, decision.adopts, decision, now)
    return StoreOutcome.STORED


def lock_feed_to_store(feed: Feed, began_at: datetime, now: datetime) -> StoreOutcome | None:
    """Locks the row. Returns why a fetch that began then is not stored, or None. A future start does not count."""
    stands = Feed.objects.select_for_update().filter(pk=feed.pk).values("fetch_began_at", "url").first()
    if stands is None or stands["url"] != feed.url:
        return StoreOutcome.GONE
    newer = stands["fetch_began_at"]
    if newer == feed.fetch_began_at:
        return None
    is_overtaken = newer is not None and began_at <= newer <= now + MAX_CLOCK_LEAD
    return StoreOutcome.OVERTAKEN if is_overtaken else StoreOutcome.AGAIN


def has_news(feed: Feed, reading: FeedReading | None) -> bool:
    """True if there are new entries. The first entries of a feed do not count."""
    return reading is not None and feed.fetched_at is not None and any(not row.was for row in reading.rows)


def store_entries(feed: Feed, kept: KeptEntries, reading: FeedReading, now: datetime, *, is_whole: bool) -> None:
    """Stores new and changed entries; with `is_whole`, also marks the entries that have left the document."""
    ids = {marks.identity: pk for pk, marks in kept.marks.items()}
    rows, changed = ([row for row in reading.rows if bool(row.was) is known] for known in (False, True))
    new = [_make_entry(feed, *each, now) for each in zip(rows, _find_shared_ids(feed, rows), strict=True)]
    Entry.objects.bulk_create(new, ignore_conflicts=True, batch_size=200)
    _store_changed(feed, changed, ids, now)
    marks = {row.marks.identity: row.story_marks for row in rows}
    stories.store_marks(feed.pk, marks, {ids[row.was]: row.story_marks for row in changed})
    if is_whole:
        here = {ids[identity] for identity in reading.here if identity in ids}
        entries = Entry.objects.filter(feed=feed)
        entries.filter(pk__in=kept.marks.keys() - here - kept.left).update(left_at=now)
        entries.filter(pk__in=here & kept.left).update(left_at=None)
    filters.judge_stored(feed.pk, [row.marks.identity for row in reading.rows], now)
    supplements.want_supplements(feed, reading.rows, now)
    supplements.want_icon(feed.pk, now)
    if reading.rows:
        numbers.number_on_commit()
    upkeep.prune_feed_entries(feed.pk, len(kept.marks) + len(new))


def _note_language(feed: Feed, reading: FeedReading) -> None:
    """Has all entries given again if the feed's language changes: entries without their own have it."""
    if reading.said.get("language", "") != feed.said.get("language", ""):
        numbers.give_again(Entry.objects.filter(feed=feed).exclude(data__has_key="language"))


def _store_changed(feed: Feed, rows: Collection[EntryRow], ids: Mapping[str, int], now: datetime) -> None:
    """Overwrites edited entries, and those with a new identity, by their row id."""
    groups: defaultdict[tuple[str, ...], list[Entry]] = defaultdict(list)
    fetched = _fetched_parts([ids[row.was] for row in rows]) if rows else {}
    for changed in rows:
        kept = _kept_parts(fetched.get(ids[changed.was], {}), changed)
        row = replace(changed, data={**kept, **changed.data})
        if "full" in kept:  # searches find the article for as long as it is shown
            row = replace(row, text=readings.searchable_text(documents.entry_from_json(row.data)))
        groups[_overwritten_fields(row)].append(_make_entry(feed, row, 0, now, pk=ids[row.was]))
    for names, entries in groups.items():
        Entry.objects.bulk_create(
            entries, update_conflicts=True, unique_fields=["id"], update_fields=names, batch_size=200
        )


def _fetched_parts(entry_ids: Collection[int]) -> dict[int, Mapping[str, Any]]:
    """The data of entries with fetched supplements, by the rows' ids."""
    found = Supplement.objects.filter(entry__in=entry_ids, fetched_at__isnull=False)
    return dict(Entry.objects.filter(pk__in=found.values("entry")).values_list("pk", "data"))


def _kept_parts(before: Mapping[str, Any], row: EntryRow) -> dict[str, Any]:
    """The parts that were fetched for an entry, until they are fetched anew."""
    has_same_file = "chapters_url" in row.data and before.get("chapters_url") == row.data["chapters_url"]
    names = ("full",) * row.is_excerpt + ("chapters",) * has_same_file
    return {name: before[name] for name in names if name in before}


def _overwritten_fields(row: EntryRow) -> tuple[str, ...]:
    """Fields that overwrite an existing row. An entry without a date keeps its place in lists."""
    if not row.is_edited:
        return (*_MARK_FIELDS, *_SAID_FIELDS, "left_at", "change_number")
    is_dated = "published" in row.data or "updated" in row.data
    times = ("changed_at", "left_at", *(("happened_at",) if is_dated else ()))
    return (*_MARK_FIELDS, *_TEXT_FIELDS, *times, "change_number")


def _find_shared_ids(feed: Feed, rows: Sequence[EntryRow]) -> Iterator[int]:
    """Yields `Entry.shared_id` of new rows, by the stored entries and those before. Hidden feeds are not looked at."""
    marks = [diff.mark_id(row.data.get("id") or row.data.get("link", "")) for row in rows]
    feeds: defaultdict[str, set[int]] = defaultdict(set)
    among = Entry.objects.filter(Q(feed=feed) | Q(feed__is_hidden=False)).order_by()
    for some in database.split_portions(sorted(frozenset().union(*marks)), IDENTITIES_PER_QUERY):
        for identity, feed_id in among.filter(identity__in=some).values_list("identity", "feed_id"):
            feeds[identity].add(feed_id)
    for row, names in zip(rows, marks, strict=True):
        others = set().union(*(feeds[name] for name in names))
        is_own = row.marks.identity in names and feed.pk not in others
        yield (1 if others else 0) if is_own else 2
        for name in names:
            feeds[name].add(feed.pk)


def _make_entry(feed: Feed, row: EntryRow, shared_id: int, now: datetime, pk: int | None = None) -> Entry:
    return Entry(
        pk=pk,
        feed=feed,
        **asdict(row.marks),
        title=row.title,
        link=row.link,
        text=row.text,
        data=row.data,
        size=documents.count_json_characters(row.data),
        shared_id=shared_id,
        happened_at=row.happened_at,
        first_seen_at=now,
        changed_at=now,
    )


def _decide_next_check(feed: Feed, came: FetchResult, now: datetime, *, told_in_vain: bool) -> CheckDecision:
    published = Entry.objects.filter(feed=feed).order_by("-happened_at", "-pk").values_list("happened_at", flat=True)
    given = replace(feed_rows.read_circumstances(feed, now, random.random()), told_in_vain=told_in_vain)
    return next_check.decide_next_check(
        feed_rows.read_feed_state(feed), came.finding, list(published[:PUBLICATION_ENTRIES]), given
    )


def _changes_output(feed: Feed, reading: FeedReading) -> bool:
    """True if anything in the output changes. The time at which the feed was built does not count."""
    before, after = ({**values, "updated": None} for values in (feed.said, reading.said))
    return bool(reading.rows) or before != after or feed.fetched_at is None


def _store_feed(feed: Feed, came: FetchResult, decision: CheckDecision, now: datetime, *, is_changed: bool) -> None:
    fields: dict[str, Any] = {
        **feed_rows.decision_fields(decision),
        "trouble": _trouble_name(came.finding),
        "checked_at": now,
        "last_seconds": came.outcome.timing.seconds,
        "expected_seconds": due.expect_seconds(feed.url, came.outcome, came.began_at),
        "is_pushed": feed.is_pushed,
        **build_handover_end_fields(came.began_at),
    }
    if not isinstance(came.outcome, FetchFailed) and not isinstance(came.finding, FeedUnreadable):
        # Deliveries from before the request need not be waited for.
        delivered = Case(When(pushed_at__gt=came.began_at, then=F("delivered")), default=0)
        fields |= {"fetched_at": now, "delivered": delivered, **validator_fields(feed, came.outcome)}
        fields |= offer_fields(feed, came.outcome, came.reading)
    if came.reading is not None:
        fields |= build_reading_fields(came.reading)
    if is_changed:
        fields |= {"changed_at": now, "version": versions.next_version(now)}
    Feed.objects.filter(pk=feed.pk).update(**fields)


def _follow_redirect(feed: Feed, url: str, decision: CheckDecision, now: datetime) -> None:
    """Moves a feed that was redirected for good. Where another feed is, the reason tells people to merge the two."""
    *others, why = decision.reasons
    if lifecycle.try_move_feed(feed.pk, url, why, now):
        return
    there = Feed.objects.filter(url=url).exclude(pk=feed.pk).values_list("slug", flat=True).first()
    which = (
        f", the address of “{there}”. Merge the two." if there else ", which another feed has, or which is not allowed."
    )
    reason = " ".join((*others, f"Redirects permanently to {url}{which}"))
    Feed.objects.filter(pk=feed.pk).update(reason=reason, moving=feed.moving)


def build_handover_end_fields(began_at: datetime) -> dict[str, Any]:
    """Fields that end the handover of a fetch that began then. Earlier flags are cleared."""
    flagged = Case(When(flagged_at__gt=began_at, then=F("flagged_at")), default=None)
    return {"fetch_began_at": began_at, "handed_over_at": None, "flagged_at": flagged}


def _trouble_name(finding: FetchFinding) -> str:
    match finding:
        case FetchFailed():
            return trouble_of(finding).name
        case FeedUnreadable():
            return Trouble.UNREADABLE.name
    return ""


MAX_STORE_ROUNDS = 5

READER_POOL = ReaderPool(
    settings.FEEDS_READERS, settings.FEEDS_READER_IDLE_SECONDS, partial(metrics.count_lost_child, "feed")
)


def settle_fetch(feed_id: int, url: str, outcome: Fetched | NotModified | FetchFailed, now: datetime) -> StoreOutcome:
    """Stores the outcome of a fetch of that address. Raises DatabaseError and ReadersBusyError.

    If a web page came for a feed that was never read, the feeds that it announces take its place.
    """
    for _ in range(MAX_STORE_ROUNDS):
        feed = Feed.objects.filter(pk=feed_id).first()
        if feed is None or feed.url != url:
            return StoreOutcome.GONE
        kept = KeptEntries.of(feed) if isinstance(outcome, Fetched) else KeptEntries({}, frozenset())
        came, page = _read_outcome(feed, kept, outcome, now)
        stored = store_result(feed, kept, came, now)
        if stored is StoreOutcome.STORED and page is not None and not isinstance(outcome, FetchFailed):
            _follow_discovered(feed, page, outcome.head.url, now)
        if stored is not StoreOutcome.AGAIN:
            return stored
    return StoreOutcome.OVERTAKEN


def _follow_discovered(feed: Feed, page: NoFeed, page_url: str, now: datetime) -> None:
    """Follows the feeds that a page announces. The page's hubs serve a feed that has none of its own."""
    if page.announced and catalogue.replace_by_discovered(feed.pk, page.announced, page_url, now):
        linked = LinkedHubs(page.hubs, page.itself or page_url).to_json() if page.hubs else {}
        Feed.objects.filter(pk=feed.pk).update(linked={offers.PAGE_KEY: linked})
        feed_rows.ask_for_scan()


def _read_outcome(
    feed: Feed, kept: KeptEntries, outcome: Fetched | NotModified | FetchFailed, now: datetime
) -> tuple[FetchResult, NoFeed | None]:
    began_at = _began_at(outcome.timing, now)
    match outcome:
        case FetchFailed():
            return FetchResult(outcome, outcome, began_at), None
        case NotModified(head):
            return FetchResult(outcome, FeedUnchanged(head), began_at), None
        case Fetched(head, body) if kept.marks and feed.body_digest == body.digest:
            return FetchResult(outcome, FeedUnchanged(head), began_at), None
        case Fetched(head, body):
            question = BodyToRead(head.content_type, head.url, began_at, tuple(kept.marks.values()))
            match read_document(body, question):
                case FeedReading() as reading:
                    found = FeedRead(head, _publisher_hints(reading.said), reading.is_same)
                    return FetchResult(outcome, found, began_at, reading), None
                case NoFeed(why) as page:
                    return FetchResult(outcome, FeedUnreadable(why), began_at), page


def read_document(body: Body, question: BodyToRead) -> FeedReading | NoFeed:
    """Reads a body in a child process, within the settings' bounds. Raises ReadersBusyError."""
    return READER_POOL.read(body, question, ChildAllowance(settings.FEEDS_READ_BYTES, settings.FEEDS_READ_SECONDS))


def _began_at(timing: OutcomeTiming, now: datetime) -> datetime:
    began_at = datetime.fromtimestamp(timing.started_at, UTC)
    if began_at > now + MAX_CLOCK_LEAD:  # the clock was set back meanwhile: it began at this time at the earliest
        return now - timedelta(seconds=timing.seconds) - MAX_CLOCK_LEAD
    return min(began_at, now)


def _publisher_hints(head: Mapping[str, Any]) -> PublisherHints:
    minutes = head.get("ttl_minutes")
    return PublisherHints(
        ttl=timedelta(minutes=minutes) if minutes else None,
        skip_hours=frozenset(head.get("skip_hours", ())),
        skip_days=frozenset(head.get("skip_days", ())),
    )
