"""Periodic tasks of the workers for fetching."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings as site
from pytest_django import Settings

from resources import tasks
from resources.fetch import host_settings, timings
from resources.fetch.checks import check_fetching
from resources.fetch.models import FetchHeader, FetchTiming
from tests.support.fetch_outcomes import record

pytestmark = pytest.mark.django_db


def test_timings_live_for_so_many_days(settings: Settings) -> None:
    settings.FETCH_TIMINGS_DAYS = 2
    now = datetime.now(UTC)
    timings.write_records([record(at=now - timedelta(days=days)) for days in (1, 3)])
    tasks.prune_fetch_timings()
    assert [round((now - one.started_at).total_seconds()) for one in FetchTiming.objects.all()] == [86_400]


def test_headers_outlive_the_key_that_sealed_them(settings: Settings) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "old", []
    kept = FetchHeader.objects.create(host="a.example.com", name="X", sealed=host_settings.seal_value("x"))
    FetchHeader.objects.create(host="a.example.com", name="Y", sealed="lost")
    FetchHeader.objects.create(host="a.example.com", name="Z", variable="FETCH_HEADER_Z")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", ["old"]
    tasks.reseal_fetch_headers()
    settings.SECRET_KEY_FALLBACKS = []
    kept.refresh_from_db()
    assert host_settings.unseal_value(kept.sealed) == "x"
    assert FetchHeader.objects.get(name="Y").sealed == "lost"


def test_the_tasks_have_their_times() -> None:
    known = {tasks.apply_fetch_limits.name, tasks.prune_fetch_timings.name, tasks.reseal_fetch_headers.name}
    scheduled: dict[str, Any] = {entry["task"]: entry for entry in site.CELERY_BEAT_SCHEDULE.values()}
    assert known <= set(scheduled)
    assert {scheduled[name]["options"]["queue"] for name in known} == {"work"}


def test_more_days_than_a_date_can_hold_are_an_error(settings: Settings) -> None:
    settings.FETCH_TIMINGS_DAYS = 10**17
    assert [error.id for error in check_fetching(None)] == ["fetching.E007"]
