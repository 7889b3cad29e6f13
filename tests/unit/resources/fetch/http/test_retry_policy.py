"""The meaning of statuses, and the times of new attempts."""

import pytest

from resources.fetch.http.messages import Failure
from resources.fetch.http.retry_policy import (
    GiveUp,
    RetryLater,
    RetryPatience,
    failure_of_status,
    longest_pause,
    next_step,
)

PATIENCE = RetryPatience(attempts=5, slow_attempts=2, base_seconds=2, max_seconds=600, stall_seconds=86_400)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, None),
        (204, None),
        (206, None),
        (300, Failure.PERMANENT),
        (400, Failure.PERMANENT),
        (401, Failure.PERMANENT),
        (403, Failure.PERMANENT),
        (404, Failure.PERMANENT),
        (407, Failure.TRANSIENT),
        (408, Failure.TRANSIENT),
        (409, Failure.TRANSIENT),
        (410, Failure.PERMANENT),
        (418, Failure.PERMANENT),
        (420, Failure.THROTTLED),
        (425, Failure.TRANSIENT),
        (429, Failure.THROTTLED),
        (451, Failure.PERMANENT),
        (500, Failure.TRANSIENT),
        (501, Failure.PERMANENT),
        (502, Failure.TRANSIENT),
        (503, Failure.THROTTLED),
        (504, Failure.TRANSIENT),
        (505, Failure.PERMANENT),
        (511, Failure.TRANSIENT),
        (520, Failure.TRANSIENT),
        (529, Failure.THROTTLED),
        (600, Failure.PERMANENT),
        (999, Failure.PERMANENT),
    ],
)
def test_each_status_has_its_class(status: int, expected: Failure | None) -> None:
    assert failure_of_status(status, asked_to_wait=False) is expected


@pytest.mark.parametrize("status", [403, 429, 500, 502, 503])
def test_who_asks_to_wait_has_a_limit(status: int) -> None:
    assert failure_of_status(status, asked_to_wait=True) is Failure.THROTTLED


def test_what_is_gone_is_gone_however_long_it_asks_to_wait() -> None:
    assert failure_of_status(404, asked_to_wait=True) is Failure.PERMANENT


def step(
    failure: Failure, attempts: int = 1, waited: float = 0, retry_after: float | None = None, luck: float = 1.0
) -> RetryLater | GiveUp:
    return next_step(
        failure,
        attempts=attempts,
        waited_seconds=waited,
        retry_after_seconds=retry_after,
        patience=PATIENCE,
        random=lambda: luck,
    )


@pytest.mark.parametrize("failure", [Failure.PERMANENT, Failure.REFUSED, Failure.TOO_BIG, Failure.EXPIRED])
def test_what_cannot_change_is_not_tried_again(failure: Failure) -> None:
    assert isinstance(step(failure, retry_after=5), GiveUp)


@pytest.mark.parametrize(("failure", "last"), [(Failure.TRANSIENT, 5), (Failure.TOO_SLOW, 2)])
def test_attempts_are_counted(failure: Failure, last: int) -> None:
    assert isinstance(step(failure, attempts=last - 1), RetryLater)
    assert isinstance(step(failure, attempts=last), GiveUp)


@pytest.mark.parametrize("failure", [Failure.THROTTLED, Failure.OURS])
def test_nobodys_fault_is_no_attempt_but_ends_when_it_stalls(failure: Failure) -> None:
    assert isinstance(step(failure, attempts=1000, waited=86_000), RetryLater)
    assert isinstance(step(failure, attempts=1, waited=86_401), GiveUp)


def test_a_wait_beyond_the_stall_limit_fails_now() -> None:
    assert isinstance(step(Failure.THROTTLED, waited=60, retry_after=86_400), GiveUp)


def test_pauses_double_up_to_their_limit() -> None:
    assert [longest_pause(attempts, PATIENCE) for attempts in (0, 1, 2, 3, 4)] == [2, 2, 4, 8, 16]
    assert longest_pause(10, PATIENCE) == longest_pause(10_000, PATIENCE) == 600


def test_jitter_is_full() -> None:
    assert step(Failure.TRANSIENT, attempts=3, luck=0) == RetryLater(0)
    assert step(Failure.TRANSIENT, attempts=3, luck=0.5) == RetryLater(4)


def test_retry_after_is_the_floor() -> None:
    assert step(Failure.THROTTLED, retry_after=60, luck=0) == RetryLater(60)
    assert step(Failure.THROTTLED, retry_after=60, luck=0.5) == RetryLater(61)


def test_a_retry_after_of_nothing_does_not_switch_the_back_off_off() -> None:
    assert step(Failure.THROTTLED, attempts=5, retry_after=0, luck=0.5) == step(
        Failure.THROTTLED, attempts=5, retry_after=None, luck=0.5
    )
    assert step(Failure.THROTTLED, attempts=5, retry_after=0, luck=0.5) == RetryLater(16)
