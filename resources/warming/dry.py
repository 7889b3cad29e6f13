"""What a run would do, in words, without doing it."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

from retry import durations
from retry.conf import conf

from . import estimating, ordering
from .costing import costs
from .estimating import UNKNOWN_SECONDS, in_bytes, in_seconds
from .pieces import Piece, Rule
from .plan import Plan
from .tiles import Variant

LOOKED_AT = 20_000
"""So many pieces are looked at, to tell how many of them are fresh."""

TOGETHER = 200


def lines(plan: Plan, rule: Rule) -> Iterator[str]:
    """Whole areas by layer and zoom; then what of it is to be done. Raises StoreUnavailable."""
    if plan.has_area:
        found = list(plan.estimates())
        for layer, zoom, estimate in found:
            yield f"{layer.slug}, zoom {zoom}: {estimating.describe(estimate)}"
        whole = estimating.total(estimate for _, _, estimate in found)
        yield f"All of it: {estimating.describe(whole)}, if nothing were fresh."
    yield from _to_do(plan, rule)


def _to_do(plan: Plan, rule: Rule) -> Iterator[str]:
    pieces = plan.pieces()
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    tiles: Counter[tuple[str, int]] = Counter()
    seen: set[str] = set()
    looked = islice(pieces, LOOKED_AT)
    while batch := list(islice(looked, TOGETHER)):
        new = {piece.work.key: piece for piece in batch if piece.work.key not in seen}
        seen.update(new)
        _count(list(new.values()), rule, counts, kinds, tiles)
    seconds, size = _seconds(kinds), _bytes(plan, tiles)
    more = next(pieces, None) is not None
    yield (
        f"To be done: {counts['lacking']:,} of {counts['lacking'] + counts['fresh']:,} pieces of work "
        f"({counts['tiles']:,} tiles), about {in_seconds(seconds / conf().RETRY_LANES['paint.warm']['workers'])}, "
        f"{'size not known' if size is None else f'about {in_bytes(size)} of tiles'}."
        f"{' There are more: only the first were looked at.' if more else ''}"
    )


def _count(
    batch: list[Piece], rule: Rule, counts: Counter[str], kinds: Counter[str], tiles: Counter[tuple[str, int]]
) -> None:
    found = iter(ordering.look([wanted.content_key for piece in batch for wanted in piece.wanted]))
    now = datetime.now(UTC)
    for piece in batch:
        if rule.lacking(piece, list(islice(found, len(piece.wanted))), now):
            counts["lacking"] += 1
            counts["tiles"] += len(piece.wanted)
            kinds[piece.work.kind] += 1
            tiles[piece.group, piece.zoom] += len(piece.wanted)
        else:
            counts["fresh"] += 1


def _seconds(kinds: Counter[str]) -> float:
    known = durations.recorded(kinds)
    return sum(number * known.get(kind, UNKNOWN_SECONDS) for kind, number in kinds.items())


def _bytes(plan: Plan, tiles: Counter[tuple[str, int]]) -> float | None:
    """Of the layers' tiles; None where the size of some is not known."""
    whole = 0.0
    for layer in plan.layers if plan.tiles else ():
        known = costs(layer, (), Variant())
        for zoom in range(layer.min_zoom, layer.max_zoom + 1):
            size = known.bytes_at(zoom)
            if size is None and tiles[layer.slug, zoom]:
                return None
            whole += tiles[layer.slug, zoom] * (size or 0.0)
    return whole
