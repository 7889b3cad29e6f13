"""Prunes old entries and supplements without entries, and mails the admins about failing feeds.

Only entries that have left their feed's document are deleted: others would come back as new with the next fetch.
"""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import F, Max, Q

from resources import humanize, locks

from .changes import numbers
from .models import Entry, Feed, Supplement

ENTRIES_PER_DELETION = 500


def prune_feed_entries(feed_id: int, kept: int) -> int:
    """Deletes the oldest entries of a feed with `kept` entries, if these are too many. Returns how many."""
    surplus = kept - int(settings.FEEDS_KEEP_ENTRIES)
    if surplus <= 0:
        return 0
    oldest = Entry.objects.filter(feed_id=feed_id, left_at__isnull=False).order_by("happened_at", "pk")
    surplus_ids = list(oldest.values_list("pk", flat=True)[:surplus])
    return numbers.delete_entries(Entry.objects.filter(pk__in=surplus_ids), "pruned")


def prune_old_entries(now: datetime, seconds: float) -> int:
    """Deletes entries that left their feed FEEDS_KEEP_DAYS ago, for about so many seconds. Returns how many.

    Raises DatabaseError.
    """
    if not settings.FEEDS_KEEP_DAYS:
        return 0
    before, until, removed = now - timedelta(days=settings.FEEDS_KEEP_DAYS), time.monotonic() + seconds, 0
    while True:
        rows = (
            Entry.objects.filter(left_at__lt=before)
            .order_by("left_at")
            .values_list("pk", flat=True)[:ENTRIES_PER_DELETION]
        )
        gone = numbers.delete_entries(Entry.objects.filter(pk__in=list(rows)), "pruned")
        removed += gone
        if gone < ENTRIES_PER_DELETION or time.monotonic() >= until:
            return removed


SUPPLEMENTS_AT_ONCE = 10_000
"""Ids of supplements that are looked at in a minute: a million in less than two hours."""


def prune_supplements(now: datetime) -> int:
    """Deletes supplements of entries and feeds that an earlier version deleted, of the ids whose turn is this minute.

    Returns how many. Raises DatabaseError.
    """
    last = Supplement.objects.aggregate(Max("pk"))["pk__max"] or 0
    first = int(now.timestamp() // 60) % (last // SUPPLEMENTS_AT_ONCE + 1) * SUPPLEMENTS_AT_ONCE
    without_entry, without_feed = Q(entry__isnull=False, entry__identity=None), Q(feed__isnull=False, feed__slug=None)
    in_turn = Supplement.objects.filter(pk__gte=first, pk__lt=first + SUPPLEMENTS_AT_ONCE)
    orphans = list(in_turn.filter(without_entry | without_feed).values_list("pk", flat=True))
    return sum(
        Supplement.objects.filter(pk__in=orphans[place : place + ENTRIES_PER_DELETION]).delete()[0]
        for place in range(0, len(orphans), ENTRIES_PER_DELETION)
    )


MAX_MAILED_FEEDS = 100
MAILING_SECONDS = 60


def mail_failing_feeds(now: datetime) -> int:
    """Sends one mail about all feeds that were not mailed yet, and returns their number; 0 where mail is disabled.

    One process at a time does. Feeds count as mailed once the mail is on its way: a process that dies in between sends
    it again. Raises OSError, the base of SMTP's errors, StoreUnavailable and DatabaseError.
    """
    if not settings.MAIL_TO or not settings.FEEDS_MAIL_AFTER_HOURS:
        return 0
    return locks.run_alone("feeds:mailing", MAILING_SECONDS, lambda: _mail_untold(now))


def _mail_untold(now: datetime) -> int:
    long = timedelta(hours=settings.FEEDS_MAIL_AFTER_HOURS)
    untold = Q(mailed_at=None) | Q(mailed_at__lt=F("failing_since"))
    found = Feed.objects.filter(untold, paused=False, failing_since__lt=now - long).order_by("failing_since")
    rows = list(found.only("url", "title", "own_title", "reason", "failing_since"))
    if rows:
        _make_message(rows, long).send()
        Feed.objects.filter(pk__in=[feed.pk for feed in rows]).update(mailed_at=now)
    return len(rows)


def _make_message(rows: Sequence[Feed], long: timedelta) -> EmailMessage:
    which = "A feed has" if len(rows) == 1 else f"{len(rows):,} feeds have"
    summary = f"{which} been failing for more than {humanize.format_span(long)}"
    parts = [f"{summary}.", *map(_feed_lines, rows[:MAX_MAILED_FEEDS])]
    if len(rows) > MAX_MAILED_FEEDS:
        parts.append(f"And {len(rows) - MAX_MAILED_FEEDS:,} more.")
    parts.append(f"All that fail: {settings.PUBLIC_URL}/admin/feeds/feed/?health=failing")
    return EmailMessage(f"[Tarry] {summary}", "\n\n".join(parts), settings.MAIL_FROM, settings.MAIL_TO)


def _feed_lines(feed: Feed) -> str:
    since = humanize.format_moment(feed.failing_since) if feed.failing_since else ""
    place = f"{settings.PUBLIC_URL}/admin/feeds/feed/{feed.pk}/change/"
    return "\n".join((feed.shown_title, feed.url, f"Since {since}. {feed.reason}", place))
