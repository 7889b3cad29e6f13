"""Has popular tiles painted anew as soon as a change has touched them, before anybody asks."""

import logging
from dataclasses import replace

from celery import current_app
from kombu.exceptions import OperationalError
from redis.exceptions import ConnectionError as NotRunning
from redis.exceptions import RedisError

from resources import locks
from resources.models import Layer
from retry import connections, popularity, serving
from retry.conf import conf
from retry.deciding import Serve

from . import asking
from .layers import LayerView
from .marks import Marks
from .tile import Tile
from .works import work_for

TASK = "resources.refresh_popular"
QUEUE = "work"

KNOWN_TILES = 2000
"""So many of a layer's most popular tiles are looked at."""

MOST_REFRESHED = 500
"""And so many of them at most are refreshed for one change, the most popular first."""

ASKED_SECONDS = 10
"""Within this time, changes that come after one for which the task was not started yet share its turn."""

_log = logging.getLogger("tarry.layers")


def refresh_soon(slug: str, version: int) -> None:
    """Has a worker do it for a change that made this version. Never fails: else tiles are refreshed when asked for."""
    try:
        if not connections.client("state").set(_asked(slug), 1, nx=True, ex=ASKED_SECONDS):
            return
        current_app.send_task(TASK, [slug, version], queue=QUEUE, retry=False, ignore_result=True)
    except NotRunning:
        _log.debug("no tiles are refreshed: the site is not running")
    except (RedisError, OperationalError, OSError) as error:
        _log.warning("popular tiles are not refreshed before they are asked for", extra={"error": str(error)})


def refresh_popular(slug: str, version: int) -> int:
    """Has those of a layer's popular tiles painted anew that changes have touched from a version on; how many.

    In the lane of refreshes, behind whoever waits, and none where that is full. Raises StoreUnavailable.
    """
    with locks.state() as client:
        client.delete(_asked(slug))  # before the layer is read: a change from now on asks anew
    layer = Layer.objects.filter(slug=slug, enabled=True).with_tiles().first()
    if layer is None or layer.kind == Layer.Kind.UPSTREAM:  # nobody tells us when other servers' tiles change
        return 0
    view = LayerView.of(layer, Marks.unpack(bytes(layer.marks)))
    return sum(_refresh(view, wanted) for wanted in _popular_tiles(view, version))


def _popular_tiles(layer: LayerView, version: int) -> list[Tile]:
    beginning, least = f"{asking.KIND}:{layer.slug}:", conf().POPULAR_REQUESTS
    popular = popularity.most_popular(asking.KIND, KNOWN_TILES, beginning, least=least)
    tiles = [tile for each in popular if (tile := _tile(each.content_key)) and layer.has_zoom(tile.z)]
    touched = [tile for tile in tiles if layer.version_for(tile.z, tile.x, tile.y) >= version]
    return touched[:MOST_REFRESHED]


def _tile(content_key: str) -> Tile | None:
    address = asking.address_of(content_key)
    return Tile.parse(address.removeprefix(asking.BEGINNING)) if address else None


def _refresh(layer: LayerView, wanted: Tile) -> bool:
    """Whether the tile was stale. What is not in the cache any more is painted in the same lane."""
    work = work_for(layer, wanted)
    version = layer.version_for(wanted.z, wanted.x, wanted.y)
    answer = serving.find_answer(wanted.content_key, replace(work, lane=work.refresh_lane), version)
    return not (isinstance(answer, Serve) and not answer.stale)


def _asked(slug: str) -> str:
    return f"tiles:refreshing:{slug}"
