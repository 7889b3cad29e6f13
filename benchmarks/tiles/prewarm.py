"""Requests that meet a missing tile: without pre-warming, by zoom order, and by expected benefit.

A day of requests is replayed against the rules of the protocol, in simulated time: a prepared tile is fresh, then
stale, then gone, and a request for one that is not fresh has its metatile prepared. Pre-warming may take the same
painting time each way. It knows the popularity of the day before, and of the past part of this day.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from resources.prewarm import pieces
from resources.prewarm.pieces import COLD_STATE, CacheState, PieceCandidate
from retry import popularity

from ..figures import Figure, Note
from ..load.visits import DAY_SECONDS, MAX_ZOOM, Asked, requests

VISITS_PER_DAY = 1000
FRESH_SECONDS, KEPT_SECONDS = 300.0, 3600.0
HALF_LIFE_SECONDS = 21_600.0
ROUND_SECONDS = 600.0
BUDGET_SHARE = 0.4
"""The share of one worker's time for pre-warming."""

KNOWN = 20_000
"""The number of the most popular metatiles that pre-warming knows."""

SIDE = 8
SECONDS = {8: 64 / 109, 10: 64 / 183, 13: 64 / 136}
"""Seconds of a metatile by zoom, from the benchmark `painting`; other zooms take those of the nearest one."""

AREA = (0.44, 0.29, 0.61, 0.41)
"""In unit mercator."""

Metatile = tuple[int, int, int]


def measure() -> Iterator[Figure | Note]:
    """Share of requests that meet nothing, of the second day."""
    asked = [(each.at, metatile_of(each)) for each in requests(VISITS_PER_DAY)]
    of_the_day = sum(at >= DAY_SECONDS for at, _ in asked)
    yield Note(
        f"{of_the_day:,} requests a day, for {len({metatile for _, metatile in asked}):,} metatiles of {SIDE} × {SIDE}"
    )
    shares = {name: replay(asked, name) for name in ("nothing", "zoom", "popular", "benefit")}
    yield Figure("cold requests without pre-warming", 100 * shares["nothing"], "%")
    yield Figure("with pre-warming by zoom order, at the same painting time", 100 * shares["zoom"], "%")
    yield Figure("with the most popular first", 100 * shares["popular"], "%")
    yield Figure("by expected benefit", 100 * shares["benefit"], "%")
    yield Figure("by zoom order ÷ by benefit", shares["zoom"] / shares["benefit"], at_least=2.0)
    yield Figure("without ÷ by benefit", shares["nothing"] / shares["benefit"])


def metatile_of(asked: Asked) -> Metatile:
    side = min(SIDE, 1 << asked.z)
    return asked.z, asked.x // side, asked.y // side


def seconds_of(metatile: Metatile) -> float:
    return SECONDS[min(SECONDS, key=lambda zoom: abs(zoom - metatile[0]))]


def zoom_order() -> Iterator[Metatile]:
    """All metatiles of the area that contain places, from the smallest zoom."""
    west, north, east, south = AREA
    for zoom in range(MAX_ZOOM + 1):
        metatiles = max(1, 2**zoom // SIDE)
        for y in range(int(north * metatiles), int(south * metatiles) + 1):
            for x in range(int(west * metatiles), int(east * metatiles) + 1):
                yield zoom, x, y


def replay(asked: list[tuple[float, Metatile]], order: str) -> float:
    """The share of the second day's requests that meet nothing."""
    site, cold, number, next_round = _Site(), 0, 0, float(DAY_SECONDS)
    for at, metatile in asked:
        while at >= next_round:
            site.prewarm(order, next_round)
            next_round += ROUND_SECONDS
        is_cold = site.ask(metatile, at)
        if at >= DAY_SECONDS:
            number, cold = number + 1, cold + is_cold
    return cold / number


@dataclass
class _Site:
    """The contents of the cache, by the time of their preparation and their number of requests."""

    prepared: dict[Metatile, float] = field(default_factory=dict)
    cold_since: dict[Metatile, float] = field(default_factory=dict)
    scores: dict[Metatile, float] = field(default_factory=lambda: defaultdict(float))

    def ask(self, metatile: Metatile, at: float) -> bool:
        """Tells whether it is missing. A stale one is prepared; a request before its end waits too."""
        self.scores[metatile] += 1 / popularity.decay_weight(at, HALF_LIFE_SECONDS)
        age = at - self.prepared.get(metatile, -KEPT_SECONDS)
        if age < 0:
            return at >= self.cold_since.get(metatile, at + 1)
        if age >= FRESH_SECONDS:
            self.prepared[metatile] = at + seconds_of(metatile)
            if age >= KEPT_SECONDS:
                self.cold_since[metatile] = at
                return True
            self.prepared[metatile] = at  # it is served meanwhile
        return False

    def prewarm(self, order: str, now: float) -> None:
        """Prepares the metatiles that one round can paint. Each counts as prepared at the beginning of the round."""
        left = BUDGET_SHARE * ROUND_SECONDS
        for metatile in self._ordered(order, now):
            left -= seconds_of(metatile)
            if left < 0:
                return
            self.prepared[metatile] = now

    def _ordered(self, order: str, now: float) -> Iterator[Metatile]:
        match order:
            case "zoom":
                return (metatile for metatile in zoom_order() if not self._standing(metatile, now).kept_seconds)
            case "popular":
                known = self._most_popular()
                return (metatile for metatile in known if not self._standing(metatile, now).kept_seconds)
            case "benefit":
                return (metatile for metatile, _ in self._by_benefit(now))
            case _:
                return iter(())

    def _by_benefit(self, now: float) -> list[tuple[Metatile, float]]:
        weight = popularity.decay_weight(now, HALF_LIFE_SECONDS)
        candidates = (
            (metatile, PieceCandidate(self.scores[metatile] * weight, cache_state, seconds_of(metatile)))
            for metatile in self._most_popular()
            if (cache_state := self._standing(metatile, now)).fresh_seconds <= 0
        )
        return pieces.rank_candidates(candidates, HALF_LIFE_SECONDS, ROUND_SECONDS)

    def _most_popular(self) -> list[Metatile]:
        return sorted(self.scores, key=lambda metatile: -self.scores[metatile])[:KNOWN]

    def _standing(self, metatile: Metatile, now: float) -> CacheState:
        if metatile not in self.prepared:
            return COLD_STATE
        age = now - self.prepared[metatile]
        return CacheState(max(0.0, FRESH_SECONDS - age), math.inf) if age < KEPT_SECONDS else COLD_STATE
