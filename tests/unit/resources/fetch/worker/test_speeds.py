"""What one fetcher knows of the speed of servers."""

import pytest

from resources.fetching.fetcher import speeds
from resources.fetching.fetcher.speeds import Speeds
from resources.fetching.outcomes import Timing


def timing(wire_bytes: int, seconds: float, head_seconds: float | None = 1.0) -> Timing:
    return Timing(0, seconds, head_seconds, wire_bytes)


def test_speed_is_that_of_the_body_alone() -> None:
    known = Speeds()
    known.note("a", timing(1_000_000, 3))
    assert known.of("a") == pytest.approx(500_000)
    assert known.of("b") is None


@pytest.mark.parametrize("nothing", [timing(1000, 3), timing(1_000_000, 3, None), timing(1_000_000, 1)])
def test_small_bodies_and_failures_tell_nothing(nothing: Timing) -> None:
    known = Speeds()
    known.note("a", nothing)
    assert known.of("a") is None


def test_later_bodies_count_more() -> None:
    known = Speeds()
    known.note("a", timing(1_000_000, 2))
    for _ in range(20):
        known.note("a", timing(1_000_000, 11))
    assert known.of("a") == pytest.approx(100_000, rel=0.05)


def test_no_more_domains_are_known_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speeds, "MOST_KNOWN", 2)
    known = Speeds()
    for scope in ("a", "b", "c"):
        known.note(scope, timing(1_000_000, 2))
    assert [known.of(scope) is None for scope in ("a", "b", "c")] == [True, False, False]
