"""Layers in the database and the storage, and empty snapshots of them for each test."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, Protocol

import pytest
from django.core.management import call_command
from PIL import Image

from resources.tiles import layer_files, layers, publication
from resources.tiles.data import arrays, compiler, geojson
from resources.tiles.models import Layer
from resources.tiles.tile_address import Tile
from retry import contents, stores
from retry.contents import Prepared
from tests.conftest import RedisServers
from tests.support import geojson as support_geojson

LINES = support_geojson.collection(
    support_geojson.line("north", [[-0.2, 51.4], [0.0, 51.6]], speed=50, free_flow=50),
    support_geojson.line("south", [[0.0, 51.6], [0.2, 51.4]], speed=5, free_flow=50),
    support_geojson.line("west", [[-0.2, 51.4], [-0.3, 51.4]]),
)
AREAS = support_geojson.collection(
    support_geojson.area("island", support_geojson.square(-1, 51, 1, 52), support_geojson.square(-0.1, 51.4, 0.1, 51.6))
)

POINTS = support_geojson.collection(
    support_geojson.point("a", [-0.1, 51.5], mag=3, depth=-4),
    support_geojson.point("b", [0.2, 51.6], mag=1),
    support_geojson.point("c", [179, 0]),
)
HEAT = {"mode": "heat", "weight": "mag"}


class Load(Protocol):
    def __call__(self, slug: str = ..., kind: geojson.LayerKind = ..., data: bytes = ..., **fields: Any) -> Layer: ...


@pytest.fixture(autouse=True)
def _forgetful_process(settings: Any, tmp_path: Path) -> Iterator[None]:
    settings.LAYER_SNAPSHOT_SECONDS = 0
    settings.LAYER_BLOCK_SECONDS = 0  # measuring metatiles paints them: that takes most of the time of loading
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


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The works handed to workers: task, work key, token, arguments, lane."""
    calls: list[Any] = []
    monkeypatch.setattr("retry.lanes.publish_work", lambda *call: calls.append(call))
    return calls


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has clients of Redis fail at once while a server is away."""
    monkeypatch.setattr(stores, "PATIENT_RETRIES", 0)
    stores._make_client.cache_clear()
    yield
    stores._make_client.cache_clear()


def run(*arguments: object) -> str:
    """Runs a management command. Returns its output."""
    out = StringIO()
    call_command(*map(str, arguments), stdout=out)
    return out.getvalue()


def weights_of(layer: Layer) -> list[float]:
    return sorted(arrays.read_points(layer_files.read_file(layer.geometry_name)).weights.tolist())


TEMPLATE = "https://tiles.example.org/{z}/{x}/{y}{r}.png"
PLAIN = "https://tiles.example.org/{z}/{x}/{y}.png?key=secret"
"""The address of a server without tiles of twice the pixels."""

OTHER_TEMPLATE = "https://other.example/{z}/{x}/{y}.png"


class LoadUpstream(Protocol):
    def __call__(self, slug: str = ..., template: str = ..., **fields: Any) -> Layer: ...


class Store(Protocol):
    def __call__(self, prepared: Prepared, tile: Tile = ...) -> None: ...


@pytest.fixture
def store(redis_servers: RedisServers) -> Store:
    """Stores a tile as the fetcher does."""

    def stored(prepared: Prepared, tile: Tile = Tile("osm", 3, 5, 2)) -> None:  # noqa: B008  it is frozen
        assert stores.execute_call(contents.store_call(tile.content_key, prepared, 1, datetime.now(UTC), 0.1)) == 1

    return stored


@pytest.fixture
def upstream(db: None) -> LoadUpstream:
    """Makes a layer of another server's tiles."""

    def loaded(slug: str = "osm", template: str = TEMPLATE, **fields: Any) -> Layer:
        return publication.store_upstream_layer(
            slug, template, {"title": "Streets", "attribution": "© Somebody", **fields}
        )

    return loaded


def image(side: int = 256, image_format: str = "PNG", mode: str = "RGB", **options: Any) -> bytes:
    """A file of that many pixels each way, no two rows of it alike."""
    rows = Image.linear_gradient("L").resize((side, side))
    picture = Image.merge("RGB", (rows, rows.rotate(90), rows.rotate(180))).convert(mode)
    buffer = BytesIO()
    picture.save(buffer, format=image_format, **options)
    return buffer.getvalue()
