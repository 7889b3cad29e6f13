"""Fetches and stores supplements: articles of excerpts, files of chapters, icons of sites.

A scan hands the due ones over to the fetchers, a bounded number at a time. The pages are taken apart in a child
process. What comes is stored beside the feed's own words, which the marks of entries go by: it is no edit of the feed.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urljoin

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import transaction

from resources import locks, sandbox
from resources.database import write_turn
from resources.fetch import dispatch
from resources.fetch.conf import fast_limits
from resources.fetch.dispatch import EnqueueOutcome, OriginBusy, QueuedWork, UrlRefused
from resources.fetch.http.limit_scopes import url_scopes
from resources.fetch.http.messages import Body, Failure, Fetched, FetchFailed, FetchRequest, NotModified, OutcomeTiming
from resources.sandbox import ChildAllowance
from retry import metrics
from retry.claim_state import LaneFull, WorkDone, WorkFailed
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.work import Argument, Work

from .. import credentials, feed_rows, filters, readings, supplements, versions
from ..changes import numbers
from ..models import MAX_URL_CHARACTERS, Entry, Feed, Supplement
from ..parser import discovery, documents
from ..supplements import ARTICLE, CHAPTERS, ICON
from .fetch_task import RETRY_SECONDS
from .reader_process import ChildPool, ReadersBusyError

TASK_NAME, LANE = "feeds.supplement", "fetch.supplements"
PASS_LOCK, PASS_LOCK_SECONDS = "feeds:supplements", 30
MAX_HANDED_OVER, MAX_LOOKED_AT = 200, 1000
"""In one scan."""
MAX_OF_A_HOST = 20
"""In the hands of the fetchers: a slow host with many pages leaves room in the lane for others."""
LOOK_AGAIN_AFTER = timedelta(minutes=10)
"""The time after which a supplement is handed over again: it joins its own claim, if that is still there."""
MIN_WAIT = timedelta(seconds=10)
MAX_SMALL_BYTES = 1_000_000
"""Bytes of a file of chapters, or of an icon."""
FAVICON_PATH = "/favicon.ico"
_PARTS = {ARTICLE: "full", CHAPTERS: "chapters"}
"""The field of an entry's data that each kind of supplement fills."""
ACCEPT_FIELDS = {
    ARTICLE: "text/html, application/xhtml+xml;q=0.9",
    CHAPTERS: "application/json+chapters, application/json;q=0.9, */*;q=0.1",
    ICON: "text/html, image/*;q=0.9, */*;q=0.1",
}

PAGE_POOL = ChildPool(
    "feeds.scan.page_process", 1, settings.FEEDS_READER_IDLE_SECONDS, partial(metrics.count_lost_child, "page")
)

_log = logging.getLogger("tarry.feeds")


def hand_over_supplements(now: datetime) -> int:
    """Hands over due supplements, and returns their number; 0 while another process does.

    Raises StoreUnavailable and DatabaseError.
    """
    return locks.run_alone(PASS_LOCK, PASS_LOCK_SECONDS, partial(_hand_over_alone, now))


def _hand_over_alone(now: datetime) -> int:
    wanted = _choose_rows(now)
    if not wanted:
        return 0

    def write_rows(begun: Collection[int], in_hand: Collection[int]) -> None:
        rows = Supplement.objects.filter(pk__in=[*begun, *in_hand], due_at__lte=now)
        rows.update(due_at=now + LOOK_AGAIN_AFTER, handed_over_at=now)

    works = {pk: work for pk, (_, work) in wanted.items()}
    outcomes = dispatch.claim_and_enqueue(works, refresh=True, write_rows=write_rows)
    for pk, outcome in outcomes.items():
        _note_outcome(wanted[pk][0], outcome, now)
    return len(works)


def _choose_rows(now: datetime) -> dict[int, tuple[Supplement, QueuedWork]]:
    """The due rows of one scan with their works. Those of a host that has enough are put off to later scans.

    Those that are in hand for long are handed over again: they take no other place.
    """
    wanted, late = dict[int, tuple[Supplement, QueuedWork]](), defaultdict[int, list[int]](list)
    in_hand = supplements.addresses_in_hand(now + LOOK_AGAIN_AFTER)
    taken, over = Counter(map(_host_of, in_hand)), Counter[str]()
    for row in supplements.due_supplements(now)[:MAX_LOOKED_AT]:
        if len(wanted) == MAX_HANDED_OVER:
            break
        if not (url := _prepare_row(row, now)):
            continue
        host, is_new = _host_of(url), row.handed_over_at is None
        if is_new and taken[host] >= MAX_OF_A_HOST:
            late[over[host] // MAX_OF_A_HOST + 1].append(row.pk)
            over[host] += 1
            continue
        taken[host] += is_new
        wanted[row.pk] = (row, QueuedWork(_make_work(row, url)))
    for scans, rows in late.items():
        Supplement.objects.filter(pk__in=rows).update(due_at=now + scans * supplements.SCAN_APART)
    return wanted


def _host_of(url: str) -> str:
    """The domain whose limits hold for the URL; empty if it has no host."""
    try:
        return url_scopes(url).registrable
    except ValueError:
        return ""


def _make_work(row: Supplement, url: str) -> Work:
    key = f"fetch:supplement:{row.pk}:{row.mark or len(row.url)}"
    return Work(key, "supplement", LANE, LANE, TASK_NAME, (url, row.pk, row.mark))


def _prepare_row(row: Supplement, now: datetime) -> str:
    """Returns the URL to fetch; empty for a row that needs none, which is settled here. Raises DatabaseError."""
    feed = row.entry.feed if row.entry else row.feed
    if feed is None:  # an earlier version deleted the entry or the feed
        row.delete()
    elif row.kind == ARTICLE and not feed.full_content:
        _remove_article(row, now)
    elif row.kind != ICON:
        return row.url
    elif url := row.url or _page_with_icon(feed):
        return url
    else:
        _store_icon(row, feed, "", now)
    return ""


def _page_with_icon(feed: Feed) -> str:
    """The site's page; empty where the feed is hidden, or its address could be told by that."""
    return "" if feed.is_hidden or credentials.is_private(feed) else feed.shown_site


def _note_outcome(row: Supplement, outcome: EnqueueOutcome, now: datetime) -> None:
    """Puts off a supplement that cannot be fetched now."""
    match outcome:
        case WorkFailed() | WorkDone() | OriginBusy() | LaneFull():
            wait = max(MIN_WAIT, timedelta(seconds=outcome.wait_seconds))
            supplements.postpone_supplement(row, now + wait)
        case UrlRefused():
            settle_outcome(row, FetchFailed(Failure.REFUSED, "Its address cannot be requested", _no_time(now)), now)


def _no_time(now: datetime) -> OutcomeTiming:
    return OutcomeTiming(now.timestamp(), 0)


class FetchSupplement:
    """The task `feeds.supplement`. Its arguments are the URL, the supplement's id, and its mark."""

    obeys_robots = True
    """Feeds name these addresses, no user did."""

    settles_waits = True
    """The row has the time of the next fetch."""

    def fetch(self, *arguments: Argument) -> FetchRequest | Mapping[str, Prepared]:
        """Returns the request; nothing if the supplement is no longer wanted. Raises PreparationError."""
        try:
            row = _load_row(arguments)
        except DatabaseError as error:
            raise _outage_error() from error
        if row is None:
            return {}
        is_page = row.kind == ARTICLE or (row.kind == ICON and not row.url)
        limits = replace(fast_limits(), max_body_bytes=settings.FEEDS_PAGE_BYTES if is_page else MAX_SMALL_BYTES)
        return FetchRequest(str(arguments[0]), kind="page", headers={"Accept": ACCEPT_FIELDS[row.kind]}, limits=limits)

    def prepare(self, outcome: Fetched | NotModified | FetchFailed, *arguments: Argument) -> Mapping[str, Prepared]:
        """Stores the outcome. Raises PreparationError."""
        try:
            row = _load_row(arguments)
            if row is not None:
                settle_outcome(row, outcome, datetime.now(UTC))
        except DatabaseError as error:
            _log.warning("a page beside a feed could not be stored", extra={"error": str(error)})
            raise _outage_error() from error
        except ReadersBusyError as error:
            raise PreparationError(str(error), status=503, retry_seconds=RETRY_SECONDS) from error
        return {}


TASK = FetchSupplement()


def _load_row(arguments: Sequence[Argument]) -> Supplement | None:
    """The supplement, unless it is wanted otherwise by now."""
    rows = Supplement.objects.select_related("entry__feed", "feed").exclude(due_at=None)
    row = rows.filter(pk=int(arguments[1]), mark=str(arguments[2])).first()
    return row if row is not None and (row.entry or row.feed) else None


def _outage_error() -> PreparationError:
    return PreparationError("The feeds cannot be read now.", status=503, retry_seconds=RETRY_SECONDS)


def settle_outcome(row: Supplement, outcome: Fetched | NotModified | FetchFailed, now: datetime) -> None:
    """Stores the outcome of a supplement's fetch. Raises DatabaseError and ReadersBusyError."""
    if row.kind == ICON:
        assert row.feed is not None
        _settle_icon(row, row.feed, outcome, now)
        return
    assert row.entry is not None
    match outcome:
        case FetchFailed():
            supplements.note_failure(row, outcome, now)
        case NotModified():
            supplements.end_supplement(row, now, "Its server answered 304 to a plain request.")
        case Fetched(head, body):
            given: dict[str, Any] = {"content_type": head.content_type, "url": head.url}
            if row.kind == ARTICLE:
                given["entry"] = {name: value for name, value in row.entry.data.items() if name != "full"}
            found = _ask_child({"kind": row.kind, **given}, body)
            _store_in_entry(row, row.entry, found, now)


def _ask_child(values: Mapping[str, Any], body: Body) -> Mapping[str, Any]:
    allowance = ChildAllowance(settings.FEEDS_READ_BYTES, settings.FEEDS_READ_SECONDS)
    try:
        return PAGE_POOL.ask(values, body, allowance).values
    except sandbox.ChildTimeoutError:
        return {"why": "It takes too long to read."}
    except sandbox.ChildDiedError:
        return {"why": "It cannot be read: the reader failed."}


def _store_in_entry(row: Supplement, entry: Entry, found: Mapping[str, Any], now: datetime) -> None:
    """Stores what was found. An article that the page no longer has leaves the feed's own text."""
    with write_turn(), transaction.atomic():
        versions.lock_rows(Feed.objects.filter(pk=entry.feed_id))
        stands = Entry.objects.filter(pk=entry.pk, content=row.mark).first()
        if stands is None:  # edited meanwhile, and wanted anew
            return
        data = {name: value for name, value in stands.data.items() if name != _PARTS[row.kind]}
        data |= {name: found[name] for name in (_PARTS[row.kind],) if found.get(name)}
        if data != stands.data:
            own = stands.text if row.kind == CHAPTERS else readings.searchable_text(documents.entry_from_json(data))
            _write_entry(stands, data, now, found.get("text", own))
        supplements.end_supplement(row, now, found.get("why", ""))


def _remove_article(row: Supplement, now: datetime) -> None:
    """Removes the article of an entry whose feed is no longer to have any, and its row."""
    with write_turn(), transaction.atomic():
        versions.lock_rows(Feed.objects.filter(pk__in=Entry.objects.filter(supplement=row).values("feed")))
        stands = Entry.objects.filter(supplement=row).first()
        if stands is not None and "full" in stands.data:
            data = {name: value for name, value in stands.data.items() if name != "full"}
            _write_entry(stands, data, now, readings.searchable_text(documents.entry_from_json(data)))
        row.delete()


def _write_entry(entry: Entry, data: Mapping[str, Any], now: datetime, text: str) -> None:
    size = documents.count_json_characters(data)
    Entry.objects.filter(pk=entry.pk).update(data=data, size=size, text=text, changed_at=now, change_number=None)
    filters.judge_stored(entry.feed_id, [entry.identity], now)
    numbers.number_on_commit()
    feed_rows.touch_feeds([entry.feed_id], now)


def _settle_icon(row: Supplement, feed: Feed, outcome: Fetched | NotModified | FetchFailed, now: datetime) -> None:
    """Stores the icon that the page declares, else looks for the usual file, else takes the feed's own picture."""
    if isinstance(outcome, FetchFailed) and outcome.failure in {Failure.OURS, Failure.POSTPONED, Failure.THROTTLED}:
        supplements.note_failure(row, outcome, now)
        return
    icon = ""
    if isinstance(outcome, Fetched) and row.url:
        icon = row.url if discovery.is_icon(outcome.body.read()) else ""
    elif isinstance(outcome, Fetched):
        values = {"kind": ICON, "content_type": outcome.head.content_type, "url": outcome.head.url}
        icon = str(_ask_child(values, outcome.body).get("icon", ""))
    if not icon and not row.url and len(favicon := urljoin(feed.site, FAVICON_PATH)) <= MAX_URL_CHARACTERS:
        supplements.look_for_icon_at(row, favicon, now)
    else:
        _store_icon(row, feed, icon, now)


def _store_icon(row: Supplement, feed: Feed, icon: str, now: datetime) -> None:
    """Stores an icon that was found; without one the picture that the feed names. A kept one is kept otherwise."""
    shown = icon or str(feed.said.get("icon") or feed.said.get("image") or "")
    shown = "" if len(shown) > MAX_URL_CHARACTERS else shown
    with write_turn(), transaction.atomic():
        if shown != feed.icon and Feed.objects.filter(pk=feed.pk).update(icon=shown):
            feed_rows.touch_feeds([feed.pk], now)
        supplements.rest_icon(row, now, was_found=bool(icon))
