"""How a feed stands, in a word and in sentences; how all of them do. Changes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Q, QuerySet

from resources import words

from ..deciding.standing import State
from ..deciding.troubles import Trouble
from ..models import Feed, Scan
from . import credentials, pushed

SLOW_SECONDS = 5.0
"""A feed that is expected to take longer is shown as slow."""
OVERDUE = timedelta(minutes=10)
"""When a feed that is due was not fetched for so long, something holds all of them up."""

PAUSED, NEW = "paused", "new"
WORDS = {State.ACTIVE.value: "well"}
"""What is said of a state where its name is not it."""

CHOICES = {
    "well": Q(state=State.ACTIVE.value, paused=False, fetched_at__isnull=False),
    "failing": Q(state=State.FAILING.value, paused=False),
    "gone": Q(state=State.GONE.value, paused=False),
    "throttled": Q(state=State.THROTTLED.value, paused=False),
    "new": Q(state=State.ACTIVE.value, paused=False, fetched_at=None),
    "paused": Q(paused=True),
    "slow": Q(expected_seconds__gte=SLOW_SECONDS),
    "pushed": Q(is_pushed=True),
    "moving": ~Q(moving={}),
    "hidden": Q(is_hidden=True),
}
"""What the list can be narrowed to. The first six are all feeds, each in one of them."""
LABELS = {"new": "never read", "moving": "redirecting for good"}

IN_PLACE = {
    Trouble.OURS.name: "Not fetched: this site cannot reach its server.",
    Trouble.FORBIDDEN.name: "Not fetched: its address leads where this site does not fetch from.",
}
"""After these troubles, in place of why a feed is fetched when it is: that may name addresses of a private network."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How many feeds stand like that; `name` is what the list is narrowed by."""

    name: str
    label: str
    number: int


@dataclass(frozen=True, slots=True)
class Summary:
    """How all feeds stand, and how the last scans went."""

    total: int
    counts: tuple[Standing, ...]
    overdue: int
    scan: str


def word(feed: Feed) -> str:
    """How it stands, in a word: one of the names of the first CHOICES."""
    if feed.paused:
        return PAUSED
    if feed.state == State.ACTIVE.value and feed.fetched_at is None:
        return NEW
    return WORDS.get(feed.state, feed.state)


def trouble(feed: Feed) -> str:
    """What the last fetch met, in words; empty for none."""
    return Trouble[feed.trouble].value if feed.trouble in Trouble.__members__ else ""


def why(feed: Feed, now: datetime) -> list[str]:
    """Why it is fetched when it is, the most important first. For the admin: it may name addresses of any network."""
    if feed.paused:
        said = ["It is paused: it is not fetched, and is in no combination."]
    elif feed.flagged_at is not None and feed.flagged_at > now:
        said = [f"It was told of again soon after it was fetched: it is fetched {words.ago(feed.flagged_at, now)}."]
    elif feed.flagged_at is not None:
        said = [f"It was flagged, {words.ago(feed.flagged_at, now)}: the next scan takes it before the rest."]
    elif feed.handed_over_at is not None:
        said = [f"It was handed over to the fetchers, {words.ago(feed.handed_over_at, now)}: it waits for its turn."]
    elif feed.next_check_at <= now:
        said = [f"It is due since {words.span(now - feed.next_check_at)}: the next scan takes it."]
    else:
        said = [f"It is fetched {words.ago(feed.next_check_at, now)}, at {feed.next_check_at:%-d %B, %H:%M:%S} UTC."]
    return [*said, feed.reason] if feed.reason else said


def told(feed: Feed, now: datetime) -> list[str]:
    """The same for whoever has a token: without addresses of the network behind."""
    when, *reason = why(feed, now)
    return [when, *([IN_PLACE[feed.trouble]] if feed.trouble in IN_PLACE else reason)]


def privacy(feed: Feed) -> str:
    """Who can read what it says, where that may surprise."""
    if feed.is_hidden:
        return "It is kept out of what is public: only here, and by tokens that may manage feeds, it can be read."
    if credentials.is_private(feed):
        return "Its server is shown a user, a password or headers, and everybody can read here what it answers."
    return ""


def summary(feeds: QuerySet[Feed], now: datetime) -> Summary:
    """How all of these stand: one pass over them."""
    counts = {name: Count("pk", filter=chosen) for name, chosen in CHOICES.items()}
    late = Q(paused=False, next_check_at__lt=now - OVERDUE)
    found = feeds.order_by().aggregate(total=Count("pk"), overdue=Count("pk", filter=late), **counts)
    shown = [Standing(name, LABELS.get(name, name), found[name]) for name in CHOICES]
    return Summary(found["total"], tuple(one for one in shown if one.number), found["overdue"], _last_scan(now))


def _last_scan(now: datetime) -> str:
    """The last scan that took something, in a sentence."""
    scan = Scan.objects.filter(feeds__gt=0).order_by("-started_at").first()
    if scan is None:
        return ""
    said = f"The last scan that found something due, {words.ago(scan.started_at, now)}, took {_number(scan.feeds)}"
    if scan.makespan_seconds is None:
        return f"{said}; at least {words.span(timedelta(seconds=scan.expected_seconds))} was expected."
    return f"{said} in {words.span(timedelta(seconds=scan.makespan_seconds))}{_ratio(scan)}."


def _number(feeds: int) -> str:
    return "one feed" if feeds == 1 else f"{feeds:,} feeds"


def _ratio(scan: Scan) -> str:
    if not scan.bound_seconds or scan.makespan_seconds is None:
        return ""
    return f", {scan.makespan_seconds / scan.bound_seconds:.2f} times the lower bound"


def facts(feed: Feed, now: datetime) -> Iterator[tuple[str, str]]:
    """Terms, and what stands for them."""
    yield "Last check", words.ago(feed.checked_at, now)
    yield "Last good check", words.ago(feed.fetched_at, now)
    yield "Last change", words.ago(feed.changed_at, now)
    yield "Failures in a row", _failures(feed, now)
    yield "Expected to take", _seconds(feed.expected_seconds, "not known yet")
    yield "Took the last time", _seconds(feed.last_seconds, "–")
    yield "Checked", f"every {words.span(feed.least)} to {words.span(feed.most)}"
    yield "Entries", f"{feed.entries.count():,}"
    yield "Subscribers", f"{feed.subscriber_count - feed.reader_count:,} followers, {_readers(feed)}"
    yield "Told of changes", " ".join(pushed.of_feed(feed, now))
    yield "Asks the server whether it has changed", _validators(feed)


def _readers(feed: Feed) -> str:
    """Their number is made of measured traffic."""
    known = f"{feed.reader_count:,} readers"
    return known if settings.OBSERVE else f"{known} as last counted: OBSERVE=0 counts none"


def _failures(feed: Feed, now: datetime) -> str:
    if not feed.failures or feed.failing_since is None:
        return "none"
    return f"{feed.failures:,}, the first {words.ago(feed.failing_since, now)}"


def _seconds(seconds: float | None, unknown: str) -> str:
    return unknown if seconds is None else f"{seconds:.2f} s"


def _validators(feed: Feed) -> str:
    found = [name for name, value in (("ETag", feed.etag), ("Last-Modified", feed.last_modified)) if value]
    return f"by {' and '.join(found)}" if found else "no: it gives nothing to ask by"


TOGETHER = ("body_digest", "-subscriber_count")
"""The order in which likely duplicates stand side by side."""


def likely_duplicates(feeds: QuerySet[Feed]) -> QuerySet[Feed]:
    """Those whose last body was, byte for byte, that of another feed."""
    read = Feed.objects.exclude(body_digest="").order_by().values("body_digest")
    twice = read.annotate(number=Count("pk")).filter(number__gt=1).values("body_digest")
    return feeds.filter(body_digest__in=twice)
