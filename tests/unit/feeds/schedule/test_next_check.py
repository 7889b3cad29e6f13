"""When a feed is fetched next, and what is said of it."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.deciding.checking import Circumstances, Finding, Unreadable, decide
from feeds.deciding.standing import Hints, Rules, Standing, State
from resources.fetching.outcomes import Failure, Obstacle
from tests.feeds.deciding.answers import DAY, HOUR, MINUTE, NOW, WEEK, decided, failed, read, unchanged, wait

DAILY = [HOUR + DAY * number for number in range(10)]
"""A feed that publishes daily is checked every twelve hours."""
EVERY_SIX_HOURS = [HOUR + 6 * HOUR * number for number in range(10)]


@pytest.mark.parametrize(
    ("finding", "expected", "reason"),
    [
        pytest.param(read(), 3 * HOUR, "It publishes about every 6 h: checked twice as often.", id="history"),
        pytest.param(read(cache_control="max-age=18000"), 5 * HOUR, "fresh for 5 h: not checked before", id="max-age"),
        pytest.param(read(cache_control="max-age=60"), 3 * HOUR, "twice as often.", id="short max-age"),
        pytest.param(read(cache_control="no-store"), 3 * HOUR, "twice as often.", id="no-store"),
        pytest.param(read(cache_control="max-age=31536000"), DAY, "not checked less often than every 1 d", id="a year"),
        pytest.param(read(expires="Wed, 04 Nov 2026 16:00:00 GMT"), 4 * HOUR, "fresh for 4 h", id="expires"),
        pytest.param(read(expires="0"), 3 * HOUR, "twice as often.", id="expired"),
        pytest.param(read(cache_control="max-age=18000", age="3600"), 4 * HOUR, "fresh for 4 h", id="age"),
        pytest.param(read(asks=Hints(ttl=6 * HOUR)), 6 * HOUR, "asks to be kept for 6 h: not checked", id="ttl"),
        pytest.param(read(asks=Hints(ttl=MINUTE)), 3 * HOUR, "twice as often.", id="short ttl"),
        pytest.param(
            read(asks=Hints(skip_hours=frozenset({15, 16}))),
            5 * HOUR,
            "put off until 4 November 2026, 17:00",
            id="hour",
        ),
        pytest.param(
            read(asks=Hints(skip_days=frozenset({2}))), 12 * HOUR, "put off until 5 November 2026, 00:00", id="day"
        ),
    ],
)
def test_the_next_check_is_by_history_and_by_what_is_asked(finding: Finding, expected: timedelta, reason: str) -> None:
    decision = decided(finding, Standing(), *EVERY_SIX_HOURS)
    assert wait(decision) == expected
    assert reason in decision.reason
    assert decision.standing.state is State.ACTIVE


def test_a_feed_that_publishes_all_the_time_is_not_checked_all_the_time() -> None:
    decision = decided(read(), Standing(), *[20 * MINUTE * number for number in range(1, 10)])
    assert wait(decision) == 15 * MINUTE
    assert "not checked more often than every 15 min" in decision.reason


def test_bounds_of_a_feed_are_kept() -> None:
    rules = Rules(least=6 * HOUR, most=8 * HOUR)
    assert wait(decided(read(), Standing(), *EVERY_SIX_HOURS, rules=rules)) == 6 * HOUR
    assert wait(decided(read(), Standing(), *DAILY, rules=rules)) == 8 * HOUR


def test_a_304_keeps_what_held_before() -> None:
    asks = Hints(ttl=2 * HOUR, skip_days=frozenset({5}))
    before = decided(read(asks=asks, cache_control="max-age=18000"), Standing(), *EVERY_SIX_HOURS)
    after = decided(unchanged(), before.standing, *EVERY_SIX_HOURS)
    assert wait(after) == 5 * HOUR
    assert after.standing.hints == replace(asks, fresh=5 * HOUR)


@pytest.mark.parametrize(
    ("fields", "expected"), [("max-age=14400", 4 * HOUR), ("no-cache", 3 * HOUR), ("max-age=0", 3 * HOUR)]
)
def test_a_304_that_says_something_new_is_believed(fields: str, expected: timedelta) -> None:
    before = decided(read(cache_control="max-age=18000"), Standing(), *EVERY_SIX_HOURS)
    assert wait(decided(unchanged(cache_control=fields), before.standing, *EVERY_SIX_HOURS)) == expected


def test_an_answer_with_a_body_replaces_what_held_before() -> None:
    before = decided(read(asks=Hints(ttl=9 * HOUR), cache_control="max-age=18000"), Standing(), *EVERY_SIX_HOURS)
    assert decided(read(), before.standing, *EVERY_SIX_HOURS).standing.hints == Hints()


def test_a_feed_whose_hub_tells_of_changes_is_checked_seldom() -> None:
    decision = decided(read(), Standing(), *EVERY_SIX_HOURS, is_pushed=True)
    assert wait(decision) == DAY
    assert "hub tells of changes" in decision.reason


def test_feeds_that_were_checked_together_are_spread() -> None:
    waits = [wait(decided(read(), Standing(), *EVERY_SIX_HOURS, luck=luck)) for luck in (0, 0.5, 1)]
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
        pytest.param(Unreadable("It is a web page."), 30 * MINUTE, HOUR, id="parse"),
        pytest.param(failed(Failure.THROTTLED, 429), 30 * MINUTE, HOUR, id="429"),
        pytest.param(failed(Failure.THROTTLED, 429, 5 * HOUR), 5 * HOUR, 5 * HOUR, id="429 with Retry-After"),
        pytest.param(failed(Failure.THROTTLED, 503, MINUTE), 30 * MINUTE, HOUR, id="503 with a short one"),
        pytest.param(failed(Failure.POSTPONED, 302, HOUR), HOUR, HOUR, id="postponed"),
        pytest.param(failed(Failure.OURS), 5 * MINUTE, 10 * MINUTE, id="our own outage"),
    ],
)
def test_each_trouble_has_its_own_ladder(finding: Finding, first: timedelta, second: timedelta) -> None:
    once = decided(finding)
    assert wait(once) == first
    assert wait(decided(finding, once.standing)) == second


@pytest.mark.parametrize(
    ("finding", "state", "failures"),
    [
        (failed(Failure.PERMANENT, 404), State.FAILING, 1),
        (failed(Failure.PERMANENT, 410), State.GONE, 1),
        (Unreadable("It is a web page."), State.FAILING, 1),
        (failed(Failure.THROTTLED, 429), State.THROTTLED, 0),
        (failed(Failure.OURS), State.ACTIVE, 0),
        (failed(Failure.POSTPONED), State.ACTIVE, 0),
    ],
)
def test_only_the_feeds_own_failures_are_counted(finding: Finding, state: State, failures: int) -> None:
    standing = decided(finding).standing
    assert (standing.state, standing.failures) == (state, failures)
    assert (standing.failing_since == NOW) is bool(failures)


def test_our_own_outage_makes_no_feed_better_or_worse() -> None:
    before = decided(failed(Failure.PERMANENT, 410)).standing
    for finding in (failed(Failure.OURS), failed(Failure.THROTTLED, 429)):
        after = decided(finding, before).standing
        assert replace(after, held_up=0) == before


def test_failures_keep_what_was_known_of_the_feed() -> None:
    before = decided(read("https://two.example/", cache_control="max-age=18000")).standing
    after = decided(failed(Failure.TRANSIENT, 500), before).standing
    assert (after.hints, after.moving) == (before.hints, before.moving)


def test_an_answer_ends_all_troubles() -> None:
    before = decided(failed(Failure.PERMANENT, 410), decided(failed(Failure.THROTTLED, 429)).standing).standing
    assert decided(unchanged(), before).standing == Standing(hints=before.hints)


def test_a_failure_is_told_in_words() -> None:
    once = decided(failed(Failure.PERMANENT, 404)).standing
    again = decided(failed(Failure.PERMANENT, 404), once, now=NOW + DAY)
    assert again.reason == (
        "Not fetched: there is nothing at its address (as it was told). "
        "It has failed twice in a row since 4 November 2026, 12:00 UTC. Tried again after 2 h."
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
    st.just(Unreadable("It is a web page.")),
)


@given(st.lists(FINDINGS, min_size=1, max_size=40), st.floats(0, 1), st.lists(st.timedeltas(-DAY, 1000 * DAY)))
def test_whatever_happens_a_feed_is_tried_again_within_a_week(
    findings: list[Finding], luck: float, ago: list[timedelta]
) -> None:
    standing, now = Standing(), NOW
    for finding in findings:
        decision = decide(standing, finding, [now - each for each in ago], Circumstances(now, luck=luck))
        assert now < decision.next_check_at <= now + WEEK
        assert decision.reason
        standing, now = decision.standing, decision.next_check_at


@given(st.integers(1, 200))
def test_a_failing_feed_is_tried_at_growing_intervals(failures: int) -> None:
    standing, waits = Standing(), []
    for _ in range(failures):
        decision = decided(failed(Failure.TRANSIENT, 500), standing)
        standing = decision.standing
        waits.append(wait(decision))
    assert waits == sorted(waits)
    assert failures < 11 or waits[-1] == WEEK


@pytest.mark.parametrize("wrong", [{"least": timedelta(0)}, {"least": 2 * DAY}, {"most": 8 * DAY}, {"sightings": 0}])
def test_rules_that_contradict_each_other_are_refused(wrong: dict[str, timedelta]) -> None:
    with pytest.raises(ValueError, match="least"):
        Rules(**wrong)  # type: ignore[arg-type]
