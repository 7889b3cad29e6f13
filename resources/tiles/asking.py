"""What the address of a tile asks for, for the counts of traffic. PURE. Does not know which layers there are."""

from resources.traffic.asked import Asked

from .tile import Tile

KIND = "tile"
BEGINNING = "/tiles/"


def asked(address: str) -> Asked | None:
    """The tile by its content key, under its layer; None for addresses of no tile."""
    wanted = Tile.parse(address.removeprefix(BEGINNING))
    return None if wanted is None else Asked(KIND, wanted.layer, wanted.content_key)
