"""The work of tiles: painting metatiles, refreshing popular tiles, expiring parts of layers.

Painters keep the scenes of the layers used last, loaded once per version and process.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import cast

from django.conf import settings
from django.db import transaction
from redis.exceptions import ConnectionError as NotRunning
from redis.exceptions import RedisError

from retry import contents, deferral, errors, lanes, metrics, stores
from retry.conf import conf
from retry.decision import Serve
from retry.work import Work

from .. import locks
from ..image_formats import TILE_FORMATS
from . import demand, layer_files
from .data.geojson import LayerKind
from .errors import UnknownLayerError
from .layers import LayerView
from .models import Layer
from .render import painter
from .render.painter import AnyScene, SceneGround
from .render.scene import LastUsedCache
from .staleness import LayerPart
from .tile_address import Metatile, Tile
from .tile_marks import TileMarks
from .upstream.templates import upstream_tile_work


def tile_work(layer: LayerView, wanted: Tile) -> Work:
    if layer.upstream:
        return upstream_tile_work(layer.upstream, wanted, layer.version_for(wanted.z, wanted.x, wanted.y))
    return paint_work(layer, wanted)


def paint_work(layer: LayerView, wanted: Tile) -> Work:
    """Returns the work of painting a tile's metatile from the layer's present data; all its tiles share it."""
    piece = Metatile.around(wanted, layer.metatile_side(wanted.z, wanted.scale))
    return Work(
        key=piece.work_key(layer.version_for(piece.z, piece.x, piece.y, side=piece.side)),
        kind=piece.kind,
        lane="paint.now",
        refresh_lane="paint.refresh",
        task="resources.paint_block",
        arguments=(piece.layer, piece.z, piece.x, piece.y, piece.side, piece.scale, piece.format),
    )


SCENE_ATTEMPTS = 3

_ground_cache: LastUsedCache[SceneGround] = LastUsedCache()
_scene_cache: LastUsedCache[AnyScene] = LastUsedCache()


def load_scene(slug: str) -> tuple[LayerView, AnyScene]:
    """Loads the present layer, ready to paint. Raises UnknownLayerError when it is gone."""
    for attempt in range(SCENE_ATTEMPTS):
        layer = _find_painted_layer(slug)
        try:
            key = (layer.kind, layer.geometry_name, layer.speeds_name, json.dumps(layer.style, sort_keys=True))
            scene = _scene_cache.get(key, partial(_build_scene, layer), most=settings.LAYER_SCENES_KEPT)
            return LayerView.of(layer), scene
        except FileNotFoundError:  # its data was replaced after the row was read
            if attempt + 1 == SCENE_ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _find_painted_layer(slug: str) -> Layer:
    with metrics.time_call("database"):
        layer = Layer.objects.filter(slug=slug, enabled=True).exclude(geometry_name="").defer("marks").first()
    if layer is None:
        raise UnknownLayerError(f"There is no layer “{slug}”.")
    return layer


def _build_scene(layer: Layer) -> AnyScene:
    kind, name = cast(LayerKind, layer.kind), layer.geometry_name
    ground = _ground_cache.get(
        name, lambda: painter.read_ground(kind, layer_files.read_file(name)), most=settings.LAYER_SCENES_KEPT
    )
    speeds = layer_files.read_file(layer.speeds_name) if kind == "lines" and layer.speeds_name else None
    return painter.build_scene(kind, ground, speeds, layer.style)


for _scale in (1, 2):  # in main as in the painters: shared content is stored by its digest alone
    for _format in TILE_FORMATS:
        contents.share_body(painter.encode_empty_tile(_scale, _format))


def empty_tile(wanted: Tile) -> bytes:
    """Returns the one file of all tiles that show nothing."""
    return painter.encode_empty_tile(wanted.scale, wanted.format)


def paint_metatile(metatile: Metatile) -> Mapping[str, contents.Prepared]:
    """Paints a metatile from the layer's newest data. Returns its tiles by content key; does not store them.

    Leaves out tiles outside the layer's bounds: main knows without a look that they are empty.
    """
    try:
        layer, scene = load_scene(metatile.layer)
    except UnknownLayerError as error:
        raise errors.PreparationError("The layer no longer exists.", status=404) from error
    painted = painter.paint_tiles(scene, metatile.tiles(layer.bounds, layer.padding))
    return {
        tile.content_key: contents.Prepared(
            body=body,
            content_type=tile.content_type,
            fresh_seconds=layer.fresh_seconds,
            stale_seconds=layer.stale_seconds,
            client_seconds=layer.client_seconds,
            version=layer.version,
        )
        for tile, body in painted.items()
    }


REFRESH_TASK = "resources.refresh_popular"
REFRESH_QUEUE = "work"

MAX_POPULAR_TILES = 2000
"""A layer's most popular tiles that are looked at."""

MAX_REFRESHED_TILES = 500
"""Tiles refreshed for one change, the most popular first."""

REFRESH_PENDING_SECONDS = 10
"""While a task is queued, later changes within this time share it."""

_log = logging.getLogger("tarry.layers")


def refresh_soon(slug: str, version: int) -> None:
    """Queues the refresh for a change that made this version. Never fails: tiles are else refreshed on request."""
    try:
        if not stores.fast_client("state").set(_pending_key(slug), 1, nx=True, ex=REFRESH_PENDING_SECONDS):
            return
        lanes.send_task(REFRESH_TASK, [slug, version], REFRESH_QUEUE)
    except NotRunning:
        _log.debug("no tiles are refreshed: the site is not running")
    except (RedisError, errors.QueueUnavailable, OSError) as error:
        _log.warning("popular tiles are not refreshed before they are asked for", extra={"error": str(error)})


def refresh_popular_tiles(slug: str, version: int) -> int:
    """Refreshes the popular tiles of a layer that changes have touched since a version. Returns their number.

    Uses the lane of refreshes, behind waiting clients, and refreshes none when it is full. Raises StoreUnavailable.
    """
    with locks.open_state() as client:
        client.delete(_pending_key(slug))  # before the layer is read: a change from now on asks anew
    layer = Layer.objects.filter(slug=slug, enabled=True).with_tiles().first()
    if layer is None or layer.kind == Layer.Kind.UPSTREAM:  # other servers do not report changes of their tiles
        return 0
    view = LayerView.of(layer, TileMarks.unpack(bytes(layer.marks)))
    return sum(_refresh_tile(view, wanted) for wanted in _popular_tiles(view, version))


def _popular_tiles(layer: LayerView, version: int) -> list[Tile]:
    popular = demand.load_popular_tiles(layer.slug, MAX_POPULAR_TILES, conf().POPULAR_REQUESTS)
    tiles = [tile for tile, _ in popular if layer.has_zoom(tile.z)]
    touched = [tile for tile in tiles if layer.version_for(tile.z, tile.x, tile.y) >= version]
    return touched[:MAX_REFRESHED_TILES]


def _refresh_tile(layer: LayerView, wanted: Tile) -> bool:
    """True if the tile was stale or missing. A missing one is painted in the same lane."""
    work = tile_work(layer, wanted)
    version = layer.version_for(wanted.z, wanted.x, wanted.y)
    answer = deferral.find_answer(wanted.content_key, replace(work, lane=work.refresh_lane), version)
    return not (isinstance(answer, Serve) and not answer.stale)


def _pending_key(slug: str) -> str:
    return f"tiles:refreshing:{slug}"


def expire_layer(slug: str, part: LayerPart | None = None) -> Layer:
    """Returns the layer with a new version. Its tiles are served once more while they are painted anew.

    Raises UnknownLayerError.
    """
    with transaction.atomic():
        layer = Layer.objects.select_for_update().filter(slug=slug).first()
        if layer is None:
            raise UnknownLayerError(f"There is no layer “{slug}”.")
        layer.expire(part)
        transaction.on_commit(partial(refresh_soon, slug, layer.version), robust=True)
    return layer
