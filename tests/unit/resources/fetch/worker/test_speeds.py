"""Speeds of servers, as one fetcher knows them."""

import pytest

from resources.fetch.http.messages import OutcomeTiming
from resources.fetch.worker import attempt
from resources.fetch.worker.attempt import ServerSpeeds


def timing(wire_bytes: int, seconds: float, head_seconds: float | None = 1.0) -> OutcomeTiming:
    return OutcomeTiming(0, seconds, head_seconds, wire_bytes)


def test_speed_is_that_of_the_body_alone() -> None:
    known = ServerSpeeds()
    known.note("a", timing(1_000_000, 3))
    assert known.of("a") == pytest.approx(500_000)
    assert known.of("b") is None


@pytest.mark.parametrize("nothing", [timing(1000, 3), timing(1_000_000, 3, None), timing(1_000_000, 1)])
def test_small_bodies_and_failures_tell_nothing(nothing: OutcomeTiming) -> None:
    known = ServerSpeeds()
    known.note("a", nothing)
    assert known.of("a") is None


def test_later_bodies_count_more() -> None:
    known = ServerSpeeds()
    known.note("a", timing(1_000_000, 2))
    for _ in range(20):
        known.note("a", timing(1_000_000, 11))
    assert known.of("a") == pytest.approx(100_000, rel=0.05)


def test_no_more_domains_are_known_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "MAX_KNOWN_SPEEDS", 2)
    known = ServerSpeeds()
    for scope in ("a", "b", "c"):
        known.note(scope, timing(1_000_000, 2))
    assert [known.of(scope) is None for scope in ("a", "b", "c")] == [True, False, False]
