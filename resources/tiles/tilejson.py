"""TileJSON 3.0.0 of a layer. https://github.com/mapbox/tilejson-spec/tree/master/3.0.0"""

from typing import Any

from .layers import LayerView
from .styling import style

DIGITS = 7
"""Of a degree: about a centimetre."""


def describe(layer: LayerView, site: str, *, scale: int = 1) -> dict[str, Any]:
    """The description that map libraries read; `site` is the address of this site without a path.

    `scale` 2 is for dense screens: the same tiles with twice the pixels.
    TileJSON's bounds must not cross the antimeridian: those that do are given as all longitudes.
    `classes`, `note` and `page` are ours: the legend's entries with their colours, the remark on the
    data, and the address of the layer's page. The specification lets descriptions have keys of their own.
    """
    west, south, east, north = (round(degrees, DIGITS) for degrees in layer.bounds.as_list())
    classes = style.legend(layer.kind, layer.style)
    bounds = [-180.0, south, 180.0, north] if layer.bounds.crosses_antimeridian else [west, south, east, north]
    return {
        "tilejson": "3.0.0",
        "name": layer.title,
        "description": layer.note,
        "attribution": layer.attribution,
        "scheme": "xyz",
        "tiles": [f"{site}/tiles/{layer.slug}/{{z}}/{{x}}/{{y}}{'@2x' if scale == 2 else ''}.png"],
        "minzoom": layer.min_zoom,
        "maxzoom": layer.max_zoom,
        "bounds": bounds,
        "version": f"1.{layer.version}.0",
        "vector_layers": [],
        "legend": ", ".join(entry["label"] for entry in classes),
        "classes": classes,
        "note": layer.note,
        "page": f"{site}/layers/{layer.slug}/",
    }
