"""What becomes of an answer whose times are those of a clock that was ahead."""

from datetime import UTC, datetime, timedelta

import pytest

from feeds.gathering import settling
from feeds.keeping.storing import Stored
from feeds.models import Feed
from resources.fetching.outcomes import Failed, Failure, Timing
from tests.feeds.gathered import subscribe

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
URL = "https://example.org/a"


@pytest.mark.parametrize(("began_at", "stays"), [(NOW - timedelta(seconds=2), False), (NOW + timedelta(hours=1), True)])
def test_a_flag_is_done_with_only_by_a_fetch_that_is_known_to_have_begun_after_it(
    began_at: datetime, stays: bool
) -> None:
    one = subscribe(URL, flagged_at=NOW - timedelta(seconds=3))
    failed = Failed(Failure.TRANSIENT, "It hung up.", Timing(began_at.timestamp(), 2.0))
    assert settling.settle(one.pk, URL, failed, NOW) is Stored.STORED
    found = Feed.objects.get()
    assert (found.flagged_at is not None) is stays
    assert found.fetch_began_at
    assert found.fetch_began_at <= NOW
