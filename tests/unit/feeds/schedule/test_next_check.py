"""The time of a feed's next check and its reasons: rhythm of publication, skipped hours and days, redirects."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.schedule import next_check
from feeds.schedule.next_check import CheckDecision, FeedUnreadable, FetchFinding, suggest_interval
from feeds.schedule.state import CheckRules, FeedState, FeedStatus, PublisherHints
from resources.fetch.http.messages import Failure, Hop, Obstacle
from tests.support.feed_decisions import DAY, HOUR, MINUTE, NOW, URL, WEEK, decided, failed, read, unchanged, wait

DAILY = [HOUR + DAY * number for number in range(10)]
"""A feed that publishes daily is checked every twelve hours."""
EVERY_SIX_HOURS = [HOUR + 6 * HOUR * number for number in range(10)]
LATER_HOURS = PublisherHints(skip_hours=frozenset({15, 16}))
OTHER_DAYS = PublisherHints(skip_days=frozenset({2}))


@pytest.mark.parametrize(
    ("finding", "expected", "reason"),
    [
        pytest.param(read(), 3 * HOUR, "Publishes about every 6 h: checked twice as often.", id="history"),
        pytest.param(read(cache_control="max-age=18000"), 5 * HOUR, "fresh for 5 h: not checked before", id="max-age"),
        pytest.param(read(cache_control="max-age=60"), 3 * HOUR, "twice as often.", id="short max-age"),
        pytest.param(read(cache_control="no-store"), 3 * HOUR, "twice as often.", id="no-store"),
        pytest.param(read(cache_control="max-age=31536000"), DAY, "Checked at least every 1 d", id="a year"),
        pytest.param(read(expires="Wed, 04 Nov 2026 16:00:00 GMT"), 4 * HOUR, "fresh for 4 h", id="expires"),
        pytest.param(read(expires="0"), 3 * HOUR, "twice as often.", id="expired"),
        pytest.param(read(cache_control="max-age=18000", age="3600"), 4 * HOUR, "fresh for 4 h", id="age"),
        pytest.param(read(asks=PublisherHints(ttl=6 * HOUR)), 6 * HOUR, "to be cached for 6 h: not checked", id="ttl"),
        pytest.param(read(asks=PublisherHints(ttl=MINUTE)), 3 * HOUR, "twice as often.", id="short ttl"),
        pytest.param(read(asks=LATER_HOURS), 5 * HOUR, "postponed until 4 November 2026, 17:00", id="hour"),
        pytest.param(read(asks=OTHER_DAYS), 12 * HOUR, "postponed until 5 November 2026, 00:00", id="day"),
    ],
)
def test_the_next_check_is_by_history_and_by_what_is_asked(
    finding: FetchFinding, expected: timedelta, reason: str
) -> None:
    decision = decided(finding, FeedState(), *EVERY_SIX_HOURS)
    assert wait(decision) == expected
    assert reason in decision.reason
    assert decision.feed_state.state is FeedStatus.ACTIVE


def test_a_feed_that_publishes_all_the_time_is_not_checked_all_the_time() -> None:
    decision = decided(read(), FeedState(), *[20 * MINUTE * number for number in range(1, 10)])
    assert wait(decision) == 15 * MINUTE
    assert "Checked at most every 15 min" in decision.reason


def test_bounds_of_a_feed_are_kept() -> None:
    rules = CheckRules(least=6 * HOUR, most=8 * HOUR)
    assert wait(decided(read(), FeedState(), *EVERY_SIX_HOURS, rules=rules)) == 6 * HOUR
    assert wait(decided(read(), FeedState(), *DAILY, rules=rules)) == 8 * HOUR


def test_a_304_keeps_what_held_before() -> None:
    asks = PublisherHints(ttl=2 * HOUR, skip_days=frozenset({5}))
    before = decided(read(asks=asks, cache_control="max-age=18000"), FeedState(), *EVERY_SIX_HOURS)
    after = decided(unchanged(), before.feed_state, *EVERY_SIX_HOURS)
    assert wait(after) == 5 * HOUR
    assert after.feed_state.hints == replace(asks, fresh=5 * HOUR)


@pytest.mark.parametrize(
    ("fields", "expected"), [("max-age=14400", 4 * HOUR), ("no-cache", 3 * HOUR), ("max-age=0", 3 * HOUR)]
)
def test_a_304_that_says_something_new_is_believed(fields: str, expected: timedelta) -> None:
    before = decided(read(cache_control="max-age=18000"), FeedState(), *EVERY_SIX_HOURS)
    assert wait(decided(unchanged(cache_control=fields), before.feed_state, *EVERY_SIX_HOURS)) == expected


def test_an_answer_with_a_body_replaces_what_held_before() -> None:
    asking = read(asks=PublisherHints(ttl=9 * HOUR), cache_control="max-age=18000")
    before = decided(asking, FeedState(), *EVERY_SIX_HOURS)
    assert decided(read(), before.feed_state, *EVERY_SIX_HOURS).feed_state.hints == PublisherHints()


def test_a_feed_whose_hub_tells_of_changes_is_checked_seldom() -> None:
    decision = decided(read(), FeedState(), *EVERY_SIX_HOURS, is_pushed=True)
    assert wait(decision) == DAY
    assert "Pushed by its hub" in decision.reason


def test_feeds_that_were_checked_together_are_spread() -> None:
    waits = [wait(decided(read(), FeedState(), *EVERY_SIX_HOURS, luck=luck)) for luck in (0, 0.5, 1)]
    assert waits == sorted(set(waits))
    assert waits[-1] - waits[0] == 9 * MINUTE


@pytest.mark.parametrize(
    ("finding", "first", "second"),
    [
        pytest.param(failed(Failure.PERMANENT, 404), HOUR, 2 * HOUR, id="404"),
        pytest.param(failed(Failure.PERMANENT, 410), DAY, 2 * DAY, id="410"),
        pytest.param(failed(Failure.PERMANENT, 403), 2 * HOUR, 4 * HOUR, id="403"),
        pytest.param(failed(Failure.TRANSIENT, 500), 15 * MINUTE, 30 * MINUTE, id="500"),
        pytest.param(failed(Failure.TOO_SLOW), 30 * MINUTE, HOUR, id="timeout"),
        pytest.param(failed(Failure.PERMANENT, obstacle=Obstacle.LOOKUP), 30 * MINUTE, HOUR, id="dns"),
        pytest.param(failed(Failure.PERMANENT, obstacle=Obstacle.TLS), HOUR, 2 * HOUR, id="tls"),
        pytest.param(failed(Failure.TRANSIENT, obstacle=Obstacle.CONNECTION), 15 * MINUTE, 30 * MINUTE, id="no answer"),
        pytest.param(FeedUnreadable("It is a web page."), 30 * MINUTE, HOUR, id="parse"),
        pytest.param(failed(Failure.THROTTLED, 429), 30 * MINUTE, HOUR, id="429"),
        pytest.param(failed(Failure.THROTTLED, 429, 5 * HOUR), 5 * HOUR, 5 * HOUR, id="429 with Retry-After"),
        pytest.param(failed(Failure.THROTTLED, 503, MINUTE), 30 * MINUTE, HOUR, id="503 with a short one"),
        pytest.param(failed(Failure.POSTPONED, 302, HOUR), HOUR, HOUR, id="postponed"),
        pytest.param(failed(Failure.OURS), 5 * MINUTE, 10 * MINUTE, id="our own outage"),
    ],
)
def test_each_trouble_has_its_own_ladder(finding: FetchFinding, first: timedelta, second: timedelta) -> None:
    once = decided(finding)
    assert wait(once) == first
    assert wait(decided(finding, once.feed_state)) == second


@pytest.mark.parametrize(
    ("finding", "state", "failures"),
    [
        (failed(Failure.PERMANENT, 404), FeedStatus.FAILING, 1),
        (failed(Failure.PERMANENT, 410), FeedStatus.GONE, 1),
        (FeedUnreadable("It is a web page."), FeedStatus.FAILING, 1),
        (failed(Failure.THROTTLED, 429), FeedStatus.THROTTLED, 0),
        (failed(Failure.OURS), FeedStatus.ACTIVE, 0),
        (failed(Failure.POSTPONED), FeedStatus.ACTIVE, 0),
    ],
)
def test_only_the_feeds_own_failures_are_counted(finding: FetchFinding, state: FeedStatus, failures: int) -> None:
    feed_state = decided(finding).feed_state
    assert (feed_state.state, feed_state.failures) == (state, failures)
    assert (feed_state.failing_since == NOW) is bool(failures)


def test_our_own_outage_makes_no_feed_better_or_worse() -> None:
    before = decided(failed(Failure.PERMANENT, 410)).feed_state
    for finding in (failed(Failure.OURS), failed(Failure.THROTTLED, 429)):
        assert replace(decided(finding, before).feed_state, held_up=0) == before


def test_failures_keep_what_was_known_of_the_feed() -> None:
    before = decided(read("https://two.example/", cache_control="max-age=18000")).feed_state
    after = decided(failed(Failure.TRANSIENT, 500), before).feed_state
    assert (after.hints, after.moving) == (before.hints, before.moving)


def test_an_answer_ends_all_troubles() -> None:
    before = decided(failed(Failure.PERMANENT, 410), decided(failed(Failure.THROTTLED, 429)).feed_state).feed_state
    assert decided(unchanged(), before).feed_state == FeedState(hints=before.hints)


def test_a_failure_is_told_in_words() -> None:
    once = decided(failed(Failure.PERMANENT, 404)).feed_state
    again = decided(failed(Failure.PERMANENT, 404), once, now=NOW + DAY)
    assert again.reason == (
        "Not fetched: not found (as it was told). Failed twice since 4 November 2026, 12:00 UTC. Retried after 2 h."
    )


FINDINGS = st.one_of(
    st.builds(
        failed,
        st.sampled_from(Failure),
        st.sampled_from([None, 302, 404, 410, 429, 500]),
        st.one_of(st.none(), st.timedeltas(timedelta(0), DAY)),
        st.sampled_from([None, *Obstacle]),
    ),
    st.builds(read, st.sampled_from([None, "https://two.example/"]), is_same=st.booleans()),
    st.builds(unchanged, st.sampled_from([None, "https://two.example/"])),
    st.just(FeedUnreadable("It is a web page.")),
)


@given(st.lists(FINDINGS, min_size=1, max_size=40), st.floats(0, 1), st.lists(st.timedeltas(-DAY, 1000 * DAY)))
def test_whatever_happens_a_feed_is_tried_again_within_a_week(
    findings: list[FetchFinding], luck: float, ago: list[timedelta]
) -> None:
    feed_state, now = FeedState(), NOW
    for finding in findings:
        decision = decided(finding, feed_state, *ago, now=now, luck=luck)
        assert now < decision.next_check_at <= now + WEEK
        assert decision.reason
        feed_state, now = decision.feed_state, decision.next_check_at


@pytest.mark.parametrize("wrong", [{"least": timedelta(0)}, {"least": 2 * DAY}, {"most": 8 * DAY}, {"sightings": 0}])
def test_rules_that_contradict_each_other_are_refused(wrong: dict[str, timedelta]) -> None:
    with pytest.raises(ValueError, match="least"):
        CheckRules(**wrong)  # type: ignore[arg-type]


THERE, ELSEWHERE = "https://two.example/feed", "https://three.example/feed"


Findings = Iterable[tuple[timedelta, FetchFinding]]


def decisions_after(findings: Findings, **given: Any) -> list[CheckDecision]:
    """The decisions after each of several findings, each at its time from the first on."""
    feed_state, decisions = FeedState(), list[CheckDecision]()
    for when, finding in findings:
        decisions.append(decided(finding, feed_state, now=NOW + when, **given))
        feed_state = decisions[-1].feed_state
    return decisions


def daily(finding: FetchFinding, times: int = 9) -> Findings:
    return [(DAY * number, finding) for number in range(times)]


def redirected(*hops: Hop) -> FetchFinding:
    """The same feed at the end of these redirects."""
    seen = read(ELSEWHERE if len(hops) > 1 else THERE)
    return replace(seen, head=replace(seen.head, hops=hops))


def test_a_permanent_redirect_is_adopted_when_it_was_seen_often_enough_over_days() -> None:
    _, twice, seen = decisions_after(daily(read(THERE), 3))
    assert "seen twice: adopted when seen 3 times over 2 d" in twice.reason
    assert (seen.adopts, seen.feed_state.moving) == (THERE, None)
    assert f"Moved permanently to {THERE}, seen 3 times since 4 November 2026" in seen.reason


@pytest.mark.parametrize(
    "findings",
    [
        pytest.param([*daily(read(THERE), 1), (DAY, unchanged(THERE)), (2 * DAY, unchanged(THERE))], id="by a 304"),
        pytest.param(
            [*daily(read(THERE), 2), (DAY, failed(Failure.TRANSIENT, 500)), (2 * DAY, read(THERE))],
            id="with a failure in between",
        ),
        pytest.param(daily(redirected(Hop(URL, 308), Hop(THERE, 302)), 3), id="as far as it is permanent"),
    ],
)
def test_a_redirect_is_counted_on_over_other_answers(findings: Findings) -> None:
    assert decisions_after(findings)[-1].adopts == THERE


@pytest.mark.parametrize(
    "findings",
    [
        pytest.param(daily(read(THERE), 1), id="once"),
        pytest.param([(0 * DAY, read(THERE)), (3 * DAY, read(THERE))], id="twice"),
        pytest.param([(HOUR * n, read(THERE)) for n in range(40)], id="often in a day and a half"),
        pytest.param([(2 * DAY + MINUTE * n, read(THERE)) for n in range(9)], id="at the same time"),
        pytest.param([(DAY * n, read([THERE, ELSEWHERE][n % 2])) for n in range(9)], id="to two places in turn"),
        pytest.param([(DAY * n, read(THERE if n % 3 else None)) for n in range(9)], id="with answers in between"),
        pytest.param([(DAY * n, read(THERE, is_same=n % 2 == 1)) for n in range(9)], id="another feed in between"),
        pytest.param(daily(read(THERE, is_same=False)), id="another feed"),
        *[pytest.param(daily(redirected(Hop(URL, status))), id=f"temporary: {status}") for status in (302, 303, 307)],
    ],
)
def test_less_than_that_is_not_enough(findings: Findings) -> None:
    assert {decision.adopts for decision in decisions_after(findings)} == {None}


def test_what_people_have_taken_back_is_not_adopted_again() -> None:
    assert {each.adopts for each in decisions_after(daily(read(THERE)), refused_moves=(THERE,))} == {None}
    assert THERE in {each.adopts for each in decisions_after(daily(read(THERE)), refused_moves=(ELSEWHERE,))}


RULES = CheckRules()


def every(gap: timedelta, times: int, newest: timedelta) -> list[timedelta]:
    return [newest + gap * number for number in range(times)]


@pytest.mark.parametrize(
    ("ago", "expected", "why"),
    [
        pytest.param([], HOUR, "Publishing interval unknown", id="no dates"),
        pytest.param([MINUTE], HOUR, "Published once", id="one entry"),
        pytest.param([100 * DAY], 10 * DAY, "Nothing new for 100 d", id="one entry, long ago"),
        pytest.param(every(6 * HOUR, 10, HOUR), 3 * HOUR, "about every 6 h:", id="regular"),
        pytest.param(every(DAY, 30, 2 * HOUR), 12 * HOUR, "about every 1 d:", id="daily"),
        pytest.param(every(HOUR, 30, 20 * HOUR), 2 * HOUR, "Nothing new for 20 h", id="quieter than usual"),
        pytest.param(every(HOUR, 10, HOUR) + every(30 * DAY, 5, DAY), HOUR / 2, "every 1 h:", id="the median counts"),
        pytest.param(
            every(HOUR, 21, HOUR) + every(10 * DAY, 100, 10 * DAY), HOUR / 2, "every 1 h:", id="the last ones count"
        ),
        pytest.param([timedelta(-1), -HOUR, *every(6 * HOUR, 9, HOUR)], 3 * HOUR, "every 6 h:", id="dates ahead"),
    ],
)
def test_a_feed_is_fetched_twice_as_often_as_it_publishes(ago: list[timedelta], expected: timedelta, why: str) -> None:
    found = suggest_interval([NOW - each for each in ago], NOW, RULES)
    assert found.length == expected
    assert why in found.why


def test_ten_entries_at_once_are_one_publication() -> None:
    ago = [DAY * day + MINUTE * minute for day in range(1, 6) for minute in range(10)]
    found = suggest_interval([NOW - each for each in ago], NOW, RULES)
    assert found.length == pytest.approx(DAY / 2, abs=10 * MINUTE)


NIGHT = frozenset(range(6)) | {22, 23}
WEEKEND = frozenset({5, 6})
ALL_BUT_NOON, ALL_BUT_WEDNESDAY = frozenset(range(24)) - {12}, frozenset(range(7)) - {2}


def at(day: int, hour: int, minute: int = 0) -> datetime:
    """In November 2026, when the 1st is a Sunday."""
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "hours", "days", "expected"),
    [
        pytest.param(at(4, 12, 30), NIGHT, WEEKEND, at(4, 12, 30), id="neither"),
        pytest.param(at(4, 22, 30), NIGHT, frozenset(), at(5, 6), id="past midnight"),
        pytest.param(at(6, 23), NIGHT, WEEKEND, at(9, 6), id="over the weekend"),
        pytest.param(at(7, 12), frozenset(), WEEKEND, at(9, 0), id="days only"),
        pytest.param(at(4, 12, 30), frozenset(range(24)), frozenset(), at(4, 12, 30), id="all hours are nonsense"),
        pytest.param(at(4, 12, 30), frozenset(), frozenset(range(7)), at(4, 12, 30), id="all days are nonsense"),
        pytest.param(at(4, 12, 30), ALL_BUT_NOON, ALL_BUT_WEDNESDAY, at(4, 12, 30), id="only now"),
        pytest.param(at(4, 13), ALL_BUT_NOON, ALL_BUT_WEDNESDAY, at(11, 12), id="once a week"),
    ],
)
def test_a_check_is_put_off_until_it_is_welcome(
    moment: datetime, hours: frozenset[int], days: frozenset[int], expected: datetime
) -> None:
    assert next_check.first_allowed_moment(moment, hours, days) == expected
