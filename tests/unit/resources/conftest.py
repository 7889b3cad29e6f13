"""Layers in the database and the storage, and what a process remembers of them, fresh for each test."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from resources.models import Layer
from resources.tiles import layers
from resources.tiles.keeping import storing
from resources.tiles.reading import compiling, geojson
from tests.resources.tiles import builders

LINES = builders.collection(
    builders.line("north", [[-0.2, 51.4], [0.0, 51.6]], speed=50, free_flow=50),
    builders.line("south", [[0.0, 51.6], [0.2, 51.4]], speed=5, free_flow=50),
    builders.line("west", [[-0.2, 51.4], [-0.3, 51.4]]),
)
AREAS = builders.collection(
    builders.area("island", builders.square(-1, 51, 1, 52), builders.square(-0.1, 51.4, 0.1, 51.6))
)


class Load(Protocol):
    def __call__(self, slug: str = ..., kind: geojson.Kind = ..., data: bytes = ..., **fields: Any) -> Layer: ...


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

    def loaded(slug: str = "jams", kind: geojson.Kind = "lines", data: bytes = LINES, **fields: Any) -> Layer:
        given: Mapping[str, Any] = {"title": "Jams", **fields}
        return storing.store_layer(slug, compiling.compile_layer(kind, data), given)

    return loaded
