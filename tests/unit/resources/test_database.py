"""Whoever changes rows locks the first before the last, however they lie in the table: none waits in a circle."""

import time
from collections.abc import Callable
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from django.db import connection, transaction

from resources.mirroring.conf import Retention
from resources.mirroring.knowing import hosts, ordering
from resources.mirroring.knowing.models import Batch, BatchItem, MirroredHost, Resource, State, Step
from resources.mirroring.reporting import batches
from resources.mirroring.reporting.deciding import JOINED
from resources.mirroring.storing import losing, pruning, taking_down
from resources.mirroring.writing import blocking, refetching
from tests.resources.mirroring.rows import NOW, blob, content, resource

FIRST, LAST = "aa" * 32, "bb" * 32
HOST = "images.example.org"
PATIENCE_SECONDS = 20

WANTED = {"state": State.WANTED}
STORED = {"state": State.STORED, "blob_digest": content("one")}
VOUCHED = {**STORED, "step": Step.VALIDATORS, "vouched_by": HOST}
BLOCKED = {"state": State.FAILED, "failure": blocking.FAILURE}

CHANGES: dict[str, tuple[dict[str, Any], Callable[[], object]]] = {
    "lost": (STORED, lambda: losing.want_again([LAST, FIRST], NOW)),
    "taken down": (STORED, lambda: taking_down.take_down(content("one"))),
    "pruned": (STORED, lambda: pruning.prune(Retention(keep=timedelta(days=1)), NOW + timedelta(days=9))),
    "fetched again": (STORED, lambda: refetching.refetch([LAST, FIRST], NOW)),
    "distrusted": (VOUCHED, lambda: hosts.distrust(HOST, NOW, PATIENCE_SECONDS)),
    "blocked": (WANTED, lambda: blocking.fail_waiting(HOST, now=NOW)),
    "unblocked": (BLOCKED, lambda: blocking.unblock(HOST)),
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
    resource(1, state=State.STORED, blob_digest=content("one"))
    key = Resource.objects.get().pk
    for number in (2, 1):
        item = {"pk": number, "batch": batch, "position": number, "url_digest": key, "detail": JOINED}
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
    monkeypatch.setattr(ordering, "AT_ONCE", 2)
    for number in range(5):
        resource(number, state=State.FAILED if number else State.WANTED)
    some = Resource.objects.filter(state=State.FAILED)
    portions = []
    for keys in ordering.portions(some):
        portions.append(len(keys))
        ordering.delete(some.filter(pk__in=keys[:2]))
    assert portions == [2, 2]
    ordering.delete_all(Resource.objects.all())
    assert not Resource.objects.exists()
