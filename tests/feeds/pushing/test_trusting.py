"""Whether those who tell of changes are believed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from feeds.pushing import trusting
from feeds.pushing.trusting import ENOUGH, LATE, Look, Record, Score, Verdict

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def look(*, news: bool, pushed: timedelta | None = None, since: timedelta | None = 9 * HOUR) -> Look:
    """At a feed that was looked at an hour ago; others are times before now."""
    pushed_at = None if pushed is None else NOW - pushed
    return Look(NOW, news, NOW - HOUR, pushed_at, None if since is None else NOW - since)


def test_news_that_was_told_of_since_the_last_look_counts_for_it() -> None:
    assert trusting.verdict(Record(), look(news=True, pushed=MINUTE)) is Verdict.TOLD


def test_news_that_polling_found_first_counts_against_it() -> None:
    assert trusting.verdict(Record(), look(news=True)) is Verdict.MISSED
    assert trusting.verdict(Record(), look(news=True, pushed=2 * HOUR)) is Verdict.MISSED


def test_what_is_told_without_news_counts_for_nothing() -> None:
    assert trusting.verdict(Record(), look(news=False, pushed=MINUTE)) is Verdict.VAIN
    assert trusting.scored(Score(3, 1, 0.9), Verdict.VAIN) == Score(3, 1, 0.9)
    assert trusting.verdict(Record(), look(news=False)) is Verdict.NOTHING


def test_a_push_of_an_edit_is_not_in_vain() -> None:
    edited = replace(look(news=False, pushed=MINUTE), has_changed=True)
    assert trusting.verdict(Record(), edited) is Verdict.NOTHING


def test_news_that_a_server_has_later_than_its_hub_told_of_it_counts_for_the_hub() -> None:
    vain = trusting.recorded(Record(told=4, in_a_row=4), Verdict.VAIN, NOW - 15 * MINUTE)
    assert trusting.verdict(vain, look(news=True, pushed=2 * HOUR)) is Verdict.TOLD
    assert trusting.recorded(vain, Verdict.TOLD, NOW) == Record(told=5, in_a_row=5)
    long_ago = trusting.recorded(Record(), Verdict.VAIN, NOW - 2 * HOUR)
    assert trusting.verdict(long_ago, look(news=True, pushed=2 * HOUR)) is Verdict.MISSED


def test_news_that_may_be_older_than_the_subscription_is_not_held_against_it() -> None:
    assert trusting.verdict(Record(), look(news=True, since=MINUTE)) is Verdict.NOTHING
    assert trusting.verdict(Record(), look(news=True, since=None)) is Verdict.NOTHING
    assert trusting.verdict(Record(), look(news=True, pushed=MINUTE, since=2 * MINUTE)) is Verdict.TOLD


def test_a_feed_is_relied_on_after_enough_news_in_a_row_and_polled_again_after_one_miss() -> None:
    feed, hub = Record(), Score()
    for number in range(ENOUGH):
        assert not trusting.is_relied_on(feed, hub), number
        feed, hub = trusting.recorded(feed, Verdict.TOLD, NOW), trusting.scored(hub, Verdict.TOLD)
    assert trusting.is_relied_on(feed, hub)

    missed = trusting.recorded(feed, Verdict.MISSED, NOW)
    assert not trusting.is_relied_on(missed, hub)
    assert trusting.is_trusted(trusting.scored(hub, Verdict.MISSED))


def test_a_push_that_comes_just_after_polling_makes_good_for_it() -> None:
    before, hub = Record(told=4, missed=1, in_a_row=4), trusting.scored(Score(), Verdict.TOLD)
    missed = trusting.recorded(before, Verdict.MISSED, NOW - 30 * MINUTE)
    late = look(news=False, pushed=30 * MINUTE - LATE)
    assert trusting.verdict(missed, late) is Verdict.LATE
    assert trusting.recorded(missed, Verdict.LATE, NOW) == Record(told=5, missed=1, in_a_row=5)
    assert trusting.scored(trusting.scored(hub, Verdict.MISSED), Verdict.LATE) == Score(2, 0, 1.0)

    later = look(news=False, pushed=30 * MINUTE - LATE - MINUTE)
    assert trusting.verdict(missed, later) is Verdict.VAIN


def test_a_hub_is_not_trusted_before_its_first_real_push() -> None:
    assert not trusting.is_trusted(Score())
    assert not trusting.is_trusted(trusting.scored(Score(), Verdict.MISSED))
    assert trusting.is_trusted(trusting.scored(Score(0, 5, 0.0), Verdict.TOLD))


def test_a_hub_that_stops_telling_is_not_trusted_any_more_and_can_win_it_back() -> None:
    hub = Score(told=500, missed=3, share=1.0)
    for _ in range(3):
        hub = trusting.scored(hub, Verdict.MISSED)
    assert not trusting.is_trusted(hub)
    assert not trusting.is_relied_on(Record(told=50, in_a_row=50), hub)
    for _ in range(5):
        hub = trusting.scored(hub, Verdict.TOLD)
    assert trusting.is_trusted(hub)


@given(st.lists(st.sampled_from(Verdict), max_size=60))
def test_counts_are_never_below_zero_and_shares_stay_between_zero_and_one(verdicts: list[Verdict]) -> None:
    feed, hub = Record(), Score()
    for each in verdicts:
        feed, hub = trusting.recorded(feed, each, NOW), trusting.scored(hub, each)
        assert min(feed.told, feed.missed, feed.in_a_row, hub.told, hub.missed) >= 0
        assert 0 <= hub.share <= 1
        assert feed.in_a_row <= feed.told


def test_it_is_said_in_words() -> None:
    good, bad = Score(40, 1, 0.97), Score(40, 9, 0.4)
    assert trusting.words_of_hub(Score()) == "Not trusted: nothing came from it so far that was news."
    assert "Polling found 1 piece of news first." in trusting.words_of_hub(Score(0, 1, 0))
    assert trusting.words_of_hub(good) == (
        "Trusted. It told of 40 pieces of news, polling found 1 first; of late it told of 97%."
    )
    assert trusting.words_of_hub(bad).startswith("Not trusted any more.")
    assert trusting.words_of_feed(Record(5, 1, 4), good) == (
        "Polled seldom: 5 pieces of news told of, 4 in a row, 1 found first by polling."
    )
    assert "until news is told of 3 times in a row" in trusting.words_of_feed(Record(5, 1, 1), good)
    assert "no news of it was told of, polling found 2 pieces" in trusting.words_of_feed(Record(0, 2), good)
    assert "other feeds' news does not come" in trusting.words_of_feed(Record(5, 1, 4), bad)
