import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import DatabaseError, Error

from resources import caches
from resources.tiles import layers
from resources.tiles.models import Layer, next_version

from ..conftest import Load


def test_one_query_serves_all_layers_and_unknown_ones_for_a_while(
    load: Load, settings: Any, django_assert_num_queries: Any
) -> None:
    load()
    settings.LAYER_SNAPSHOT_SECONDS = 60
    with django_assert_num_queries(1):
        assert layers.layer_snapshot("jams") is not None
        assert [layers.layer_snapshot(f"unknown-{number}") for number in range(100)] == [None] * 100


def test_a_change_shows_when_the_snapshot_is_renewed(load: Load) -> None:
    layer = load()
    before = layers.layer_snapshot("jams")
    layer.save()
    after = layers.layer_snapshot("jams")
    assert before is not None
    assert after is not None
    assert before.version < after.version


def test_the_last_snapshot_serves_while_the_database_fails(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    before = layers.layer_snapshot("jams")

    monkeypatch.setattr(layers.snapshot, "_read", Mock(side_effect=DatabaseError))
    assert layers.layer_snapshot("jams") == before


class BlockedReader:
    """Reads no layers, once it is let."""

    def __init__(self) -> None:
        self.asked, self.let, self.reads = Event(), Event(), 0

    def __call__(self) -> dict[str, layers.LayerView]:
        self.reads += 1
        self.asked.set()
        assert self.let.wait(5)
        return {}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def remembered(load: Load, settings: Any, clock: list[float]) -> list[float]:
    """The clock, after a snapshot was taken that is renewed every second."""
    settings.LAYER_SNAPSHOT_SECONDS = 1
    load()
    assert layers.layer_snapshot("jams") is not None
    return clock


@pytest.mark.parametrize(("idle_seconds", "found"), [(1.5, True), (60.0, False)])
def test_only_a_nearly_new_snapshot_serves_while_another_thread_reads(
    remembered: list[float], monkeypatch: pytest.MonkeyPatch, idle_seconds: float, found: bool
) -> None:
    reader = BlockedReader()
    monkeypatch.setattr(layers.snapshot, "_read", reader)
    remembered[0] += idle_seconds
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(layers.layer_snapshot, "jams")
        assert reader.asked.wait(5)
        second = threads.submit(layers.layer_snapshot, "jams")
        if found:
            assert second.result(5) is not None
        reader.let.set()
        assert first.result(5) is None
        assert (second.result(5) is not None) is found
    assert reader.reads == 1


def test_a_reader_that_hangs_is_not_waited_for_without_end(
    remembered: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "SNAPSHOT_WAIT_SECONDS", 0.01)
    reader = BlockedReader()
    monkeypatch.setattr(layers.snapshot, "_read", reader)
    remembered[0] += 60
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(layers.layer_snapshot, "jams")
        assert reader.asked.wait(5)
        assert layers.layer_snapshot("jams") is not None
        reader.let.set()
        first.result(5)


@pytest.mark.parametrize("known", [True, False])
def test_a_database_that_fails_is_asked_no_more_often_than_one_that_answers(
    load: Load, settings: Any, monkeypatch: pytest.MonkeyPatch, clock: list[float], known: bool
) -> None:
    load()
    settings.LAYER_SNAPSHOT_SECONDS = 1
    if known:
        layers.layer_snapshot("jams")
    failing = Mock(side_effect=DatabaseError)
    monkeypatch.setattr(layers.snapshot, "_read", failing)
    for _ in range(10):
        clock[0] += 0.25
        with nullcontext() if known else pytest.raises(Error):
            layers.layer_snapshot("jams")
    assert failing.call_count == (2 if known else 3)


def test_a_layer_with_impossible_bounds_does_not_take_the_others_along(load: Load) -> None:
    load()
    load("broken")
    Layer.objects.filter(slug="broken").update(bounds="nonsense")
    assert layers.layer_snapshot("broken") is None
    assert layers.layer_snapshot("jams") is not None


@pytest.mark.parametrize(("version", "now"), [(0, 1_800_000_000.5), (2**62, 1_800_000_000.5), (5, 0.0)])
def test_versions_only_grow(version: int, now: float) -> None:
    assert next_version(version, now) == max(version + 1, int(now * 1e6))


def test_every_save_makes_a_new_version_also_of_single_fields(load: Load) -> None:
    layer = load()
    first = layer.version
    layer.title = "Other"
    layer.save(update_fields=["title"])
    assert Layer.objects.get().version > first
