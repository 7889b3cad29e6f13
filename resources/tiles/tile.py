"""One tile of a layer: its address and the names that come from it. PURE."""

import re
from dataclasses import dataclass
from typing import Self

from . import grid

MAX_ADDRESS_LENGTH = 120
SLUG = r"[a-z0-9][a-z0-9_-]{0,49}"
SLUG_RULE = "Small letters, digits, “-” and “_”, 50 at most."
TYPES = {"png": "image/png", "webp": "image/webp"}

_NUMBER = r"0|[1-9][0-9]{0,6}"
_ADDRESS = re.compile(
    rf"(?P<layer>{SLUG})/(?P<z>{_NUMBER})/(?P<x>{_NUMBER})/(?P<y>{_NUMBER})(?P<twice>@2x)?\.(?P<format>png|webp)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile that exists on the grid. Whether its layer does is not known here."""

    layer: str
    z: int
    x: int
    y: int
    scale: int = 1
    format: str = "png"

    @classmethod
    def parse(cls, address: str) -> Self | None:
        """The tile at `layer/z/x/y[@2x].format`; None for any address not written exactly like that."""
        match = _ADDRESS.fullmatch(address) if len(address) <= MAX_ADDRESS_LENGTH else None
        if match is None:
            return None
        z, x, y = int(match["z"]), int(match["x"]), int(match["y"])
        if not grid.is_tile(z, x, y):
            return None
        return cls(match["layer"], z, x, y, 2 if match["twice"] else 1, match["format"])

    @property
    def content_key(self) -> str:
        return f"tile:{self.layer}:{self.z}:{self.x}:{self.y}{'@2x' if self.scale == 2 else ''}:{self.format}"

    @property
    def content_type(self) -> str:
        return TYPES[self.format]
