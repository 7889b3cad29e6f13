"""The breaker: fails fast, lets one caller try, closes on success."""

from retry.circuit import Breaker


def test_a_closed_breaker_lets_everyone_through() -> None:
    breaker = Breaker()
    assert all(breaker.allows(now) for now in (0.0, 1.0, 2.0))


def test_after_a_failure_everyone_fails_fast_for_its_rest() -> None:
    breaker = Breaker(rest_seconds=1)
    breaker.failed(10.0)
    assert not breaker.allows(10.5)


def test_after_the_rest_one_caller_tries_and_the_others_rest_on() -> None:
    breaker = Breaker(rest_seconds=1)
    breaker.failed(10.0)
    assert breaker.allows(11.0)
    assert not breaker.allows(11.0)
    assert not breaker.allows(11.9)


def test_success_closes_it() -> None:
    breaker = Breaker(rest_seconds=1)
    breaker.failed(10.0)
    breaker.allows(11.0)
    breaker.succeeded()
    assert breaker.allows(11.0)
    assert breaker.allows(11.0)


def test_who_opens_it_is_told_so() -> None:
    breaker = Breaker(rest_seconds=1)
    assert [breaker.failed(now) for now in (10.0, 10.1, 11.2)] == [True, False, False]
    breaker.succeeded()
    assert breaker.failed(12.0)
