"""Trust in hubs, by the news that they told of before polling found it."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.push import trust
from feeds.push.trust import LATE_WITHIN, FeedLook, HubScore, PushRecord, PushVerdict
from tests.support.feed_decisions import HOUR, MINUTE, NOW


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


def test_news_that_a_server_has_later_than_its_hub_told_of_it_counts_for_the_hub() -> None:
    vain = trust.update_record(PushRecord(arrived=4, in_a_row=4), PushVerdict.VAIN, NOW - 15 * MINUTE)
    assert trust.judge_look(vain, look(news=True, pushed=2 * HOUR)) is PushVerdict.TOLD
    assert trust.update_record(vain, PushVerdict.TOLD, NOW) == PushRecord(arrived=5, in_a_row=5)
    long_ago = trust.update_record(PushRecord(), PushVerdict.VAIN, NOW - 2 * HOUR)
    assert trust.judge_look(long_ago, look(news=True, pushed=2 * HOUR)) is PushVerdict.MISSED


def test_a_push_that_comes_just_after_polling_makes_good_for_it() -> None:
    before, hub = PushRecord(arrived=4, missed=1, in_a_row=4), trust.update_score(HubScore(), PushVerdict.TOLD)
    missed = trust.update_record(before, PushVerdict.MISSED, NOW - 30 * MINUTE)
    assert trust.judge_look(missed, look(news=False, pushed=30 * MINUTE - LATE_WITHIN)) is PushVerdict.LATE
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
    for may_still_be in (True, True, False):
        hub = trust.update_score(hub, PushVerdict.MISSED)
        assert trust.is_trusted(hub) is may_still_be
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
