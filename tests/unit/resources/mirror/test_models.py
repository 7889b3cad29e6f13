"""Frequent queries find their rows by an index, in tables of any size."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from resources.mirror import hosts
from resources.mirror.ingest import feeder
from resources.mirror.models import Resource, UrlLane, UrlState
from resources.mirror.reports import webhooks
from resources.mirror.storage import sweeper

NOW = datetime(2026, 11, 21, tzinfo=UTC)

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL scans tables while they are empty"),
]


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda: feeder.due_urls(UrlLane.FAST, NOW, 200, [], [0]), id="due"),
        pytest.param(lambda: feeder.expired_urls(NOW, 500, {UrlLane.FAST: [0]}), id="expired"),
        pytest.param(lambda: sweeper._find_lost("ab", set(), NOW), id="lost"),
        pytest.param(lambda: sweeper._find_dangling("ab", NOW), id="dangling"),
        pytest.param(lambda: hosts.finish_distrusting(NOW, 1), id="distrusted"),
        pytest.param(lambda: hosts.distrust_host("example.org", NOW, 1), id="distrust"),
        pytest.param(lambda: webhooks.hand_over_due_calls(NOW), id="webhooks"),
        pytest.param(lambda: hosts.fail_waiting_urls("example.org", now=NOW), id="blocked"),
        pytest.param(lambda: list(Resource.objects.order_by("-wanted_at")[:50]), id="the admin's list"),
    ],
)
def test_no_table_is_read_as_a_whole(ask: Callable[[], object]) -> None:
    Resource.objects.create(url_digest="ab" * 32, host="www.example.org", state=UrlState.WANTED, wanted_at=NOW)
    vouched_for = {"state": UrlState.STORED, "blob_digest": "ef" * 32, "vouched_by": "example.org"}
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
    shelves = [f"{number:02x}" for number in range(sweeper.SHELF_COUNT)]
    for end in ("0" * 62, "f" * 62):
        found = [
            [one for one in shelves if low <= one + end < high] for low, high in map(sweeper._shelf_bounds, shelves)
        ]
        assert found == [[one] for one in shelves]
