"""Colours as people write them, #rrggbb or #rrggbbaa, and as painters need them. PURE."""

import re
from collections.abc import Mapping
from typing import TypeAlias

from ..errors import LayerError

RGBA: TypeAlias = tuple[int, int, int, int]

_COLOUR = re.compile(r"#[0-9a-fA-F]{6}([0-9a-fA-F]{2})?")


def read_colours(given: object, defaults: Mapping[str, str]) -> dict[str, RGBA]:
    """The colours of a style by name, the defaults where it names none. Raises LayerError."""
    if not isinstance(given, Mapping):
        raise LayerError("“colours” is a JSON object.")
    for name, value in given.items():
        if name not in defaults:
            raise LayerError(f"There is no colour “{name}” here; there are {', '.join(defaults)}.")
        if not isinstance(value, str) or not _COLOUR.fullmatch(value):
            raise LayerError(f"Colour “{name}” is written #rrggbb or #rrggbbaa.")
    return {name: rgba(str(given.get(name, default))) for name, default in defaults.items()}


def rgba(colour: str) -> RGBA:
    red, green, blue, alpha = bytes.fromhex(colour[1:].ljust(8, "f"))
    return red, green, blue, alpha


def hexadecimal(colour: RGBA) -> str:
    """The colour as it is written; without its alpha where that is full."""
    return "#" + bytes(colour if colour[3] < 255 else colour[:3]).hex()
