"""Trust in hubs: polling of a feed while its hub announces news, while it falls silent, and when it announces again."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.push import trust
from feeds.push.trust import LATE_WITHIN, RELIED_ON_IN_A_ROW, FeedLook, HubScore, PushRecord, PushVerdict
from feeds.schedule.state import FeedState
from tests.support.feed_decisions import DAY, HOUR, MINUTE, NOW, decided, read


def look(*, news: bool, pushed: timedelta | None = None, since: timedelta | None = 9 * HOUR) -> FeedLook:
    """At a feed that was looked at an hour ago; others are times before now."""
    pushed_at = None if pushed is None else NOW - pushed
    return FeedLook(NOW, news, NOW - HOUR, pushed_at, None if since is None else NOW - since)


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        pytest.param(look(news=True, pushed=MINUTE), PushVerdict.TOLD, id="told of since the last look"),
        pytest.param(look(news=True), PushVerdict.MISSED, id="found by polling first"),
        pytest.param(look(news=True, pushed=2 * HOUR), PushVerdict.MISSED, id="told of before the last look"),
        pytest.param(look(news=False, pushed=MINUTE), PushVerdict.VAIN, id="told of without news"),
        pytest.param(replace(look(news=False, pushed=MINUTE), has_changed=True), PushVerdict.NOTHING, id="an edit"),
        pytest.param(look(news=False), PushVerdict.NOTHING, id="neither"),
        pytest.param(look(news=True, since=MINUTE), PushVerdict.NOTHING, id="maybe older than the subscription"),
        pytest.param(look(news=True, since=None), PushVerdict.NOTHING, id="without a subscription"),
        pytest.param(look(news=True, pushed=MINUTE, since=2 * MINUTE), PushVerdict.TOLD, id="newly subscribed, told"),
    ],
)
def test_a_hub_is_judged_by_the_news_that_it_told_of_before_polling(seen: FeedLook, verdict: PushVerdict) -> None:
    assert trust.judge_look(PushRecord(), seen) is verdict


def test_a_push_in_vain_leaves_the_score() -> None:
    assert trust.update_score(HubScore(3, 1, 0.9), PushVerdict.VAIN) == HubScore(3, 1, 0.9)


def test_news_that_a_server_has_later_than_its_hub_told_of_it_counts_for_the_hub() -> None:
    vain = trust.update_record(PushRecord(arrived=4, in_a_row=4), PushVerdict.VAIN, NOW - 15 * MINUTE)
    assert trust.judge_look(vain, look(news=True, pushed=2 * HOUR)) is PushVerdict.TOLD
    assert trust.update_record(vain, PushVerdict.TOLD, NOW) == PushRecord(arrived=5, in_a_row=5)
    long_ago = trust.update_record(PushRecord(), PushVerdict.VAIN, NOW - 2 * HOUR)
    assert trust.judge_look(long_ago, look(news=True, pushed=2 * HOUR)) is PushVerdict.MISSED


def test_a_feed_is_relied_on_after_enough_news_in_a_row_and_polled_again_after_one_miss() -> None:
    feed, hub = PushRecord(), HubScore()
    for number in range(RELIED_ON_IN_A_ROW):
        assert not trust.is_relied_on(feed, hub), number
        feed, hub = trust.update_record(feed, PushVerdict.TOLD, NOW), trust.update_score(hub, PushVerdict.TOLD)
    assert trust.is_relied_on(feed, hub)

    missed = trust.update_record(feed, PushVerdict.MISSED, NOW)
    assert not trust.is_relied_on(missed, hub)
    assert trust.is_trusted(trust.update_score(hub, PushVerdict.MISSED))


def test_a_push_that_comes_just_after_polling_makes_good_for_it() -> None:
    before, hub = PushRecord(arrived=4, missed=1, in_a_row=4), trust.update_score(HubScore(), PushVerdict.TOLD)
    missed = trust.update_record(before, PushVerdict.MISSED, NOW - 30 * MINUTE)
    late = look(news=False, pushed=30 * MINUTE - LATE_WITHIN)
    assert trust.judge_look(missed, late) is PushVerdict.LATE
    assert trust.update_record(missed, PushVerdict.LATE, NOW) == PushRecord(arrived=5, missed=1, in_a_row=5)
    assert trust.update_score(trust.update_score(hub, PushVerdict.MISSED), PushVerdict.LATE) == HubScore(2, 0, 1.0)

    later = look(news=False, pushed=30 * MINUTE - LATE_WITHIN - MINUTE)
    assert trust.judge_look(missed, later) is PushVerdict.VAIN


def test_a_hub_is_not_trusted_before_its_first_real_push() -> None:
    assert not trust.is_trusted(HubScore())
    assert not trust.is_trusted(trust.update_score(HubScore(), PushVerdict.MISSED))
    assert trust.is_trusted(trust.update_score(HubScore(0, 5, 0.0), PushVerdict.TOLD))


def test_a_hub_that_stops_telling_is_not_trusted_any_more_and_can_win_it_back() -> None:
    hub = HubScore(arrived=500, missed=3, share=1.0)
    for _ in range(3):
        hub = trust.update_score(hub, PushVerdict.MISSED)
    assert not trust.is_trusted(hub)
    assert not trust.is_relied_on(PushRecord(arrived=50, in_a_row=50), hub)
    for _ in range(5):
        hub = trust.update_score(hub, PushVerdict.TOLD)
    assert trust.is_trusted(hub)


@given(st.lists(st.sampled_from(PushVerdict), max_size=60))
def test_counts_are_never_below_zero_and_shares_stay_between_zero_and_one(verdicts: list[PushVerdict]) -> None:
    feed, hub = PushRecord(), HubScore()
    for each in verdicts:
        feed, hub = trust.update_record(feed, each, NOW), trust.update_score(hub, each)
        assert min(feed.arrived, feed.missed, feed.in_a_row, hub.arrived, hub.missed) >= 0
        assert 0 <= hub.share <= 1
        assert feed.in_a_row <= feed.arrived


def test_it_is_said_in_words() -> None:
    good, bad = HubScore(40, 1, 0.97), HubScore(40, 9, 0.4)
    assert trust.describe_hub_trust(HubScore()) == "Not trusted: no update pushed yet."
    assert "Polling found 1 update first." in trust.describe_hub_trust(HubScore(0, 1, 0))
    told = "Trusted. 40 updates pushed, 1 found first by polling; recently 97% pushed."
    assert trust.describe_hub_trust(good) == told
    assert trust.describe_hub_trust(bad).startswith("No longer trusted.")
    seldom = "Polled less often: 5 updates pushed, 4 in a row, 1 found first by polling."
    assert trust.describe_feed_trust(PushRecord(5, 1, 4), good) == seldom
    assert "until 3 updates in a row are pushed" in trust.describe_feed_trust(PushRecord(5, 1, 1), good)
    assert "no update pushed yet, polling found 2 updates" in trust.describe_feed_trust(PushRecord(0, 2), good)
    assert "the hub misses updates of other feeds" in trust.describe_feed_trust(PushRecord(5, 1, 4), bad)


EVERY = 6 * HOUR
"""Between two publications: the feed is checked every three hours where nobody tells of them."""


@dataclass
class Site:
    """One that looks at the feed when it is told, and when it has decided to. `polls` are the latter."""

    record: PushRecord = field(default_factory=PushRecord)
    score: HubScore = field(default_factory=HubScore)
    feed_state: FeedState = field(default_factory=FeedState)
    looked_at: datetime = NOW
    next_check_at: datetime = NOW
    polls: list[datetime] = field(default_factory=list)
    delays: dict[datetime, timedelta] = field(default_factory=dict)

    def look(self, at: datetime, published: list[datetime], pushed_at: datetime | None) -> None:
        new = [moment for moment in published if moment not in self.delays]
        self.delays |= {moment: at - moment for moment in new}
        found = trust.judge_look(self.record, FeedLook(at, bool(new), self.looked_at, pushed_at, NOW))
        self.record, self.score = trust.update_record(self.record, found, at), trust.update_score(self.score, found)
        is_pushed = trust.is_relied_on(self.record, self.score)
        ago = (at - moment for moment in published)
        decision = decided(read(), self.feed_state, *ago, now=at, luck=0.5, is_pushed=is_pushed)
        self.feed_state, self.next_check_at, self.looked_at = decision.feed_state, decision.next_check_at, at


@pytest.fixture(scope="module")
def site() -> Site:
    """The feed after thirty days; the hub was silent in the second ten."""
    found, published, pushed_at = Site(), list[datetime](), None
    for minute in range(30 * 24 * 60):
        at = NOW + minute * MINUTE
        if (at - NOW) % EVERY == EVERY / 2:
            published.append(at)
        if published and at == published[-1] + MINUTE and not is_silent(at):
            pushed_at = at
            found.look(at, published, pushed_at)
        elif at >= found.next_check_at:
            found.polls.append(at)
            found.look(at, published, pushed_at)
    return found


def is_silent(at: datetime) -> bool:
    return 10 * DAY <= at - NOW < 20 * DAY


def polls(site: Site, first: int, last: int) -> int:
    """The number of them in these days."""
    return sum(first * DAY <= at - NOW < last * DAY for at in site.polls)


def test_it_is_hardly_polled_while_the_hub_tells_of_all(site: Site) -> None:
    assert polls(site, 2, 10) <= 8
    assert polls(site, 23, 30) <= 7


def test_it_is_polled_as_before_within_a_day_of_the_hub_falling_silent(site: Site) -> None:
    assert polls(site, 12, 20) >= 7 * 8


def test_what_is_new_comes_late_for_one_day_at_the_most(site: Site) -> None:
    late = [moment - NOW for moment, delay in site.delays.items() if delay > 3.5 * HOUR]
    assert all(10 * DAY <= each < 11.5 * DAY for each in late)
    assert max(site.delays.values()) <= 1.1 * DAY
