"""The snapshot of all layers, and versions that only grow."""

from typing import Any

import pytest

from resources.tiles import layers
from resources.tiles.models import Layer, next_version

from ..conftest import Load


def test_one_query_serves_all_layers_for_a_while(load: Load, settings: Any, django_assert_num_queries: Any) -> None:
    load()
    settings.LAYER_SNAPSHOT_SECONDS = 60
    with django_assert_num_queries(1):
        assert layers.layer_snapshot("jams") is not None
        assert [layers.layer_snapshot(f"unknown-{number}") for number in range(100)] == [None] * 100


def test_a_layer_with_impossible_bounds_does_not_take_the_others_along(load: Load) -> None:
    load()
    load("broken")
    Layer.objects.filter(slug="broken").update(bounds="nonsense")
    assert layers.layer_snapshot("broken") is None
    assert layers.layer_snapshot("jams") is not None


@pytest.mark.parametrize(("version", "now"), [(0, 1_800_000_000.5), (2**62, 1_800_000_000.5), (5, 0.0)])
def test_versions_only_grow(version: int, now: float) -> None:
    assert next_version(version, now) == max(version + 1, int(now * 1e6))
