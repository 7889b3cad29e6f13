"""How people name a part of a layer on the command line: a box in degrees, zooms."""

import re

from resources.tiles.errors import LayerError
from resources.tiles.expirations import Part

_ZOOMS = re.compile(r"([0-9]{1,2})(?:-([0-9]{1,2}))?")


def part(bbox: str | None, zoom: str | None) -> Part | None:
    """The part that was named, None for all of the layer. Raises LayerError."""
    return Part.of(None if bbox is None else _numbers(bbox), *_zooms(zoom))


def _numbers(bbox: str) -> list[float]:
    try:
        return [float(number) for number in bbox.split(",")]
    except ValueError as error:
        raise LayerError(f"--bbox is {bbox[:60]!r}, not four numbers: west,south,east,north.") from error


def _zooms(zoom: str | None) -> tuple[int | None, int | None]:
    if zoom is None:
        return None, None
    found = _ZOOMS.fullmatch(zoom)
    if found is None:
        raise LayerError(f"--zoom is {zoom[:60]!r}, not a zoom or two with a hyphen between them, as 10-14.")
    return int(found[1]), int(found[2] or found[1])
