"""Layers of another server's tiles, and tiles to send."""

import io
from datetime import UTC, datetime
from typing import Any, Protocol

import pytest
from PIL import Image

from resources.tiles import publication
from resources.tiles.models import Layer
from resources.tiles.tile_address import Tile
from retry import contents, stores
from retry.contents import Prepared
from tests.conftest import RedisServers
from tests.unit.resources.conftest import AREAS, LINES, Load

__all__ = ["AREAS", "LINES", "TEMPLATE", "Load", "LoadUpstream", "Store", "image"]

TEMPLATE = "https://tiles.example.org/{z}/{x}/{y}{r}.png"


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
    buffer = io.BytesIO()
    picture.save(buffer, format=image_format, **options)
    return buffer.getvalue()
