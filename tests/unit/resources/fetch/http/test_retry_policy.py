"""The meaning of statuses, and the times of new attempts."""

import pytest

from resources.fetch.http.messages import Failure
from resources.fetch.http.retry_policy import RetryPatience, choose_retry_seconds, failure_of_status, longest_pause

PATIENCE = RetryPatience(attempts=5, slow_attempts=2, base_seconds=2, max_seconds=600, stall_seconds=86_400)
STATUSES = {
    None: (200, 204, 206),
    Failure.PERMANENT: (300, 400, 401, 403, 404, 410, 418, 451, 501, 505, 600, 999),
    Failure.TRANSIENT: (407, 408, 409, 425, 500, 502, 504, 511, 520),
    Failure.THROTTLED: (420, 429, 503, 529),
}


@pytest.mark.parametrize("expected", STATUSES)
def test_each_status_has_its_class(expected: Failure | None) -> None:
    found = {status: failure_of_status(status, asked_to_wait=False) for status in STATUSES[expected]}
    assert found == dict.fromkeys(STATUSES[expected], expected)


@pytest.mark.parametrize("status", [403, 429, 500, 502, 503])
def test_who_asks_to_wait_has_a_limit(status: int) -> None:
    assert failure_of_status(status, asked_to_wait=True) is Failure.THROTTLED


def test_what_is_gone_is_gone_however_long_it_asks_to_wait() -> None:
    assert failure_of_status(404, asked_to_wait=True) is Failure.PERMANENT


def step(failure: Failure, attempts: int = 1, retry_after: float | None = None, luck: float = 1.0) -> float | None:
    return choose_retry_seconds(
        failure, attempts=attempts, retry_after_seconds=retry_after, patience=PATIENCE, random=lambda: luck
    )


@pytest.mark.parametrize("failure", [Failure.PERMANENT, Failure.REFUSED, Failure.TOO_BIG, Failure.EXPIRED])
def test_what_cannot_change_is_not_tried_again(failure: Failure) -> None:
    assert step(failure, retry_after=5) is None


@pytest.mark.parametrize(("failure", "last"), [(Failure.TRANSIENT, 5), (Failure.TOO_SLOW, 2)])
def test_attempts_are_counted(failure: Failure, last: int) -> None:
    assert step(failure, attempts=last - 1) is not None
    assert step(failure, attempts=last) is None


@pytest.mark.parametrize("failure", [Failure.THROTTLED, Failure.POSTPONED, Failure.OURS])
def test_a_failure_that_is_no_attempt_is_tried_again_unless_its_wait_is_above_the_stall_limit(
    failure: Failure,
) -> None:
    assert step(failure, attempts=1000, retry_after=86_400) == 86_400 + 600
    assert step(failure, retry_after=86_401) is None


def test_pauses_double_up_to_their_limit() -> None:
    assert [longest_pause(attempts, PATIENCE) for attempts in (0, 1, 2, 3, 4)] == [2, 2, 4, 8, 16]
    assert longest_pause(10, PATIENCE) == longest_pause(10_000, PATIENCE) == 600


def test_jitter_is_full() -> None:
    assert step(Failure.TRANSIENT, attempts=3, luck=0) == 0
    assert step(Failure.TRANSIENT, attempts=3, luck=0.5) == 4


def test_retry_after_is_the_floor() -> None:
    assert step(Failure.THROTTLED, retry_after=60, luck=0) == 60
    assert step(Failure.THROTTLED, retry_after=60, luck=0.5) == 61


def test_a_retry_after_of_nothing_does_not_switch_the_back_off_off() -> None:
    for retry_after in (0, None):
        assert step(Failure.THROTTLED, attempts=5, retry_after=retry_after, luck=0.5) == 16
