"""Mail to the admins about feeds that fail for long. Each is told of once, until it has gone well again."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import F, Q

from ..deciding import words
from ..models import Feed

MOST_NAMED = 100


def tell_of_failing(now: datetime) -> int:
    """Sends one mail about all feeds that nobody was told of. How many; none where mail is not wanted.

    They count as told once the mail is on its way: who dies in between sends it again. Raises OSError, of which
    those of SMTP are, and DatabaseError.
    """
    if not settings.MAIL_TO or not settings.FEEDS_MAIL_AFTER_HOURS:
        return 0
    long = timedelta(hours=settings.FEEDS_MAIL_AFTER_HOURS)
    untold = Q(mailed_at=None) | Q(mailed_at__lt=F("failing_since"))
    found = Feed.objects.filter(untold, paused=False, failing_since__lt=now - long).order_by("failing_since")
    rows = list(found.only("url", "title", "own_title", "reason", "failing_since"))
    if rows:
        _message(rows, long).send()
        Feed.objects.filter(pk__in=[feed.pk for feed in rows]).update(mailed_at=now)
    return len(rows)


def _message(rows: Sequence[Feed], long: timedelta) -> EmailMessage:
    which = "A feed has" if len(rows) == 1 else f"{len(rows):,} feeds have"
    said = f"{which} been failing for more than {words.span(long)}"
    parts = [f"{said}.", *map(_about, rows[:MOST_NAMED])]
    if len(rows) > MOST_NAMED:
        parts.append(f"And {len(rows) - MOST_NAMED:,} more.")
    parts.append(f"All that fail: {settings.PUBLIC_URL}/admin/feeds/feed/?health=failing")
    return EmailMessage(f"[Tarry] {said}", "\n\n".join(parts), settings.MAIL_FROM, settings.MAIL_TO)


def _about(feed: Feed) -> str:
    since = words.moment(feed.failing_since) if feed.failing_since else ""
    place = f"{settings.PUBLIC_URL}/admin/feeds/feed/{feed.pk}/change/"
    return "\n".join((feed.shown_title, feed.url, f"Since {since}. {feed.reason}", place))
