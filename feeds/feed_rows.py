"""Reads and writes the rows of feeds: versions, slugs, states and flags.

Slugs of feeds and categories stand in the addresses of their output. Addresses with a former slug of a feed still lead
to it.
"""

import logging
import re
import unicodedata
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from redis.exceptions import ConnectionError as NotRunning
from redis.exceptions import RedisError

from resources import locks
from retry import lanes, stores
from retry.errors import QueueUnavailable

from . import versions
from .changes import numbers
from .models import Feed, FormerSlug
from .schedule.next_check import CheckCircumstances, CheckDecision
from .schedule.state import CheckRules, FeedState, FeedStatus, PublisherHints, RedirectSighting

_log = logging.getLogger("tarry.feeds")

ONE_WEEK = timedelta(days=7)

SCAN_TASK = "feeds.scan"
SCAN_ASKED_KEY, SCAN_ASKED_SECONDS = "feeds:scan-asked", 10
"""The key is in `state` from the request for a scan until the scan begins: meanwhile no other request is needed."""

MAX_SLUG_WORDS_CHARACTERS = 60
"""The length of a slug's words. A number or digest that makes it unique comes after them."""

_NOT_A_WORD = re.compile(r"[^a-z0-9]+")
_LAST_SLUG_NUMBER = 9


def touch_feeds(feeds: Collection[int], now: datetime, *, withdrawn: bool = False) -> None:
    """Raises the versions of these feeds, and of every combination they are in.

    `withdrawn`: they leave their combinations, and pages with them are no longer served.
    """
    if feeds:
        Feed.objects.filter(pk__in=feeds).update(version=versions.next_version(now))
        numbers.check_feeds(feeds)
        versions.touch_combinations(feeds, now, withdrawn=withdrawn)


def touch_categories(categories: Collection[int], now: datetime, *, withdrawn: bool = False) -> None:
    """Raises the versions of these categories and those above them, which they leave if they are `withdrawn`."""
    numbers.check_categories(categories)
    versions.raise_categories(categories, now, withdrawn=withdrawn)


def read_feed_state(feed: Feed) -> FeedState:
    return FeedState(
        state=FeedStatus(feed.state),
        failures=feed.failures,
        failing_since=feed.failing_since,
        held_up=feed.held_up,
        hints=_read_hints(feed.hints),
        moving=_read_sighting(feed.moving),
    )


def read_circumstances(feed: Feed, now: datetime, luck: float) -> CheckCircumstances:
    """The rules and facts for a decision on this feed. `luck` as in CheckCircumstances."""
    usual = CheckRules().usual
    rules = CheckRules(
        least=feed.least,
        usual=min(max(usual, feed.least), feed.most),
        most=feed.most,
        longest_pause=max(ONE_WEEK, feed.most),
    )
    return CheckCircumstances(now, rules, luck, is_pushed=feed.is_pushed, refused_moves=feed.refused_moves)


def decision_fields(decision: CheckDecision) -> dict[str, Any]:
    after = decision.feed_state
    return {
        "state": after.state.value,
        "failures": after.failures,
        "failing_since": after.failing_since,
        "held_up": after.held_up,
        "hints": _write_hints(after.hints),
        "moving": _write_sighting(after.moving),
        "next_check_at": decision.next_check_at,
        "reason": decision.reason,
    }


def _read_hints(held: dict[str, Any]) -> PublisherHints:
    return PublisherHints(
        fresh=_read_duration(held.get("fresh")),
        ttl=_read_duration(held.get("ttl")),
        skip_hours=frozenset(held.get("skip_hours", ())),
        skip_days=frozenset(held.get("skip_days", ())),
    )


def _write_hints(hints: PublisherHints) -> dict[str, Any]:
    lengths = {"fresh": hints.fresh, "ttl": hints.ttl}
    days = {"skip_hours": sorted(hints.skip_hours), "skip_days": sorted(hints.skip_days)}
    found = {name: length.total_seconds() for name, length in lengths.items() if length is not None}
    return {**found, **{name: numbers for name, numbers in days.items() if numbers}}


def _read_duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def _read_sighting(held: dict[str, Any]) -> RedirectSighting | None:
    if not held:
        return None
    first_at, last_at = datetime.fromisoformat(held["first_at"]), datetime.fromisoformat(held["last_at"])
    return RedirectSighting(held["url"], first_at, last_at, held["times"])


def _write_sighting(seen: RedirectSighting | None) -> dict[str, Any]:
    if seen is None:
        return {}
    moments = {"first_at": seen.first_at.isoformat(), "last_at": seen.last_at.isoformat()}
    return {"url": seen.url, "times": seen.times, **moments}


def flag_feeds(feeds: Collection[int], now: datetime) -> int:
    """Flags feeds: they are fetched before the rest. Returns their number. Raises DatabaseError.

    Paused feeds are not fetched. In a transaction the scan is asked for at the end: it would not see the flags before.
    """
    with transaction.atomic():
        rows = Feed.objects.filter(pk__in=feeds, paused=False)
        if len(feeds) > 1:
            rows = Feed.objects.filter(pk__in=versions.lock_rows(rows))
        flagged = rows.update(flagged_at=now)
        if flagged:
            transaction.on_commit(ask_for_scan)
    return flagged


def ask_for_scan() -> None:
    """Asks for a scan soon. Where Redis is away the next timed scan does the work: no caller waits for it."""
    try:
        if stores.fast_client("state").set(SCAN_ASKED_KEY, 1, nx=True, ex=SCAN_ASKED_SECONDS):
            _publish_scan()
    except NotRunning:
        _log.debug("no scan is asked for: the site is not running")
    except (RedisError, QueueUnavailable, OSError) as error:
        _log.warning("a scan could not be asked for", extra={"error": str(error)})


def note_scan_begun() -> None:
    """Notes that a scan begins: a flag from now on asks for another scan. Raises StoreUnavailable."""
    with locks.open_state() as client:
        client.delete(SCAN_ASKED_KEY)


def publish_pending_scan() -> None:
    """Publishes a request again that came during a scan: its task may have run, and ended at the lock, meanwhile.

    Raises StoreUnavailable.
    """
    with locks.open_state() as client:
        is_asked = client.exists(SCAN_ASKED_KEY)
    if is_asked:
        try:
            _publish_scan()
        except QueueUnavailable as error:
            _log.warning("a scan could not be asked for", extra={"error": str(error)})


def _publish_scan() -> None:
    lanes.send_task(SCAN_TASK, (), "work")


def make_slug(text: str) -> str:
    """The text in lower-case Latin letters and digits, with hyphens between; empty if it has none of them."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = _NOT_A_WORD.sub("-", plain)[: MAX_SLUG_WORDS_CHARACTERS + 1].strip("-")
    if len(words) <= MAX_SLUG_WORDS_CHARACTERS:
        return words
    return words.rpartition("-")[0] or words[:MAX_SLUG_WORDS_CHARACTERS]


def make_feed_slug(title: str, url: str) -> str:
    """Makes a slug of the title, else of the host: a path may hold secrets. Empty only for odd hosts."""
    return make_slug(title) or make_slug((urlsplit(url).hostname or "").removeprefix("www."))


def candidate_slugs(slug: str, kind: str, digest: str) -> tuple[str, ...]:
    """The slugs to try one after the other: itself, with numbers, with a digest (hexadecimal).

    `kind` takes the place of an empty slug.
    """
    short = f"{slug or kind}-{digest[:8]}"
    if not slug:
        return short, f"{kind}-{digest}"
    return slug, *(f"{slug}-{number}" for number in range(2, _LAST_SLUG_NUMBER + 1)), short, f"{slug[:30]}-{digest}"


def remember_slugs(slugs: Collection[str], feed_id: int) -> None:
    """Makes these slugs lead to the feed, wherever they led before. Call it in a transaction."""
    FormerSlug.objects.filter(slug__in=slugs).delete()
    FormerSlug.objects.bulk_create([FormerSlug(slug=slug, feed_id=feed_id) for slug in slugs])


def take_over_slugs(kept_id: int, other_id: int) -> None:
    """Makes all slugs of the other feed lead to the kept one. Call it before the other feed is deleted."""
    FormerSlug.objects.filter(feed_id=other_id).update(feed_id=kept_id)
    remember_slugs(list(Feed.objects.filter(pk=other_id).values_list("slug", flat=True)), kept_id)


def current_slug(slug: str, *, also_hidden: bool = False) -> str | None:
    """Returns the present slug of the feed that once had this one, or None. Raises DatabaseError."""
    found = FormerSlug.objects.filter(slug=slug)
    found = found if also_hidden else found.filter(feed__is_hidden=False)
    return found.values_list("feed__slug", flat=True).first()
