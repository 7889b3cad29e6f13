"""Trust in hubs, as it is written with the entries."""

from datetime import UTC, datetime, timedelta

import pytest
from multidict import CIMultiDict

from feeds import readings
from feeds.hub_models import Hub, Subscription
from feeds.models import Feed
from feeds.push.leases import SubscriptionStatus
from feeds.push.trust import RELIED_ON_IN_A_ROW
from feeds.readings import BodyToRead, FeedReading
from feeds.scan import push_trust, store
from feeds.scan.store import FetchResult, KeptEntries, StoreOutcome
from feeds.schedule.next_check import FeedRead
from resources.fetch.http.messages import Body, Fetched, Head, OutcomeTiming
from tests.support.feed_hubs import hub, subscribed
from tests.support.feed_scans import subscribe

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
_HUB = "<link xmlns='http://www.w3.org/2005/Atom' rel='hub' href='https://hub.example/'/>"
_RFC822 = "%a, %d %b %Y %H:%M:%S +0000"


def document(days: list[int]) -> bytes:
    """A feed with a hub that published on these days."""
    items = "".join(f"<item><guid>{day}</guid><pubDate>{NOW + day * DAY:{_RFC822}}</pubDate></item>" for day in days)
    return f"<rss version='2.0'><channel><title>A feed</title>{_HUB}{items}</channel></rss>".encode()


class Followed:
    """A feed that publishes something each time it is looked at, told of or not."""

    def __init__(self, name: str, **fields: object) -> None:
        self.pk = subscribe(f"https://{name}.example/feed", name).pk
        self.published: list[int] = []
        self.days = 0
        self.look()
        subscribed(self.row(), self.now, **fields)  # type: ignore[arg-type]

    @property
    def now(self) -> datetime:
        return NOW + self.days * DAY

    def row(self) -> Feed:
        return Feed.objects.get(pk=self.pk)

    def look(self, *, news: bool = True, pushed: bool = False) -> Feed:
        """A day later; told of a moment before, or not."""
        self.days += 1
        if pushed:
            Feed.objects.filter(pk=self.pk).update(pushed_at=self.now - timedelta(seconds=2))
        if news:
            self.published.append(self.days)
        feed, began_at = self.row(), self.now
        kept, body = KeptEntries.of(feed), document(self.published)
        found = readings.read_feed_body(body, BodyToRead("", feed.url, began_at, tuple(kept.marks.values())))
        assert isinstance(found, FeedReading)
        head = Head(200, feed.url, CIMultiDict())
        outcome = Fetched(head, Body(len(body), "", body), OutcomeTiming(began_at.timestamp(), 1))
        assert (
            store.store_result(feed, kept, FetchResult(outcome, FeedRead(head), began_at, found), began_at)
            is StoreOutcome.STORED
        )
        return self.row()

    def earn_trust(self) -> None:
        """As many days with news that it was told of as make it polled seldom."""
        for _ in range(RELIED_ON_IN_A_ROW):
            self.look(pushed=True)


def the_hub() -> Hub:
    return Hub.objects.get()


def test_a_feed_is_polled_seldom_after_enough_pushes_that_brought_news_and_often_after_one_miss() -> None:
    one = Followed("one")
    for _ in range(RELIED_ON_IN_A_ROW):
        assert not one.row().is_pushed
        one.look(pushed=True)
    assert one.row().is_pushed
    assert "Pushed by its hub" in one.row().reason
    assert one.row().next_check_at >= one.now + one.row().most
    assert the_hub().first_push_at == the_hub().last_push_at - (RELIED_ON_IN_A_ROW - 1) * DAY  # type: ignore[operator]

    missed = one.look()
    assert not missed.is_pushed
    assert "Pushed by its hub" not in missed.reason
    assert missed.next_check_at < one.now + missed.most
    assert Subscription.objects.get().missed == 1


def test_a_push_that_brings_nothing_new_is_no_reason_for_trust() -> None:
    one = Followed("one")
    for _ in range(RELIED_ON_IN_A_ROW + 2):
        assert not one.look(news=False, pushed=True).is_pushed
    assert the_hub().arrived == 0
    assert the_hub().first_push_at is None


def test_a_feed_that_was_told_of_in_vain_is_looked_at_again_soon_and_what_is_there_then_counts() -> None:
    one = Followed("one")
    one.earn_trust()
    vain = one.look(news=False, pushed=True)
    assert vain.is_pushed
    assert vain.next_check_at - one.now <= 1.1 * vain.least
    assert "Pushed, but unchanged: checked again in 15 min." in vain.reason
    Subscription.objects.update(vain_at=one.now + DAY - vain.least)
    assert one.look().is_pushed
    assert (the_hub().arrived, the_hub().missed) == (RELIED_ON_IN_A_ROW + 1, 0)


def test_what_a_feed_had_before_it_was_subscribed_counts_for_nothing() -> None:
    one = Followed("one")
    Subscription.objects.update(created_at=one.now + DAY / 2)
    one.look()
    assert (the_hub().arrived, the_hub().missed) == (0, 0)


def test_a_subscription_that_is_not_in_force_is_not_relied_on() -> None:
    one = Followed("one")
    one.earn_trust()
    Subscription.objects.update(state=SubscriptionStatus.WANTED.value)
    assert not one.look(pushed=True).is_pushed


def test_news_of_a_feed_that_the_hub_does_not_take_is_not_counted_against_its_others() -> None:
    told, denied = Followed("told"), Followed("denied")
    for one in (told, denied):
        one.earn_trust()
    before = (the_hub().missed, the_hub().share)
    Subscription.objects.filter(feed=denied.pk).update(state=SubscriptionStatus.DENIED.value, expires_at=None)
    for _ in range(5):
        assert not denied.look().is_pushed
    assert (the_hub().missed, the_hub().share) == before
    assert the_hub().trusted_since is not None
    held = Subscription.objects.get(feed=denied.pk)
    assert (held.missed, held.in_a_row) == (5, 0), "it has to be told of again before it is polled seldom"


def test_a_feed_whose_subscription_has_ended_is_polled_again_within_the_hour() -> None:
    told, lost = Followed("told"), Followed("lost", url="https://another.example/")
    Feed.objects.update(is_pushed=True, next_check_at=told.now + DAY)
    Subscription.objects.filter(feed=lost.pk).update(expires_at=told.now - DAY)
    Hub.objects.update(trusted_since=told.now)
    push_trust.tighten_untrusted(told.now)
    assert (told.row().is_pushed, told.row().next_check_at) == (True, told.now + DAY)
    assert not lost.row().is_pushed
    assert lost.row().next_check_at <= told.now + push_trust.TIGHTENED_WITHIN


def test_a_hub_that_stops_telling_has_all_of_its_feeds_polled_again() -> None:
    quiet, others = Followed("quiet"), [Followed(f"other-{number}") for number in range(4)]
    for one in (quiet, *others):
        one.earn_trust()
    elsewhere = Followed("elsewhere", url="https://another.example/")
    Feed.objects.filter(pk=elsewhere.pk).update(is_pushed=True)
    Hub.objects.filter(subscriptions__feed=elsewhere.pk).update(trusted_since=elsewhere.now)
    for one in others:
        one.look()
    assert hub().trusted_since is None
    push_trust.tighten_untrusted(others[0].now)
    row = quiet.row()
    assert not row.is_pushed
    assert row.next_check_at <= others[0].now + push_trust.TIGHTENED_WITHIN
    assert elsewhere.row().is_pushed


def test_a_push_just_after_polling_makes_good_for_the_miss() -> None:
    one = Followed("one")
    one.earn_trust()
    one.look()
    Subscription.objects.update(missed_at=one.now + DAY - timedelta(minutes=5))
    assert one.look(news=False, pushed=True).is_pushed
    assert Subscription.objects.get().missed == 0
    assert the_hub().missed == 0
