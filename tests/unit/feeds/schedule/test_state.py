"""The meaning of a failure for a feed."""

from datetime import timedelta

import pytest

from feeds.schedule.state import PauseLadder, Trouble, trouble_of
from resources.fetch.http.messages import Failure, Obstacle
from tests.support.feed_decisions import DAY, HOUR, WEEK, failed


@pytest.mark.parametrize(
    ("failure", "status", "obstacle", "expected"),
    [
        (Failure.PERMANENT, None, Obstacle.LOOKUP, Trouble.LOOKUP),
        (Failure.TRANSIENT, None, Obstacle.LOOKUP, Trouble.LOOKUP),
        (Failure.PERMANENT, None, Obstacle.TLS, Trouble.TLS),
        (Failure.TRANSIENT, 301, Obstacle.TLS, Trouble.TLS),
        (Failure.TRANSIENT, None, Obstacle.CONNECTION, Trouble.CONNECTION),
        (Failure.TRANSIENT, None, None, Trouble.OTHER),
        (Failure.TOO_SLOW, None, None, Trouble.TIMEOUT),
        (Failure.TOO_SLOW, 200, None, Trouble.TIMEOUT),
        (Failure.TRANSIENT, 500, None, Trouble.SERVER),
        (Failure.THROTTLED, 503, None, Trouble.THROTTLED),
        (Failure.THROTTLED, 429, None, Trouble.THROTTLED),
        (Failure.PERMANENT, 404, None, Trouble.MISSING),
        (Failure.PERMANENT, 410, None, Trouble.GONE),
        (Failure.PERMANENT, 401, None, Trouble.DENIED),
        (Failure.PERMANENT, 403, None, Trouble.DENIED),
        (Failure.PERMANENT, 400, None, Trouble.OTHER),
        (Failure.REFUSED, None, None, Trouble.FORBIDDEN),
        (Failure.TOO_BIG, 200, None, Trouble.TOO_BIG),
        (Failure.EXPIRED, None, None, Trouble.EXPIRED),
        (Failure.POSTPONED, 302, None, Trouble.POSTPONED),
        (Failure.OURS, None, None, Trouble.OURS),
    ],
)
def test_each_failure_is_a_trouble_of_its_own(
    failure: Failure, status: int | None, obstacle: Obstacle | None, expected: Trouble
) -> None:
    assert trouble_of(failed(failure, status, obstacle=obstacle)) is expected


@pytest.mark.parametrize(
    ("failures", "expected"), [(0, HOUR), (1, HOUR), (2, 2 * HOUR), (5, 16 * HOUR), (6, DAY), (10_000, DAY)]
)
def test_a_ladder_doubles_up_to_its_end_and_to_the_longest_pause(failures: int, expected: timedelta) -> None:
    assert PauseLadder(HOUR, DAY).pause(failures, WEEK) == expected
    assert PauseLadder(HOUR, WEEK).pause(failures, DAY) == expected
