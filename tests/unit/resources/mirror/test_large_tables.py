"""What is done every few seconds or minutes finds its rows by an index, however many others there are."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from resources.mirroring.knowing import hosts
from resources.mirroring.knowing.models import Lane, Resource, State
from resources.mirroring.reporting import webhooks
from resources.mirroring.storing import sweeping
from resources.mirroring.writing import blocking, wanting

NOW = datetime(2026, 11, 21, tzinfo=UTC)

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL scans tables while they are empty"),
]


@pytest.mark.parametrize(
    "ask",
    [
        lambda: wanting.due(Lane.FAST, NOW, 200),
        lambda: wanting.due(Lane.FAST, NOW, 200, expiring=True),
        lambda: wanting.expired(NOW, 500),
        lambda: sweeping._find_lost("ab", set(), NOW),
        lambda: sweeping._find_dangling("ab", NOW),
        lambda: hosts.finish_distrusting(NOW, 1),
        lambda: hosts.distrust("example.org", NOW, 1),
        lambda: webhooks.call_due(NOW),
        lambda: blocking.fail_waiting("example.org", now=NOW),
        lambda: list(Resource.objects.order_by("-wanted_at")[:50]),
    ],
    ids=[
        "due",
        "due soon",
        "expired",
        "lost",
        "dangling",
        "distrusted",
        "distrust",
        "webhooks",
        "blocked",
        "the admin's list",
    ],
)
def test_no_table_is_read_as_a_whole(ask: Callable[[], object]) -> None:
    Resource.objects.create(url_digest="ab" * 32, host="www.example.org", state=State.WANTED, wanted_at=NOW)
    vouched_for = {"state": State.STORED, "blob_digest": "ef" * 32, "vouched_by": "example.org"}
    Resource.objects.create(url_digest="cd" * 32, host="example.org", wanted_at=NOW, **vouched_for)
    with CaptureQueriesContext(connection) as asked:
        ask()
    with connection.cursor() as cursor:
        for query in asked:
            cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
            plan = [step for *_, step in cursor.fetchall()]
            assert not [step for step in plan if is_costly(step)], query["sql"]


def is_costly(step: str) -> bool:
    """All rows, or all that were found put in order. Hosts are few."""
    return "TEMP B-TREE" in step or (
        step.startswith("SCAN resources_") and " INDEX " not in step and "mirroredhost" not in step
    )


def test_a_digest_is_within_the_bounds_of_its_shelf_alone() -> None:
    shelves = [f"{number:02x}" for number in range(sweeping.SHELVES)]
    for end in ("0" * 62, "f" * 62):
        found = [[one for one in shelves if low <= one + end < high] for low, high in map(sweeping._bounds, shelves)]
        assert found == [[one] for one in shelves]
