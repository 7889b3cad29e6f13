"""When a redirect becomes a feed's address."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from feeds.deciding.checking import Decision, Finding
from feeds.deciding.standing import Standing
from resources.fetching.outcomes import Failure, Hop
from tests.feeds.deciding.answers import DAY, HOUR, MINUTE, NOW, URL, decided, failed, read, unchanged

THERE, ELSEWHERE = "https://two.example/feed", "https://three.example/feed"


def after(*findings: tuple[timedelta, Finding]) -> Decision:
    """What follows from the last of several findings, each at its time from the first on."""
    standing = Standing()
    for when, finding in findings:
        decision = decided(finding, standing, now=NOW + when)
        standing = decision.standing
    return decision


def test_a_permanent_redirect_is_adopted_when_it_was_seen_often_enough_over_days() -> None:
    seen = after((0 * DAY, read(THERE)), (DAY, read(THERE)), (2 * DAY, read(THERE)))
    assert seen.adopts == THERE
    assert seen.standing.moving is None
    assert f"moved for good to {THERE}, as was seen 3 times since 4 November 2026" in seen.reason


@pytest.mark.parametrize(
    "findings",
    [
        pytest.param([(0 * DAY, read(THERE))], id="once"),
        pytest.param([(0 * DAY, read(THERE)), (3 * DAY, read(THERE))], id="twice"),
        pytest.param([(HOUR * n, read(THERE)) for n in range(40)], id="often in a day and a half"),
        pytest.param([(2 * DAY + MINUTE * n, read(THERE)) for n in range(9)], id="at the same time"),
        pytest.param([(DAY * n, read([THERE, ELSEWHERE][n % 2])) for n in range(9)], id="to two places in turn"),
        pytest.param([(DAY * n, read(THERE if n % 3 else None)) for n in range(9)], id="with answers in between"),
        pytest.param([(DAY * n, read(THERE, is_same=n % 2 == 1)) for n in range(9)], id="another feed in between"),
    ],
)
def test_less_than_that_is_not_enough(findings: list[tuple[timedelta, Finding]]) -> None:
    for end in range(1, len(findings) + 1):
        assert after(*findings[:end]).adopts is None


def test_another_feed_behind_a_redirect_is_never_adopted() -> None:
    assert after(*[(DAY * number, read(THERE, is_same=False)) for number in range(9)]).adopts is None


@pytest.mark.parametrize("status", [302, 303, 307])
def test_a_temporary_redirect_is_never_adopted(status: int) -> None:
    seen = read(THERE)
    temporary = replace(seen, head=replace(seen.head, hops=(Hop(URL, status),)))
    assert after(*[(DAY * number, temporary) for number in range(9)]).adopts is None


def test_a_permanent_redirect_is_adopted_as_far_as_it_is_one() -> None:
    seen = read(ELSEWHERE)
    both = replace(seen, head=replace(seen.head, hops=(Hop(URL, 308), Hop(THERE, 302))))
    assert after(*[(DAY * number, both) for number in range(3)]).adopts == THERE


def test_a_304_behind_a_redirect_counts() -> None:
    assert after((0 * DAY, read(THERE)), (DAY, unchanged(THERE)), (2 * DAY, unchanged(THERE))).adopts == THERE


def test_a_failure_in_between_ends_nothing() -> None:
    trouble = failed(Failure.TRANSIENT, 500)
    assert after((0 * DAY, read(THERE)), (DAY, read(THERE)), (DAY, trouble), (2 * DAY, read(THERE))).adopts == THERE


def test_until_then_it_says_how_often_it_was_seen() -> None:
    assert "seen twice: adopted when seen 3 times over 2 d" in after((0 * DAY, read(THERE)), (DAY, read(THERE))).reason


def test_what_people_have_taken_back_is_not_adopted_again() -> None:
    from_there: datetime = NOW
    assert _seen_for_days(refused=(THERE,), now=from_there) == [None] * 9
    assert THERE in _seen_for_days(refused=(ELSEWHERE,), now=from_there)


def _seen_for_days(refused: tuple[str, ...], now: datetime) -> list[str | None]:
    standing, adopted = Standing(), []
    for day in range(9):
        decision = decided(read(THERE), standing, now=now + DAY * day, refused_moves=refused)
        standing = decision.standing
        adopted.append(decision.adopts)
    return adopted
