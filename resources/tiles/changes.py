"""The change feed: what of each layer changed a short while ago, for pages that are open.

Small, whatever changed: many tiles are told more coarsely, and whoever has not asked for longer is told to look
at all of the layer again.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from . import zorder
from .layers import LayerView
from .touched import Touched

TOLD_SECONDS = 30.0
MOST_CHANGES = 8
"""So many are told apart: of more, some are told as one, with the version of the last of them."""

MOST_TILES = 400
"""So many tiles of a layer are told, in some five kilobytes."""


def feed(layers: Iterable[LayerView], now: float) -> dict[str, Any]:
    """Of each layer its version, and the changes since another one, as of now (Unix seconds)."""
    return {"layers": {layer.slug: _described(layer, now) for layer in layers}}


def _described(layer: LayerView, now: float) -> dict[str, Any]:
    """Before `since` anything may have changed. The changes are those of data; others have no tiles to tell."""
    since = max(
        layer.data_version,
        int((now - TOLD_SECONDS) * 1_000_000),
        *(each.version for each in layer.expirations),
    )
    versions = [version for version in layer.marks.versions() if version > since]
    told = versions[:: min(-1, len(versions) // -MOST_CHANGES)][::-1]
    most = MOST_TILES // max(1, len(told))
    changes = [
        _change(last, layer.marks.between(after, last).at_most(most)) for after, last in pairwise([since, *told])
    ]
    return {"version": layer.version, "since": since, "changes": changes}


def _change(version: int, touched: Touched) -> dict[str, Any]:
    """Columns and rows of the tiles in turn, by zoom; `below` are tiles of the last zoom, for all that are deeper."""
    zooms = {str(zoom): _places(keys) for zoom, keys in enumerate(touched.zooms) if len(keys)}
    return {"version": version, "deepest": touched.deepest, "zooms": zooms, "below": _places(touched.below)}


def _places(keys: zorder.Keys) -> list[int]:
    return [int(number) for place in zip(*zorder.places_of(keys), strict=True) for number in place]
