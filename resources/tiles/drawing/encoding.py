"""Index-colour canvases as image files, antialiased without loss of colour or alpha. PURE.

A supersampled block of 2×2 index colours is one of few combinations (126 of five colours and
nothing), so that all blended colours fit a palette: nothing is quantised, and equal pixels of
neighbouring tiles are equal in their files.
"""

import io
import zlib
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..styling.rgba import RGBA
from ..window import SUPERSAMPLING

SAMPLES = SUPERSAMPLING**2
MAX_COLOURS = 6
"""Six colours and nothing make 210 combinations of four; seven would not fit a palette."""

PNG_COMPRESSION = 5
NOISE_SHARE = 0.65
"""When more pixels than this differ from the one before, run lengths compress as well, four times as fast."""


def encode(samples: NDArray[np.uint8], palette: tuple[RGBA, ...], image_format: str) -> bytes:
    """A supersampled canvas as a PNG or WebP file of half its width. 0 is nothing, i is palette[i - 1]."""
    return file_of(blended(samples, palette), image_format)


def blended(samples: NDArray[np.uint8], palette: tuple[RGBA, ...]) -> Image.Image:
    """A supersampled canvas as a picture in index colours, of half its width.

    A palette of more than MAX_COLOURS is a ramp: the samples of a block are then all the same.
    """
    codes: NDArray[np.uint8] | NDArray[np.uint16]
    if len(palette) > MAX_COLOURS:
        codes, blends = samples[::2, ::2], np.array([(0, 0, 0, 0), *palette], np.uint8)
    else:
        codes, blends = _codes(samples), _blends(palette)
    used = np.flatnonzero(np.bincount(codes.reshape(-1), minlength=len(blends)))
    places = np.zeros(len(blends), np.uint8)
    places[used] = np.arange(len(used), dtype=np.uint8)
    image = Image.fromarray(places[codes], mode="P")
    image.putpalette(blends[used].tobytes(), rawmode="RGBA")
    return image


def file_of(image: Image.Image, image_format: str) -> bytes:
    """The picture as a file, without loss."""
    buffer = io.BytesIO()
    if image_format == "webp":
        image.convert("RGBA").save(buffer, format="WEBP", lossless=True, quality=20, method=2)
    else:
        image.save(buffer, format="PNG", compress_level=PNG_COMPRESSION, compress_type=_strategy(image))
    return buffer.getvalue()


def _strategy(image: Image.Image) -> int:
    """How zlib looks for what repeats: by runs alone where hardly anything does."""
    pixels = np.asarray(image)
    noise = np.count_nonzero(pixels[:, 1:] != pixels[:, :-1]) if image.mode == "P" else 0
    return zlib.Z_RLE if noise > NOISE_SHARE * pixels.size else zlib.Z_DEFAULT_STRATEGY


def _codes(samples: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """One number per 2×2 block, the same for the same colours in any order."""
    weights = np.array([0, *(5**i for i in range(MAX_COLOURS))], np.uint16)[samples]
    rows = weights[0::2] + weights[1::2]
    codes: NDArray[np.uint16] = rows[:, 0::2] + rows[:, 1::2]
    return codes


@cache
def _blends(palette: tuple[RGBA, ...]) -> NDArray[np.uint8]:
    """The RGBA colour of every code: the mean of its samples, each weighted by its alpha."""
    if len(palette) > MAX_COLOURS:
        raise ValueError(f"At most {MAX_COLOURS} colours.")
    colours = np.array([(0, 0, 0, 0), *palette], np.float64)
    blends = np.zeros((5**MAX_COLOURS, 4), np.uint8)
    for combination in combinations_with_replacement(range(len(colours)), SAMPLES):
        chosen = colours[list(combination)]
        alpha = chosen[:, 3].sum()
        if alpha:
            code = sum(5 ** (colour - 1) for colour in combination if colour)
            blends[code, :3] = np.rint((chosen[:, :3] * chosen[:, 3:]).sum(axis=0) / alpha)
            blends[code, 3] = np.rint(alpha / SAMPLES)
    return blends
