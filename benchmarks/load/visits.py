"""Two days of requests for tiles as people make them: places with Zipf-like popularity, views that are panned and
zoomed, busy hours and quiet ones. Always the same for the same seed.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

DAY_SECONDS = 86_400
PLACES = 120
ZIPF = 1.0
"""The k-th most popular place is asked for as often as 1 ÷ k of the first."""

VIEW = (5, 4)
"""Tiles that a view is wide and high."""

STEPS = 10
"""Views of a visit, in the mean."""

STEP_SECONDS = 4.0
MIN_ZOOM, FIRST_ZOOMS, MAX_ZOOM = 4, (10, 14), 16


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a tile, at a time in seconds."""

    at: float
    z: int
    x: int
    y: int


def requests(visits_per_day: int, days: int = 2, seed: int = 1) -> list[Asked]:
    """All of them, in the order of their times."""
    luck = random.Random(seed)
    places = list(_places(luck))
    weights = [1 / rank**ZIPF for rank in range(1, len(places) + 1)]
    found: list[Asked] = []
    for begins in sorted(_times(luck, visits_per_day, days)):
        [place] = luck.choices(places, weights)
        found += _visit(luck, begins, place)
    return sorted(found, key=lambda each: each.at)


def _places(luck: random.Random) -> Iterator[tuple[float, float]]:
    """In unit mercator: towns, some of them close together, as on one continent."""
    regions = [(luck.uniform(0.45, 0.6), luck.uniform(0.3, 0.4)) for _ in range(40)]
    for _ in range(PLACES):
        u, v = luck.choice(regions)
        yield u + luck.gauss(0, 0.004), v + luck.gauss(0, 0.004)


def _times(luck: random.Random, visits_per_day: int, days: int) -> Iterator[float]:
    """More by day than by night."""
    for _ in range(visits_per_day * days):
        while True:
            at = luck.uniform(0, days * DAY_SECONDS)
            if luck.random() < 0.55 - 0.45 * math.cos(2 * math.pi * at / DAY_SECONDS):
                break
        yield at


def _visit(luck: random.Random, at: float, place: tuple[float, float]) -> Iterator[Asked]:
    u, v = place
    zoom = luck.randint(*FIRST_ZOOMS)
    for _ in range(1 + int(luck.expovariate(1 / (STEPS - 1)))):
        yield from _view(at, zoom, u, v)
        at += luck.expovariate(1 / STEP_SECONDS)
        move = luck.random()
        if move < 0.35:
            zoom = min(MAX_ZOOM, zoom + 1)
        elif move < 0.5:
            zoom = max(MIN_ZOOM, zoom - 1)
        else:
            u += luck.choice((-2, -1, 1, 2)) / 2**zoom
            v += luck.choice((-1, 0, 1)) / 2**zoom


def _view(at: float, zoom: int, u: float, v: float) -> Iterator[Asked]:
    tiles, (wide, high) = 2**zoom, VIEW
    left, top = int(u * tiles) - wide // 2, int(v * tiles) - high // 2
    for x in range(left, left + wide):
        for y in range(max(0, top), min(tiles, top + high)):
            yield Asked(at, zoom, x % tiles, y)
