"""Paints a static map: one picture of several scenes. PURE; does not load layers."""

from collections.abc import Sequence

import numpy as np
from PIL import Image

from resources.tiles.drawing import encoding, painting
from resources.tiles.drawing.building import AnyScene
from resources.tiles.window import SUPERSAMPLING, Window

from .picture import Picture


def compose(picture: Picture, scenes: Sequence[AnyScene]) -> bytes:
    """The image file: the scenes in their order, transparent where none of them shows anything."""
    image = Image.new("RGBA", (picture.width, picture.height))
    corner_and_size = (side * SUPERSAMPLING for side in (picture.x, picture.y, picture.width, picture.height))
    window = Window(picture.zoom, *corner_and_size)
    for scene in scenes:
        drawn = painting.draw(scene, window, picture.zoom, 1)
        if drawn is not None:
            painted = encoding.blended(np.asarray(drawn), scene.style.palette)
            image.alpha_composite(painted.convert("RGBA"))
    return encoding.file_of(image, picture.format)
