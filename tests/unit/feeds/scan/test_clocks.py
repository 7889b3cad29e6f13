"""Moments written while the clock was ahead do not delay anything until that hour comes again."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError

from feeds.models import Feed, Scan
from feeds.scan import due, scanner
from tests.support.plain_feeds import NOW, feed

pytestmark = pytest.mark.django_db

NOTHING = dict.fromkeys(("feeds", "hosts", "expected_seconds"), 0)
AHEAD = NOW + timedelta(hours=1)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def taken(now: datetime = NOW) -> list[str]:
    return [one.host for one in due.due_feeds(now, 10)]


def test_what_was_flagged_by_a_clock_that_was_ahead_is_taken_now() -> None:
    one = feed("a", flagged_at=AHEAD, next_check_at=AHEAD + seconds(600))
    assert taken() == []
    assert scanner.repair_future_times(NOW) == 1
    assert taken() == ["a.example"]
    one.refresh_from_db()
    assert one.next_check_at == NOW + seconds(600)


def test_the_order_of_what_has_happened_stays() -> None:
    Scan.objects.create(started_at=AHEAD, **NOTHING)
    one = feed("a", fetch_began_at=AHEAD, checked_at=AHEAD + seconds(1), handed_over_at=AHEAD + seconds(5))
    Feed.objects.update(flagged_at=AHEAD + seconds(6), next_check_at=AHEAD + seconds(61))
    assert scanner.repair_future_times(NOW) == 1
    one.refresh_from_db()
    found = (one.fetch_began_at, one.checked_at, one.handed_over_at, one.flagged_at, one.next_check_at)
    assert found == (NOW - seconds(6), NOW - seconds(5), NOW - seconds(1), NOW, NOW + seconds(55))
    assert taken() == ["a.example"]
    assert Scan.objects.get().started_at == NOW
    assert scanner.repair_future_times(NOW) == 0


def test_what_lies_in_the_past_stays_and_what_is_to_come_soon_too() -> None:
    Scan.objects.create(started_at=AHEAD, **NOTHING)
    one = feed("a", fetch_began_at=NOW - seconds(9), checked_at=NOW, flagged_at=NOW + seconds(20), next_check_at=AHEAD)
    before = Feed.objects.values().get()
    feed("b", checked_at=AHEAD)
    assert scanner.repair_future_times(NOW) == 1
    assert Feed.objects.values().get(pk=one.pk) == before


def test_while_the_clock_is_right_no_row_is_looked_at(django_assert_num_queries: object) -> None:
    feed("a", flagged_at=NOW, checked_at=NOW)
    with django_assert_num_queries(2):  # type: ignore[operator]  # a fixture that makes contexts
        assert scanner.repair_future_times(NOW) == 0


def test_what_was_interrupted_goes_on_with_the_next_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "FEEDS_PER_REPAIR", 1)
    Scan.objects.create(started_at=AHEAD, **NOTHING)
    for name in "ab":
        feed(name, checked_at=AHEAD)
    move_back, moved = scanner._repair_part, 0

    def failing(*given: Any) -> None:
        nonlocal moved
        moved += 1
        if moved == 2:
            raise OperationalError("database is locked")
        move_back(*given)

    monkeypatch.setattr(scanner, "_repair_part", failing)
    with pytest.raises(OperationalError):
        scanner.repair_future_times(NOW)
    assert scanner.repair_future_times(NOW) == 1
    assert not Feed.objects.filter(checked_at__gt=NOW).exists()


def test_many_are_set_right_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "FEEDS_PER_REPAIR", 2)
    for name in "abcde":
        feed(name, flagged_at=AHEAD)
    assert scanner.repair_future_times(NOW) == 5
    assert len(taken()) == 5
