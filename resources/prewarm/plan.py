"""The plan of a run: its scope, its pieces in the order of their benefit, its description, its start.

Does not prepare anything itself. The order follows the state of the cache and recorded durations. The starts of
unfinished runs are kept in `state`, so that --continue knows which contents they have prepared.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from itertools import islice

import shapely
from django.conf import settings
from django.utils.module_loading import import_string
from shapely.geometry.base import BaseGeometry

from retry import claims, contents, popularity, stores
from retry.conf import conf
from retry.contents import Content

from .. import locks
from ..humanize import estimate_duration, format_size
from ..tiles import grid, layers
from ..tiles.errors import LayerError, UnknownLayerError
from ..tiles.layers import LayerView
from . import area as prewarm_area
from . import pieces, tile_pieces
from .area import TileCoverage
from .pieces import COLD_STATE, UNKNOWN_WORK_SECONDS, Piece, PieceCandidate, PrewarmRule, WorkEstimate
from .tile_pieces import TileVariant, load_costs

HORIZON_SECONDS = 3600.0
"""The time ahead whose requests count: an hour, unless the next run comes sooner."""

CONTENTS_PER_TRIP = 500
"""The number of contents read in one round trip."""

PieceFinder = Callable[[str, float], Piece | None]
"""Returns the piece of work for popular content, by the key that counts its requests; None if the content is gone."""


def look_up_contents(keys: Sequence[str]) -> list[Content | None]:
    """Returns the cached contents of the keys, without their bodies. Raises StoreUnavailable."""
    found: list[Content | None] = []
    for start in range(0, len(keys), CONTENTS_PER_TRIP):
        steps = [contents.read_content(key, with_body=False) for key in keys[start : start + CONTENTS_PER_TRIP]]
        found += stores.run_together(steps, "cache")
    return found


def look_up_pieces(found: Sequence[Piece]) -> dict[str, Content | None]:
    """Returns the cached contents of the pieces by their keys, without their bodies. Raises StoreUnavailable."""
    keys = [wanted.content_key for piece in found for wanted in piece.wanted]
    return dict(zip(keys, look_up_contents(keys), strict=True))


def order_by_benefit(
    found: Sequence[Piece], known: Mapping[str, Content | None], seconds: Mapping[str, float], horizon_seconds: float
) -> list[Piece]:
    """Returns the pieces of any benefit, the best first. The state of a piece is the worst of its contents' states.

    `known` are the cached contents of the pieces, `seconds` the recorded durations by the kind of work.
    """
    candidates = [(piece, _make_candidate(piece, known, seconds)) for piece in found]
    ordered = pieces.rank_candidates(candidates, conf().POPULARITY_HALF_LIFE_SECONDS, horizon_seconds)
    return [piece for piece, _ in ordered]


def find_popular_others(most: int, kinds: Iterable[str], least: float = 0.0) -> list[Piece]:
    """Returns the most popular contents of kinds in PREWARM, as pages of feeds, with `least` requests or more.

    Raises StoreUnavailable.
    """
    found: list[Piece] = []
    for kind in kinds:
        name: PieceFinder = import_string(settings.PREWARM[kind])
        popular = popularity.most_popular_contents(kind, most, least=least)
        named = (name(each.content_key, each.requests) for each in popular)
        found += [piece for piece in named if piece is not None]
    return found


def _make_candidate(piece: Piece, known: Mapping[str, Content | None], seconds: Mapping[str, float]) -> PieceCandidate:
    standings = (pieces.state_of_content(known[each.content_key], each.version) for each in piece.wanted)
    worst = min(standings, key=lambda state: (state.kept_seconds, state.fresh_seconds), default=COLD_STATE)
    return PieceCandidate(piece.requests, worst, seconds.get(piece.work.kind, UNKNOWN_WORK_SECONDS))


DEFAULT_POPULAR = 1000
"""The number of the most popular contents by default."""

FIRST_POPULAR_TILES = 20_000
"""The number of an area's popular tiles that come first, by their benefit; all others follow by their zoom."""


@dataclass(frozen=True)
class PrewarmPlan:
    """Layers (none: all), their part, the number of popular contents (None: all), and kinds of content beside tiles."""

    slugs: tuple[str, ...] = ()
    zooms: tuple[int, int] = (0, grid.MAX_ZOOM)
    area: BaseGeometry | None = None
    popular: int | None = None
    others: tuple[str, ...] = ()
    tiles: bool = True
    variants: tuple[TileVariant, ...] = (TileVariant(),)
    horizon_seconds: float = HORIZON_SECONDS

    def pieces(self) -> Iterator[Piece]:
        """Yields the popular pieces by their benefit, then the whole area, or the popular pieces without benefit now.

        Raises StoreUnavailable.
        """
        found = tile_pieces.popular_pieces(self.popular or FIRST_POPULAR_TILES, self.coverages) if self.tiles else []
        if self.others:
            found += find_popular_others(self.popular or DEFAULT_POPULAR, self.others)
        seconds = claims.load_durations({piece.work.kind for piece in found})
        first = order_by_benefit(found, look_up_pieces(found), seconds, self.horizon_seconds)
        yield from first
        if self.has_area:
            for slug, each in self.coverages.items():
                yield from tile_pieces.area_pieces(slug, each, self.variants)
            return
        had = {piece.work.key for piece in first}
        yield from (piece for piece in found if piece.work.key not in had)

    @property
    def has_area(self) -> bool:
        """True if all of an area is meant, popular or not."""
        return self.popular is None and self.tiles

    def counted(self) -> tuple[int, Iterator[Piece]]:
        """Returns the number of pieces, and the pieces. Of an area, the popular ones come twice.

        Pieces whose layer is gone when their turn comes are skipped.
        """
        if self.has_area:
            return sum(estimate.works for _, _, estimate in self.estimates()), filter(
                tile_pieces.piece_exists, self.pieces()
            )
        found = list(self.pieces())
        return len(found), filter(tile_pieces.piece_exists, found)

    def estimates(self) -> Iterator[tuple[LayerView, int, WorkEstimate]]:
        """Yields the estimate for the area by layer and zoom, fresh or not. Raises StoreUnavailable."""
        for layer in self.layers:
            covered = self.coverages[layer.slug]
            for variant in self.variants:
                known = load_costs(layer, covered.zooms, variant)
                for zoom in covered.zooms:
                    works = covered.count(zoom, tile_pieces.piece_side(layer, zoom, variant))
                    yield layer, zoom, WorkEstimate.of(zoom, covered.count(zoom), works, known)

    @cached_property
    def layers(self) -> list[LayerView]:
        """Returns the layers of the plan. Raises UnknownLayerError."""
        if not self.slugs:
            return layers.layers_snapshot()
        found = {slug: layers.layer_snapshot(slug) for slug in self.slugs}
        if missing := [slug for slug, layer in found.items() if layer is None]:
            raise UnknownLayerError(f"There is no layer {', '.join(missing)} that is enabled and has data.")
        return [layer for layer in found.values() if layer]

    @cached_property
    def coverages(self) -> dict[str, TileCoverage]:
        """Returns the coverage by layer. Raises LayerError if no layer has any of the zooms."""
        found = {layer.slug: self._coverage(layer) for layer in self.layers}
        if found and not any(each.zooms for each in found.values()):
            raise LayerError(f"No layer that is meant has the zooms {self.zooms[0]} to {self.zooms[1]}.")
        return found

    def _coverage(self, layer: LayerView) -> TileCoverage:
        bounds = prewarm_area.area_of_bounds(layer.bounds)
        area = bounds if self.area is None else shapely.intersection(bounds, self.area)
        zooms = range(max(layer.min_zoom, self.zooms[0]), min(layer.max_zoom, self.zooms[1]) + 1)
        return TileCoverage(area, zooms, layer.padding)


MAX_DESCRIBED_PIECES = 20_000
"""The number of pieces looked at, to tell how many of them are fresh."""

PIECES_PER_LOOK = 200


def describe_plan(plan: PrewarmPlan, rule: PrewarmRule) -> Iterator[str]:
    """Yields lines: the whole areas by layer and zoom, then the part that is to be done. Raises StoreUnavailable."""
    if plan.has_area:
        found = list(plan.estimates())
        for layer, zoom, estimate in found:
            yield f"{layer.slug}, zoom {zoom}: {pieces.describe_estimate(estimate)}"
        whole = pieces.sum_estimates(estimate for _, _, estimate in found)
        yield f"All of it: {pieces.describe_estimate(whole)}, if nothing were fresh."
    yield from _describe_pieces(plan, rule)


def _describe_pieces(plan: PrewarmPlan, rule: PrewarmRule) -> Iterator[str]:
    pieces = plan.pieces()
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    tiles: Counter[tuple[str, int]] = Counter()
    seen: set[str] = set()
    looked = islice(pieces, MAX_DESCRIBED_PIECES)
    while batch := list(islice(looked, PIECES_PER_LOOK)):
        new = {piece.work.key: piece for piece in batch if piece.work.key not in seen}
        seen.update(new)
        _count_pieces(list(new.values()), rule, counts, kinds, tiles)
    seconds = _total_seconds(kinds) / conf().lane_workers("paint.warm")
    size = _total_bytes(plan, tiles)
    more = next(pieces, None) is not None
    yield (
        f"To be done: {counts['lacking']:,} of {counts['lacking'] + counts['fresh']:,} pieces of work "
        f"({counts['tiles']:,} tiles), about {estimate_duration(seconds)}, "
        f"{'size not known' if size is None else f'about {format_size(size)} of tiles'}."
        f"{' There are more: only the first were looked at.' if more else ''}"
    )


def _count_pieces(
    batch: list[Piece], rule: PrewarmRule, counts: Counter[str], kinds: Counter[str], tiles: Counter[tuple[str, int]]
) -> None:
    found = iter(look_up_contents([wanted.content_key for piece in batch for wanted in piece.wanted]))
    now = datetime.now(UTC)
    for piece in batch:
        if rule.lacking(piece, list(islice(found, len(piece.wanted))), now):
            counts["lacking"] += 1
            counts["tiles"] += len(piece.wanted)
            kinds[piece.work.kind] += 1
            tiles[piece.group, piece.zoom] += len(piece.wanted)
        else:
            counts["fresh"] += 1


def _total_seconds(kinds: Counter[str]) -> float:
    known = claims.load_durations(kinds)
    return sum(number * known.get(kind, UNKNOWN_WORK_SECONDS) for kind, number in kinds.items())


def _total_bytes(plan: PrewarmPlan, tiles: Counter[tuple[str, int]]) -> float | None:
    """Returns the bytes of the layers' tiles; None if the size of some is not known."""
    whole = 0.0
    for layer in plan.layers if plan.tiles else ():
        known = load_costs(layer, (), TileVariant())
        for zoom in range(layer.min_zoom, layer.max_zoom + 1):
            size = pieces.nearest_value(known.tile_bytes, zoom)
            if size is None and tiles[layer.slug, zoom]:
                return None
            whole += tiles[layer.slug, zoom] * (size or 0.0)
    return whole


RUN_NOTE_SECONDS = 14 * 86_400


def name_run(asked: object) -> str:
    """Returns the name shared by all runs with the same options (values of JSON)."""
    return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def find_run_start(name: str) -> datetime | None:
    """Returns the start of the interrupted run; None if there is none. Raises StoreUnavailable."""
    with locks.open_state() as client:
        found = client.get(_run_note_key(name))
    return datetime.fromtimestamp(float(found), UTC) if found else None


def note_run_start(name: str, now: datetime) -> None:
    """Notes the start of a run. Raises StoreUnavailable."""
    with locks.open_state() as client:
        client.set(_run_note_key(name), now.timestamp(), ex=RUN_NOTE_SECONDS)


def forget_run(name: str) -> None:
    """Removes the note: nothing is left to continue. Raises StoreUnavailable."""
    with locks.open_state() as client:
        client.delete(_run_note_key(name))


def _run_note_key(name: str) -> str:
    return f"tiles:warming:{name}"
