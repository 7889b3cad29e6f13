"""Layers in the database and the storage, and empty snapshots of them for each test."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from resources.tiles import layers, publication
from resources.tiles.data import compiler, geojson
from resources.tiles.models import Layer
from tests.support import geojson as support_geojson

LINES = support_geojson.collection(
    support_geojson.line("north", [[-0.2, 51.4], [0.0, 51.6]], speed=50, free_flow=50),
    support_geojson.line("south", [[0.0, 51.6], [0.2, 51.4]], speed=5, free_flow=50),
    support_geojson.line("west", [[-0.2, 51.4], [-0.3, 51.4]]),
)
AREAS = support_geojson.collection(
    support_geojson.area("island", support_geojson.square(-1, 51, 1, 52), support_geojson.square(-0.1, 51.4, 0.1, 51.6))
)


class Load(Protocol):
    def __call__(self, slug: str = ..., kind: geojson.LayerKind = ..., data: bytes = ..., **fields: Any) -> Layer: ...


@pytest.fixture(autouse=True)
def _forgetful_process(settings: Any, tmp_path: Path) -> Iterator[None]:
    settings.LAYER_SNAPSHOT_SECONDS = 0
    settings.STORAGES = {
        **settings.STORAGES,
        "default": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": tmp_path / "blobs"},
        },
    }
    layers.snapshot.forget()
    yield
    layers.snapshot.forget()


@pytest.fixture
def load(db: None) -> Load:
    """Loads a layer into the database, three lines around London if nothing else is said."""

    def loaded(slug: str = "jams", kind: geojson.LayerKind = "lines", data: bytes = LINES, **fields: Any) -> Layer:
        given: Mapping[str, Any] = {"title": "Jams", **fields}
        return publication.store_layer(slug, compiler.compile_layer(kind, data), given)

    return loaded
