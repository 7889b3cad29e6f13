"""A piece of pre-warming: the rule for doing it, its benefit, cost and surroundings, advice on the zooms of a layer.

The benefit is the popularity of the contents × the probability that a request meets them cold or stale ÷ the cost.
The model takes requests to come at random (a Poisson process) at the rate of their popularity. The first request
that meets content cold has it prepared for all that follow: one piece spares at most that request, and those that
come while it is prepared. People who look at a block of tiles soon look at those beside it, and one zoom in or out.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import product
from typing import Self, TypeVar

from retry.contents import Content
from retry.work import Work

from ..humanize import estimate_duration, format_size

STALE_WEIGHT = 0.005
"""The weight of a stale answer beside a cold one: it comes at once, and has the content refreshed."""

MIN_COST_SECONDS = 0.001

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class CacheState:
    """The state of content in the cache: fresh for `fresh_seconds` more, 0 or less if stale or absent; served for
    `kept_seconds` more, 0 if absent.
    """

    fresh_seconds: float = 0.0
    kept_seconds: float = 0.0


COLD_STATE = CacheState()


@dataclass(frozen=True, slots=True)
class PieceCandidate:
    """A piece of work: the weighted requests for its contents, their state, and its cost in seconds."""

    requests: float
    cache_state: CacheState
    cost_seconds: float


def request_rate(requests: float, half_life_seconds: float) -> float:
    """Returns requests a second, of content that is requested steadily and has so many weighted requests."""
    return max(0.0, requests) * math.log(2) / half_life_seconds


def cold_probability(
    cache_state: CacheState, requests_per_second: float, horizon_seconds: float, cost_seconds: float
) -> float:
    """Returns the probability that a request before the horizon meets the content cold; stale counts STALE_WEIGHT.

    Between 0 and 1. Without any requests it is 0.
    """
    expected = requests_per_second * horizon_seconds
    if expected <= 0:
        return 0.0
    cold_from = min(max(cache_state.kept_seconds, 0.0), horizon_seconds)
    stale_from = min(max(cache_state.fresh_seconds, 0.0), cold_from)
    cold = _expected_meetings(horizon_seconds - cold_from, requests_per_second, cost_seconds)
    stale = _expected_meetings(cold_from - stale_from, requests_per_second, cost_seconds) * STALE_WEIGHT
    # A request that meets it stale has it refreshed: no later one meets it cold then.
    none_before = math.exp(-requests_per_second * (cold_from - stale_from))
    return min(1.0, (stale + cold * none_before) / expected)


def expected_benefit(candidate: PieceCandidate, half_life_seconds: float, horizon_seconds: float) -> float:
    """Returns the requests spared from meeting the content cold, per second of work. 0 if none is spared."""
    arriving, cost = request_rate(candidate.requests, half_life_seconds), max(candidate.cost_seconds, MIN_COST_SECONDS)
    spared = cold_probability(candidate.cache_state, arriving, horizon_seconds, cost)
    return arriving * horizon_seconds * spared / cost


def rank_candidates(
    candidates: Iterable[tuple[Key, PieceCandidate]], half_life_seconds: float, horizon_seconds: float
) -> list[tuple[Key, float]]:
    """Returns the candidates of any benefit, with it, the best first; equal ones in their given order."""
    found = [(key, expected_benefit(each, half_life_seconds, horizon_seconds)) for key, each in candidates]
    return sorted((each for each in found if each[1] > 0), key=lambda each: -each[1])


def _expected_meetings(seconds: float, requests_per_second: float, cost_seconds: float) -> float:
    """Returns the expected requests of that time that meet the content: the first, and those while it is prepared."""
    return (1 - math.exp(-requests_per_second * seconds)) * (1 + requests_per_second * min(cost_seconds, seconds))


SLOWEST_LANES = {"paint": "paint.warm", "fetch": "fetch.warm"}
"""The slowest lane by the family of a lane, the beginning of its name."""


def lane_family(lane: str) -> str:
    return lane.partition(".")[0]


def take_slowest_lane(work: Work) -> Work:
    """Returns the work for the slowest lane of its family: nobody waits for it."""
    lane = SLOWEST_LANES[lane_family(work.lane)]
    return replace(work, lane=lane, refresh_lane=lane)


@dataclass(frozen=True, slots=True)
class WantedContent:
    """Content that should be in the cache, at this version or a later one, and its address, empty if not known."""

    content_key: str
    address: str
    version: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Work in its slowest lane, all contents that it prepares, and their weighted requests.

    Pieces are counted by `group` and `zoom`: a layer and its zoom, or a kind of content and -1. The contents are
    served for `kept_seconds` after their preparation, fresh and then stale.
    """

    work: Work
    wanted: tuple[WantedContent, ...]
    group: str
    zoom: int = -1
    requests: float = 0.0
    kept_seconds: float = math.inf


@dataclass(frozen=True, slots=True)
class PrewarmRule:
    """The rule for preparing content: by default, if it is absent or not fresh.

    `only_expired` skips absent content. `older_than` adds fresh content stored longer ago. Content stored since
    `done_since` is done, fresh or not: an interrupted run has prepared it.
    """

    only_expired: bool = False
    older_than: timedelta | None = None
    done_since: datetime | None = None

    def lacks(self, content: Content | None, version: int, now: datetime) -> bool:
        """Tells whether the content is to be prepared; `content` is its state in the cache."""
        if content is None:
            return not self.only_expired
        if content.version >= version and self.done_since is not None and content.stored_at >= self.done_since:
            return False
        if not content.is_fresh(version):
            return True
        return self.older_than is not None and now - content.stored_at > self.older_than

    def lacking(self, piece: Piece, contents: Sequence[Content | None], now: datetime) -> list[WantedContent]:
        """Returns the piece's contents that are to be prepared; `contents` are in the piece's order."""
        pairs = zip(piece.wanted, contents, strict=True)
        return [wanted for wanted, content in pairs if self.lacks(content, wanted.version, now)]


def state_of_content(content: Content | None, version: int) -> CacheState:
    """Returns the state of content. The time that stale content stays is unknown: longer than matters here."""
    if content is None:
        return COLD_STATE
    return CacheState(content.fresh_seconds if content.version >= version else 0.0, float("inf"))


LEAST_REQUESTS = 1.1
"""The weighted requests of content that is prepared in advance: more than one, so that requested once is not enough."""

LEAST_EXPECTED_REQUESTS = 0.1
"""The requests that are expected for what a piece prepares, at the least: one for ten pieces of work."""


def is_worth_its_work(piece: Piece, lacking: Iterable[Content | None], now: datetime, half_life_seconds: float) -> bool:
    """Tells whether enough requests are expected of a piece, whose contents `lacking` are absent (None) or not fresh.

    Absent content is worth the requests of all the time for which it is served. Stale content is served as it is:
    anew it is worth those of the time for which it will be fresh.
    """
    used_seconds = (piece.kept_seconds if each is None else _last_freshness(each, now) for each in lacking)
    expected = request_rate(piece.requests, half_life_seconds) * max(used_seconds, default=0.0)
    return expected >= LEAST_EXPECTED_REQUESTS


def _last_freshness(content: Content, now: datetime) -> float:
    """Returns the seconds for which stale content was fresh, at the most: newer data may have ended that."""
    return min(content.given_seconds, max(0.0, (now - content.stored_at).total_seconds()))


UNKNOWN_WORK_SECONDS = 1.0
"""The assumed time of a piece of work of which nothing is known."""


@dataclass(frozen=True, slots=True)
class LayerCosts:
    """The known costs of one layer, by zoom: seconds of a piece of work, mean bytes of a tile."""

    seconds: Mapping[int, float]
    tile_bytes: Mapping[int, float]

    def seconds_at(self, zoom: int) -> float:
        """Returns the seconds at the zoom, else at the nearest known one."""
        known = nearest_value(self.seconds, zoom)
        return UNKNOWN_WORK_SECONDS if known is None else known


@dataclass(frozen=True, slots=True)
class WorkEstimate:
    """The amount of some zooms of a layer; `size_bytes` is None if no size is known."""

    tiles: int = 0
    works: int = 0
    seconds: float = 0.0
    size_bytes: float | None = 0.0

    @classmethod
    def of(cls, zoom: int, tiles: int, works: int, costs: LayerCosts) -> Self:
        known = nearest_value(costs.tile_bytes, zoom)
        return cls(tiles, works, works * costs.seconds_at(zoom), None if known is None else tiles * known)

    def __add__(self, other: Self) -> Self:
        sizes = (
            None if None in (self.size_bytes, other.size_bytes) else (self.size_bytes or 0) + (other.size_bytes or 0)
        )
        return type(self)(self.tiles + other.tiles, self.works + other.works, self.seconds + other.seconds, sizes)


def sum_estimates(estimates: Iterable[WorkEstimate]) -> WorkEstimate:
    return sum(estimates, start=WorkEstimate())


def nearest_value(known: Mapping[int, float], zoom: int) -> float | None:
    """Returns the value of the nearest zoom, of two equally near ones the smaller; None if none is known."""
    return known[min(known, key=lambda each: (abs(each - zoom), each))] if known else None


def describe_estimate(estimate: WorkEstimate, workers: int = 1) -> str:
    """Returns the estimate in words: `5,461 tiles in 100 pieces of work, about 38 s, about 41.0 MB`."""
    size = "size not known" if estimate.size_bytes is None else f"about {format_size(estimate.size_bytes)}"
    tiles = "1 tile" if estimate.tiles == 1 else f"{estimate.tiles:,} tiles"
    works = "1 piece" if estimate.works == 1 else f"{estimate.works:,} pieces"
    return f"{tiles} in {works} of work, about {estimate_duration(estimate.seconds / max(1, workers))}, {size}"


NEIGHBOUR_SHARE = 0.25
"""The requests expected of a block, as a share of those of a block beside it …"""

ZOOM_SHARE = 0.125
"""… and as a share of those of the block that it shows from further away or more closely."""


@dataclass(frozen=True, slots=True)
class NearbyPlace:
    """A tile of a block near another, and the share of that one's requests."""

    z: int
    x: int
    y: int
    share: float


def list_surroundings(z: int, x: int, y: int, side: int) -> Iterator[NearbyPlace]:
    """Yields a tile of each of up to 13 blocks around a block: 8 neighbours, the one further out, 4 further in.

    The block is `side` tiles wide, and (x, y) is its first tile. The map goes on beyond the antimeridian, not beyond
    the poles. Some of the tiles may be of one block, where blocks of the other zoom are larger.
    """
    width = 1 << z
    for step_x, step_y in product((-side, 0, side), repeat=2):
        beside = (x + step_x) % width, y + step_y
        if beside != (x, y) and 0 <= beside[1] < width:
            yield NearbyPlace(z, *beside, NEIGHBOUR_SHARE)
    if z > 0:
        yield NearbyPlace(z - 1, x // 2, y // 2, ZOOM_SHARE)
    for right, down in product((0, side), repeat=2):  # the middle of each quarter, however large its blocks are
        yield NearbyPlace(z + 1, 2 * x + right + side // 2, 2 * y + down + side // 2, ZOOM_SHARE)


WORTHWHILE_PERCENT = 80.0
"""The share of the requests from which zooms are worth preparing entirely …"""

WORTHWHILE_SECONDS = 3600.0
"""… if that takes no longer than this."""

LOW_HIT_PERCENT = 80.0
MIN_ADVISED_REQUESTS = 100
"""The number of requests below which a share says nothing."""


@dataclass(frozen=True, slots=True)
class ZoomCost:
    """One zoom of a layer: the estimate for all of it, and its share of the requests (None: nothing is known).

    Of `requests`, `hit_percent` were answered by nginx alone, and `waiting_percent` had to wait.
    """

    zoom: int
    estimate: WorkEstimate
    share_percent: float | None
    requests: int
    hit_percent: float | None
    waiting_percent: float | None

    @property
    def seconds(self) -> str:
        return estimate_duration(self.estimate.seconds)

    @property
    def size(self) -> str:
        return "?" if self.estimate.size_bytes is None else format_size(self.estimate.size_bytes)


def advise_zooms(slug: str, zooms: Sequence[ZoomCost]) -> Iterator[str]:
    """Yields sentences: the first zooms worth preparing entirely, and advice for the rest."""
    if not any(each.share_percent for each in zooms):
        yield "No requests are known yet. Prepare whole zooms by manage.py prewarm --zoom."
        return
    last = _last_worthwhile(zooms)
    if last is not None:
        first = zooms[: last + 1]
        yield (
            f"{_describe_zooms(first)}. manage.py prewarm --layer {slug} --zoom {_format_zooms(first)} "
            "prepares them all."
        )
    rest = zooms[0 if last is None else last + 1 :]
    if rest and sum(each.share_percent or 0 for each in rest) >= 1:
        yield f"{_describe_zooms(rest)}: prepare only popular tiles, by --popular."
    for each in zooms:
        if each.requests >= MIN_ADVISED_REQUESTS and (each.hit_percent or 0) < LOW_HIT_PERCENT:
            yield (
                f"Zoom {each.zoom}: the hot cache answered {each.hit_percent:.0f} % of {each.requests:,} requests, "
                f"{each.waiting_percent:.0f} % had to wait."
            )


def _last_worthwhile(zooms: Sequence[ZoomCost]) -> int | None:
    """Returns the index of the last zoom worth preparing entirely with all zooms before it; None if there is none.

    It is the first zoom to which they have most of the requests, or the last to which they do not take too long.
    """
    found = None
    for place in range(len(zooms)):
        first = zooms[: place + 1]
        if sum_estimates(each.estimate for each in first).seconds > WORTHWHILE_SECONDS:
            break
        found = place if sum(each.share_percent or 0 for each in first) > 0 else found
        if sum(each.share_percent or 0 for each in first) >= WORTHWHILE_PERCENT:
            break
    return found


def _describe_zooms(zooms: Sequence[ZoomCost]) -> str:
    """Returns `Zoom 0–9 of this layer: 5,461 tiles, 41.0 MB, 38 s to refresh entirely, 92 % of requests`."""
    whole = sum_estimates(each.estimate for each in zooms)
    size = "size not known" if whole.size_bytes is None else format_size(whole.size_bytes)
    share = sum(each.share_percent or 0 for each in zooms)
    return (
        f"Zoom {_format_zooms(zooms).replace('-', '–')} of this layer: {whole.tiles:,} tiles, {size}, "
        f"{estimate_duration(whole.seconds)} to refresh entirely, {share:.0f} % of requests"
    )


def _format_zooms(zooms: Sequence[ZoomCost]) -> str:
    return str(zooms[0].zoom) if len(zooms) == 1 else f"{zooms[0].zoom}-{zooms[-1].zoom}"
