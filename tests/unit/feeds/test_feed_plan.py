"""`feed_plan`: its plan of a scan, beside batches."""

import io
import re
from datetime import UTC, datetime

import pytest
from django.core.management import call_command

from feeds.models import Feed
from tests.support import plain_feeds
from tests.support.feed_scans import subscribe

pytestmark = pytest.mark.django_db


def planned(*arguments: str) -> str:
    said = io.StringIO()
    call_command("feed_plan", "--gap", "0", "--slots", "3", *arguments, stdout=said)
    return said.getvalue()


@pytest.fixture
def worked_example() -> None:
    """Nine feeds of nine hosts, whose batches of three take 43 s as they are due, and 34 s the shortest first."""
    for place, seconds in enumerate([3, 10, 4, 13, 9, 2, 11, 20, 8]):
        due_at = f"2026-01-01T00:00:0{place}Z"
        subscribe(f"https://h{place}.example/", expected_seconds=seconds, last_seconds=1.0, next_check_at=due_at)


@pytest.mark.usefixtures("worked_example")
def test_a_plan_has_what_is_fetched_in_its_order_and_compares_it_with_batches() -> None:
    said = planned()

    assert re.search(r"^ +1 +20\.00s +0\.0s  https://h7\.example/$", said, re.MULTILINE)
    assert "9 feeds, 3 at once" in said
    assert "Expected in all: 80.0 s of fetching." in said
    assert "Lower bound: 26.7 s, since all slots are busy all the time." in said
    assert re.search(r"batches of 3, shortest first: +34\.0 s, 1\.275 × the bound", said)
    assert re.search(r"batches of 3, as given: +43\.0 s, 1\.612 × the bound", said)


@pytest.mark.usefixtures("worked_example")
def test_a_replay_goes_by_what_was_expected_and_takes_what_it_took() -> None:
    said = planned("--simulate")

    assert re.search(r"^ +1 +20\.00s +1\.00s +0\.0s  https://h7\.example/$", said, re.MULTILINE)
    assert re.search(r"this order: +3\.0 s, 1\.000 × the bound", said)


@pytest.mark.usefixtures("worked_example")
def test_a_replay_has_a_round_for_each_recorded_fetch() -> None:
    one = Feed.objects.get(url="https://h7.example/")
    for day, seconds, outcome in ((1, 40.0, "fetched"), (2, 30.0, "not modified"), (3, 99.0, "throttled")):
        plain_feeds.timing(one, seconds, outcome, datetime(2026, 1, day, tzinfo=UTC))
    said = planned("--simulate")

    # The figures leave out fetches that were cut off.
    assert re.search(r"^ +1 +20\.00s +30\.00s +0\.0s  https://h7\.example/$", said, re.MULTILINE)
    assert "2 rounds of recorded fetches" in said
    assert "rounds" not in planned("--simulate", "--rounds", "1")


def test_only_what_is_due_is_planned_unless_all_are_wanted() -> None:
    subscribe("https://a.example/", next_check_at="2999-01-01T00:00Z")
    subscribe("https://b.example/", paused=True)
    subscribe("https://c.example/", flagged_at="2026-01-01T00:00Z")

    assert re.findall(r"https\S+", planned()) == ["https://c.example/"]
    assert "https://c.example/ (flagged)" in planned()
    assert sorted(re.findall(r"https\S+", planned("--all"))) == ["https://a.example/", "https://c.example/"]


def test_nothing_due_is_no_failure_and_nothing_is_changed() -> None:
    one = subscribe("https://a.example/", next_check_at="2999-01-01T00:00Z")

    assert "0 feeds" in planned()
    assert Feed.objects.get(pk=one.pk).handed_over_at is None
