"""Requests and refusals over time, counted by the database."""

from datetime import timedelta

import pytest
from django.db import connection

from resources.charts import RequestTally
from resources.fetch import timings
from resources.fetch.admin import domain_page
from resources.fetch.models import FetchTiming
from tests.support.fetch_outcomes import NOON, record

pytestmark = pytest.mark.django_db

STEP = timedelta(minutes=5)


def test_each_step_has_what_began_in_it() -> None:
    timings.write_records(
        [
            *(record(after=after) for after in (0, 299.999999, 300, 899.5)),
            *(record(after=after, outcome="throttled") for after in (1, 310)),
            record(after=900),
            record(after=-0.001),
            record("b.example.com", after=10),
        ]
    )
    found = domain_page.count_requests(["a.example.com"], NOON, NOON + 4 * STEP, STEP)
    assert found == [
        RequestTally(NOON, 3, 1),
        RequestTally(NOON + STEP, 2, 1),
        RequestTally(NOON + 2 * STEP, 1, 0),
        RequestTally(NOON + 3 * STEP, 1, 0),
    ]
    assert domain_page.count_requests(["a.example.com"], NOON, NOON + STEP, STEP) == found[:1]


def test_several_names_of_a_domain_count_together() -> None:
    timings.write_records(
        [record(after=1), record("a.example.com via proxy", after=2), record("b.example.com", after=3)]
    )
    names = ["a.example.com", "a.example.com via proxy"]
    assert domain_page.count_requests(names, NOON, NOON + STEP, STEP) == [RequestTally(NOON, 2, 0)]


def test_a_domain_of_which_nothing_is_known_has_empty_steps() -> None:
    found = domain_page.count_requests(["a.example.com"], NOON, NOON + 2 * STEP, STEP)
    assert found == [RequestTally(NOON, 0, 0), RequestTally(NOON + STEP, 0, 0)]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL chooses by what is in the table")
@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ({"scope": "a", "started_at__gt": NOON}, "COVERING INDEX timings_of_a_scope"),
        ({"url_digest": "a", "started_at__gt": NOON}, "INDEX timings_of_an_address"),
        ({"started_at__lt": NOON}, "INDEX timings_by_time"),
    ],
)
def test_schedules_charts_and_pruning_have_their_index(wanted: dict[str, object], index: str) -> None:
    rows = FetchTiming.objects.filter(**wanted)
    assert index in rows.order_by().values_list("outcome" if "scope" in wanted else "seconds").explain()
