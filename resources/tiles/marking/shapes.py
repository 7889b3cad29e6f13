"""The tiles that look different with another geometry. PURE.

Features are compared by their ids: those that are new, gone, of another shape or class, and no others.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import shapely
from numpy.typing import NDArray

from ..reading import geojson, geometry, points, speeds
from ..reading.geometry import Geometry
from ..styling import colours
from ..styling.point_style import PointStyle
from ..styling.style import Style, parse_style
from ..touched import Touched, joined
from . import areas, dots, lines
from .changing import MOST_CHANGED, Look
from .lines import Zooms

DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Data:
    """A layer's files."""

    geometry: bytes
    speeds: bytes


def touched_by_data(kind: geojson.Kind, old: Data, new: Data, look: Look) -> Touched | None:
    """The tiles that other data of the same kind and style touch; None for all."""
    style, zooms = parse_style(kind, look.style), Zooms(look.min_zoom, look.max_zoom)
    if isinstance(style, PointStyle):
        return dots.touched_by(points.read_points(old.geometry), points.read_points(new.geometry), style, zooms)
    shapes = [geometry.read_geometry(data.geometry) for data in (old, new)]
    digests = [_digests(data, shape, kind, style) for data, shape in zip((old, new), shapes, strict=True)]
    changed = [_not_in(mine, others) for mine, others in (digests, digests[::-1])]
    if sum(map(np.count_nonzero, changed)) > MOST_CHANGED:
        return None
    each = [lines.touched_by(shape, which, style, zooms) for shape, which in zip(shapes, changed, strict=True)]
    if kind == "areas":
        try:
            insides = [areas.polygons_of(shape, which) for shape, which in zip(shapes, changed, strict=True)]
            each.append(areas.touched_by(areas.changed_region(*insides), zooms))
        except shapely.errors.GEOSException:  # shapes that cross themselves in ways it cannot mend
            return None
    return joined(each)


def _digests(data: Data, shape: Geometry, kind: geojson.Kind, style: Style) -> dict[str, bytes]:
    """Of each feature, by its id, a digest of all that makes it look as it does."""
    ids = geometry.read_ids(data.geometry)
    classes = _classes(data, kind, style, len(ids))
    groups = np.searchsorted(shape.features, np.arange(len(ids) + 1))
    parts = shape.groups[groups]
    return {
        identity: _digest(shape, int(parts[place]), int(parts[place + 1]), int(classes[place]))
        for place, identity in enumerate(ids)
    }


def _classes(data: Data, kind: geojson.Kind, style: Style, count: int) -> NDArray[np.uint8]:
    if kind == "areas":
        return np.full(count, colours.FILL, np.uint8)
    known = speeds.read_speeds(data.speeds)
    return colours.classify(known.speed_kmh, known.free_flow_kmh, style.thresholds)


def _digest(shape: Geometry, first: int, last: int, colour: int) -> bytes:
    """A digest of a feature's parts, from one to before another, which rings they are and of which polygons."""
    digest = blake2b(bytes([colour]), digest_size=DIGEST_BYTES)
    offsets = shape.offsets[first : last + 1]
    digest.update((offsets - offsets[0]).tobytes())
    digest.update(shape.rings[first:last].tobytes())
    digest.update(np.isin(np.arange(first, last), shape.groups).tobytes() if last - first > 1 else b"")
    digest.update(shape.coordinates[offsets[0] : offsets[-1]].tobytes())
    return digest.digest()


def _not_in(mine: dict[str, bytes], others: dict[str, bytes]) -> NDArray[np.bool_]:
    """Whether each of one side's features is none of the other's, in their order."""
    return np.array([others.get(identity) != digest for identity, digest in mine.items()], np.bool_)
