"""Celery tasks of the resources."""

from functools import partial

from celery import shared_task

from retry import preparing

from .static_map.picture import Picture
from .static_map.preparing import paint_picture
from .tiles.blocks import Block
from .tiles.preparing import paint_block as paint
from .traffic import reading


@shared_task(name="resources.read_traffic", ignore_result=True)
def read_traffic() -> None:
    """Counts what the front has logged on this machine since the last time."""
    reading.read_traffic()


@shared_task(name="resources.paint_block", ignore_result=True)
def paint_block(  # noqa: PLR0917  # a message's arguments are flat
    work_key: str, token: int, layer: str, z: int, x: int, y: int, side: int, scale: int, image_format: str
) -> None:
    """Paints one block of tiles. Does not raise when that fails."""
    preparing.prepare(work_key, token, partial(paint, Block(layer, z, x, y, side, scale, image_format)))


@shared_task(name="resources.paint_static_map", ignore_result=True)
def paint_static_map(  # noqa: PLR0917  # a message's arguments are flat
    work_key: str, token: int, layers: str, zoom: int, x: int, y: int, width: int, height: int, image_format: str
) -> None:
    """Paints one static map. Does not raise when that fails."""
    picture = Picture(tuple(layers.split(",")), zoom, x, y, width, height, image_format)
    preparing.prepare(work_key, token, partial(paint_picture, picture))
