"""The classes of traffic: speed relative to free flow, and what they are called. PURE."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Class: TypeAlias = int

GREY, GREEN, YELLOW, RED, DARK_RED = 1, 2, 3, 4, 5
"""Index colours in the order of drawing: the worst is on top. 0 is transparent."""

FILL, OUTLINE = 1, 2
"""Index colours of areas."""

THRESHOLDS = (0.8, 0.5, 0.25)
"""At or above the first share of the free-flow speed traffic is green, then yellow, then red."""


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """One class of the classic traffic map."""

    index: Class
    name: str
    label: str
    colour: str


TRAFFIC = (
    TrafficClass(GREEN, "green", "Free flow", "#2da44e"),
    TrafficClass(YELLOW, "yellow", "Slow", "#f2b01e"),
    TrafficClass(RED, "red", "Heavy", "#e0352b"),
    TrafficClass(DARK_RED, "dark_red", "Standing", "#8b1015"),
    TrafficClass(GREY, "grey", "No data", "#8c939b"),
)


def classify(
    speed: NDArray[np.float32], free_flow: NDArray[np.float32], thresholds: tuple[float, float, float] = THRESHOLDS
) -> NDArray[np.uint8]:
    """The class of each segment; NaN in either speed is no data. Does not judge implausible speeds."""
    green, yellow, red = thresholds
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.divide(speed, free_flow, dtype=np.float64)
    conditions = [np.isnan(ratio), ratio >= green, ratio >= yellow, ratio >= red]
    return np.select(conditions, [GREY, GREEN, YELLOW, RED], default=DARK_RED).astype(np.uint8)
