"""What the address of a tile asks for, for the counts of traffic. PURE. Does not know which layers there are."""

from resources.traffic.asked import Asked

from .tile import Tile

KIND = "tile"
BEGINNING = "/tiles/"


def asked(address: str) -> Asked | None:
    """The tile by its content key, under its layer; None for addresses of no tile."""
    wanted = Tile.parse(address.removeprefix(BEGINNING))
    return None if wanted is None else Asked(KIND, wanted.layer, wanted.content_key, part=str(wanted.z))


def address_of(content_key: str) -> str | None:
    """The address of the tile that has this content key; None when it is no tile's."""
    match content_key.split(":"):
        case [kind, layer, z, x, y, image_format] if kind == KIND:
            address = f"{layer}/{z}/{x}/{y}.{image_format}"
            return f"{BEGINNING}{address}" if Tile.parse(address) else None
        case _:
            return None
