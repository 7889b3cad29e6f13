"""The work of fetching one tile, as main hands it over. PURE."""

from resources.tiles.tile import Tile
from retry import work

from .templates import Template

TASK = "resources.fetch_tile"


def fetch_work(template: Template, wanted: Tile, version: int) -> work.Work:
    """The work of fetching a tile for the layer's present version. Its first argument is the address."""
    return work.Work(
        key=f"fetch:{wanted.content_key}:{version}",
        kind=f"fetch:{wanted.layer}",
        lane="fetch.fast",
        refresh_lane="fetch.refresh",
        task=TASK,
        arguments=(
            template.url(wanted),
            *(wanted.layer, wanted.z, wanted.x, wanted.y, wanted.scale, wanted.format),
        ),
    )
