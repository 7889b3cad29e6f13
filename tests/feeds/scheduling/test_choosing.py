"""Which feeds a scan takes."""

from datetime import UTC, datetime, timedelta

from feeds.scheduling.choosing import Candidate, choose, fetches
from feeds.scheduling.expecting import Expectations
from feeds.scheduling.fetches import Fetch

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


def candidate(key: str, minutes: float, *, is_flagged: bool = False) -> Candidate:
    return Candidate(key, "one.example", NOW + timedelta(minutes=minutes), is_flagged, 2.0)


CANDIDATES = [
    candidate("later", 1),
    candidate("due", 0),
    candidate("due for long", -60),
    candidate("flagged", 600, is_flagged=True),
]


def keys(chosen: list[Candidate]) -> list[str]:
    return [each.key for each in chosen]


def test_flagged_feeds_come_first_then_those_that_are_due_for_longest() -> None:
    assert keys(choose(CANDIDATES, NOW, most=10)) == ["flagged", "due for long", "due"]


def test_no_more_are_taken_than_there_is_room_for() -> None:
    assert keys(choose(CANDIDATES, NOW, most=2)) == ["flagged", "due for long"]


def test_what_is_chosen_is_fetched_with_what_is_expected_of_it() -> None:
    [chosen, *_] = choose(CANDIDATES, NOW, most=1)
    unknown = Candidate("new", "one.example", NOW)
    expectations = Expectations.of([("one.example", 4.0)])
    assert fetches([chosen, unknown], expectations) == [
        Fetch("flagged", "one.example", 2.0, is_flagged=True),
        Fetch("new", "one.example", 4.0),
    ]
