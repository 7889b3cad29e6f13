"""Tells the health of one feed in a word and in sentences, and of all feeds in numbers. Changes nothing.

Also tells how a feed learns of changes: its hub, its subscription, and how far the hub is relied on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Q, QuerySet

from resources import humanize

from . import credentials, followers, supplements
from .hub_models import Hub, Subscription
from .models import Feed, Scan
from .push import trust
from .push.leases import ENDED_STATES
from .scan import push_trust
from .schedule.state import FeedStatus, Trouble

SLOW_SECONDS = 5.0
"""A feed that is expected to take longer is shown as slow."""
OVERDUE_AFTER = timedelta(minutes=10)
"""If a due feed was not fetched for so long, something holds up all feeds."""

HEALTH_CHOICES = {
    "well": Q(state=FeedStatus.ACTIVE.value, paused=False, fetched_at__isnull=False),
    "failing": Q(state=FeedStatus.FAILING.value, paused=False),
    "gone": Q(state=FeedStatus.GONE.value, paused=False),
    "throttled": Q(state=FeedStatus.THROTTLED.value, paused=False),
    "new": Q(state=FeedStatus.ACTIVE.value, paused=False, fetched_at=None),
    "paused": Q(paused=True),
    "slow": Q(expected_seconds__gte=SLOW_SECONDS),
    "pushed": Q(is_pushed=True),
    "moving": ~Q(moving={}),
    "hidden": Q(is_hidden=True),
}
"""Filters of the list. The first six split all feeds: each feed is in one of them."""
CHOICE_LABELS = {"well": "healthy", "new": "never fetched", "moving": "permanent redirect"}

PUBLIC_REASONS = {
    Trouble.OURS.name: "Not fetched: this site cannot reach its server.",
    Trouble.FORBIDDEN.name: "Not fetched: this site does not fetch from its address.",
}
"""Public sentences for troubles whose reasons may name addresses of a private network."""

DUPLICATES_ORDER = ("body_digest", "-subscriber_count")


@dataclass(frozen=True, slots=True)
class HealthCount:
    """The number of feeds of one kind; `name` is the list's filter for them."""

    name: str
    label: str
    number: int


@dataclass(frozen=True, slots=True)
class HealthSummary:
    total: int
    counts: tuple[HealthCount, ...]
    overdue: int
    scan: str
    push: str
    """The sentence on why no feed is pushed, where the site cannot be reached; else empty."""


def health_word(feed: Feed) -> str:
    """Returns the feed's health in a word: a name of one of the first six HEALTH_CHOICES."""
    if feed.paused:
        return "paused"
    if feed.state == FeedStatus.ACTIVE.value:
        return "new" if feed.fetched_at is None else "well"
    return feed.state


def health_label(feed: Feed) -> str:
    word = health_word(feed)
    return CHOICE_LABELS.get(word, word)


def trouble_words(feed: Feed) -> str:
    return Trouble[feed.trouble].value if feed.trouble in Trouble.__members__ else ""


def explain_schedule(feed: Feed, now: datetime) -> list[str]:
    """Explains the time of the next fetch, the most important first. For the admin: it may name private addresses."""
    if feed.paused:
        lines = ["Paused: not fetched, excluded from combined feeds."]
    elif feed.flagged_at is not None:
        ago = humanize.format_ago(feed.flagged_at, now)
        later = f"Pushed again soon after a fetch. Next check {ago}."
        lines = [later if feed.flagged_at > now else f"Flagged {ago}: first in the next scan."]
    elif feed.handed_over_at is not None:
        lines = [f"Queued for fetching {humanize.format_ago(feed.handed_over_at, now)}."]
    elif feed.next_check_at <= now:
        lines = [f"Due for {humanize.format_span(now - feed.next_check_at)}: fetched by the next scan."]
    else:
        at = f"{feed.next_check_at:%-d %B, %H:%M:%S} UTC"
        lines = [f"Next check {humanize.format_ago(feed.next_check_at, now)}, at {at}."]
    return [*lines, feed.reason] if feed.reason else lines


def explain_schedule_publicly(feed: Feed, now: datetime) -> list[str]:
    """Explains the same for clients with a token: without addresses of the network behind this site."""
    when, *reason = explain_schedule(feed, now)
    return [when, *([PUBLIC_REASONS[feed.trouble]] if feed.trouble in PUBLIC_REASONS else reason)]


def privacy_words(feed: Feed) -> str:
    """Tells which people can read the feed, where that may surprise."""
    if feed.is_hidden:
        return "Hidden: readable only in the admin and by tokens that may manage feeds."
    if credentials.is_private(feed):
        return "Public, although fetched with a user, a password or headers."
    return ""


def summarise_health(feeds: QuerySet[Feed], now: datetime) -> HealthSummary:
    counts = {name: Count("pk", filter=chosen) for name, chosen in HEALTH_CHOICES.items()}
    late = Q(paused=False, next_check_at__lt=now - OVERDUE_AFTER)
    found = feeds.order_by().aggregate(total=Count("pk"), overdue=Count("pk", filter=late), **counts)
    shown = [HealthCount(name, CHOICE_LABELS.get(name, name), found[name]) for name in HEALTH_CHOICES]
    numbers = tuple(one for one in shown if one.number)
    return HealthSummary(found["total"], numbers, found["overdue"], _last_scan_words(now), settings.FEEDS_PUSH_NOTE)


def _last_scan_words(now: datetime) -> str:
    scan = Scan.objects.filter(feeds__gt=0).order_by("-started_at").first()
    if scan is None:
        return ""
    ago = humanize.format_ago(scan.started_at, now)
    number = "1 feed" if scan.feeds == 1 else f"{scan.feeds:,} feeds"
    text = f"Last scan with due feeds: {ago}, {number}"
    if scan.makespan_seconds is None:
        return f"{text}, expected to take at least {humanize.format_span(timedelta(seconds=scan.expected_seconds))}."
    took, bound = scan.makespan_seconds, scan.bound_seconds
    ratio = f", {took / bound:.2f} times the lower bound" if bound else ""
    return f"{text} in {humanize.format_span(timedelta(seconds=took))}{ratio}."


def feed_facts(feed: Feed, now: datetime) -> Iterator[tuple[str, str]]:
    yield "Last check", humanize.format_ago(feed.checked_at, now)
    yield "Last success", humanize.format_ago(feed.fetched_at, now)
    yield "Last change", humanize.format_ago(feed.changed_at, now)
    yield "Failures in a row", _failure_words(feed, now)
    yield "Expected duration", _seconds_words(feed.expected_seconds, "unknown")
    yield "Last duration", _seconds_words(feed.last_seconds, "–")
    yield "Check interval", f"{humanize.format_span(feed.least)} to {humanize.format_span(feed.most)}"
    yield "Entries", _entry_words(feed)
    yield "Full articles", _article_words(feed)
    yield "Subscribers", _subscriber_words(feed)
    yield "Push", " ".join(push_sentences(feed, now))
    yield "Conditional requests", _validator_words(feed)


def _entry_words(feed: Feed) -> str:
    filtered = feed.entries.filter(filtered_at__isnull=False).count()
    words = f"{feed.entries.count():,}" + (f", {filtered:,} of them filtered" if filtered else "")
    return words if feed.judged_upto is None else f"{words}; changed filters are being applied"


def _article_words(feed: Feed) -> str:
    if not feed.full_content:
        return "not fetched"
    found = supplements.count_articles(feed.pk)
    return f"{found.shown:,} shown, {found.waiting:,} waiting, {found.missing:,} without"


def _subscriber_words(feed: Feed) -> str:
    """The numbers of readers come from measured traffic."""
    own = feed.subscriber_count
    combined = followers.count_subscribers([feed.pk]).get(feed.pk, own) - own
    known = f"{own - feed.reader_count:,} followers, {feed.reader_count:,} readers"
    if combined:
        known += f", {combined:,} readers of combined feeds"
    return known if settings.OBSERVE else f"{known} (no longer counted: OBSERVE=0)"


def _failure_words(feed: Feed, now: datetime) -> str:
    if not feed.failures or feed.failing_since is None:
        return "none"
    return f"{feed.failures:,}, the first {humanize.format_ago(feed.failing_since, now)}"


def _seconds_words(seconds: float | None, unknown: str) -> str:
    return unknown if seconds is None else f"{seconds:.2f} s"


def _validator_words(feed: Feed) -> str:
    found = [name for name, value in (("ETag", feed.etag), ("Last-Modified", feed.last_modified)) if value]
    return " and ".join(found) or "no validators"


def push_sentences(feed: Feed, now: datetime) -> list[str]:
    """Returns the state of push for the feed: the subscription, how far it is relied on, and the last push."""
    live = Subscription.objects.filter(feed=feed).exclude(state__in=ENDED_STATES).select_related("hub").first()
    if live is None:
        return [_why_unsubscribed(feed)]
    lines = [f"{live.hub.get_kind_display()}, {live.hub.url}: {live.state}. {live.reason}", subscription_words(live)]
    if feed.pushed_at is not None:
        lines.append(f"Last push {humanize.format_ago(feed.pushed_at, now)}.")
    return lines


def subscription_words(subscription: Subscription) -> str:
    """Tells whether the feed is polled less often, and why or why not."""
    return trust.describe_feed_trust(push_trust.push_record(subscription), push_trust.hub_score(subscription.hub))


def hub_words(hub: Hub) -> str:
    return trust.describe_hub_trust(push_trust.hub_score(hub))


def _why_unsubscribed(feed: Feed) -> str:
    if not feed.offer_digest:
        return "not offered by this feed"
    if not settings.FEEDS_PUSH:
        why = "no hub or cloud can reach this site" if settings.FEEDS_PUSH_NOTE else "disabled on this site"
        return f"offered, but {why} (FEEDS_PUSH)"
    return "offered, not subscribed: the feed has no readers, or no recent entries"


def likely_duplicates(feeds: QuerySet[Feed]) -> QuerySet[Feed]:
    """Returns the feeds whose last body was, byte for byte, that of another feed."""
    read = Feed.objects.exclude(body_digest="").order_by().values("body_digest")
    twice = read.annotate(number=Count("pk")).filter(number__gt=1).values("body_digest")
    return feeds.filter(body_digest__in=twice)
