"""Changes of rows lock them in one order, so that none waits in a circle; reads during an outage of the database.

Values for statements of our own.
"""

import json
import runpy
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from threading import Thread
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import DatabaseError, connection, transaction
from django.test import Client

from resources import database, old_rows
from resources.mirror import hosts
from resources.mirror.conf import RetentionLimits
from resources.mirror.ingest import wanted_urls
from resources.mirror.models import Batch, BatchItem, DedupeStep, MirroredHost, Resource, UrlState
from resources.mirror.reports import batches
from resources.mirror.reports.classify import JOINED_DETAIL
from resources.mirror.storage import retention, takedown
from resources.tiles import layers
from resources.tiles.models import Layer
from tests.support.mirror_rows import NOW, blob, content, resource

from .conftest import Load

FIRST, LAST = "aa" * 32, "bb" * 32
HOST = "images.example.org"
PATIENCE_SECONDS = 20

WANTED = {"state": UrlState.WANTED}
STORED = {"state": UrlState.STORED, "blob_digest": content("one")}
VOUCHED = {**STORED, "step": DedupeStep.VALIDATORS, "vouched_by": HOST}
BLOCKED = {"state": UrlState.FAILED, "failure": hosts.BLOCKED_FAILURE}
FAILED = {"state": UrlState.FAILED, "failure": "permanent", "fetched_at": NOW}

CHANGES: dict[str, tuple[dict[str, Any], Callable[[], object]]] = {
    "lost": (STORED, lambda: retention.want_urls_again([LAST, FIRST], NOW)),
    "taken down": (STORED, lambda: takedown.take_down_blob(content("one"))),
    "pruned": (STORED, lambda: retention.prune_blobs(RetentionLimits(keep=timedelta(days=1)), NOW + timedelta(days=9))),
    "fetched again": (STORED, lambda: wanted_urls.refetch_urls([LAST, FIRST], NOW)),
    "distrusted": (VOUCHED, lambda: hosts.distrust_host(HOST, NOW, PATIENCE_SECONDS)),
    "blocked": (WANTED, lambda: hosts.fail_waiting_urls(HOST, now=NOW)),
    "forgotten": (FAILED, lambda: list(old_rows.prune_rows(NOW + timedelta(days=999)))),
    "unblocked": (BLOCKED, lambda: hosts.unblock_host(HOST)),
}

on_postgres = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")


@on_postgres
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("fields", "change"), CHANGES.values(), ids=CHANGES)
def test_the_first_url_is_locked_before_the_last(fields: dict[str, Any], change: Callable[[], object]) -> None:
    MirroredHost.objects.create(host=HOST, lies=1)
    blob("one", uploaded_at=NOW)
    for key in (LAST, FIRST):
        made = resource(key, **fields)
        Resource.objects.filter(pk=made.pk).update(url_digest=key)
    holds_the_last_while_it_waits_for_the_first(change, Resource, FIRST, LAST)


@on_postgres
@pytest.mark.django_db(transaction=True)
def test_the_first_item_of_a_list_is_locked_before_the_last() -> None:
    batch = Batch.objects.create(sender="a", key="b", created_at=NOW)
    resource(1, state=UrlState.STORED, blob_digest=content("one"))
    key = Resource.objects.get().pk
    for number in (2, 1):
        item = {"pk": number, "batch": batch, "position": number, "url_digest": key, "detail": JOINED_DETAIL}
        BatchItem.objects.create(**item)
    holds_the_last_while_it_waits_for_the_first(lambda: batches.settle_batch(batch.pk, NOW), BatchItem, 1, 2)


def holds_the_last_while_it_waits_for_the_first(
    change: Callable[[], object], model: type[Resource] | type[BatchItem], first: str | int, last: str | int
) -> None:
    """Fails when it does."""
    thread = Thread(target=in_a_connection_of_its_own, args=(change,))
    with transaction.atomic():
        model.objects.select_for_update().get(pk=first)
        thread.start()
        until_somebody_waits()
        model.objects.select_for_update(nowait=True).get(pk=last)
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def in_a_connection_of_its_own(change: Callable[[], object]) -> None:
    try:
        change()
    finally:
        connection.close()


def until_somebody_waits() -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    with connection.cursor() as cursor:
        while time.monotonic() < until:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone()[0]:
                return
            time.sleep(0.01)
    raise AssertionError("nobody waits")


@pytest.mark.django_db
def test_very_many_rows_are_removed_a_portion_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "ROWS_PER_STATEMENT", 2)
    for number in range(5):
        resource(number, state=UrlState.FAILED if number else UrlState.WANTED)
    some = Resource.objects.filter(state=UrlState.FAILED)
    portions = []
    for keys in database.key_portions(some):
        portions.append(len(keys))
        database.delete_in_order(some.filter(pk__in=keys[:2]))
    assert portions == [2, 2]
    database.delete_all_in_order(Resource.objects.all())
    assert not Resource.objects.exists()


STATIC_MAP = "/staticmap?layers=jams&center=0,0&zoom=1&size=9x9"


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Takes the database away."""

    def begin() -> None:
        monkeypatch.setattr(Layer.objects, "filter", Mock(side_effect=DatabaseError))

    return begin


@pytest.mark.parametrize("address", ["/", "/layers/jams/", "/tiles/jams.json", "/tiles/jams/0/0/0.png", STATIC_MAP])
def test_a_database_that_was_never_there_is_told_as_a_problem(client: Client, away: Any, address: str) -> None:
    away()
    response = client.get(address)
    assert (response.status_code, response["Retry-After"]) == (503, "1")
    assert json.loads(response.content)["detail"] == "The database cannot be read now."


def test_the_map_shows_what_was_read_before_the_outage(client: Client, load: Load, away: Any) -> None:
    load()
    layers.load_first_snapshot()
    away()
    response = client.get("/")
    assert response.status_code == 200
    assert "/tiles/jams/" in response.content.decode()


def test_the_first_snapshot_is_left_to_the_first_request_when_the_database_is_away(away: Any) -> None:
    away()
    layers.load_first_snapshot()


def test_a_web_process_reads_the_layers_before_its_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bool] = []
    monkeypatch.setattr("django.core.handlers.wsgi.WSGIHandler", lambda: None)
    monkeypatch.setattr(layers, "load_first_snapshot", lambda: read.append(True))
    runpy.run_module("project.wsgi")
    assert read


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 1, 2, 3, 4, 5, 678, UTC),
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_moments_reach_the_database_as_django_writes_them(moment: datetime) -> None:
    assert database.plain_values([moment]) == [connection.ops.adapt_datetimefield_value(moment)]
