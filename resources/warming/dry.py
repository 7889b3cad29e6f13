"""What a run would do, in words, without doing it."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

from retry import durations
from retry.conf import conf

from . import estimating, ordering
from .estimating import UNKNOWN_SECONDS, in_seconds
from .pieces import Piece, Rule
from .plan import Plan

LOOKED_AT = 20_000
"""So many pieces are looked at, to tell how many of them are fresh."""

TOGETHER = 200


def lines(plan: Plan, rule: Rule) -> Iterator[str]:
    """Whole areas by layer and zoom; then what of it is to be done. Raises StoreUnavailable."""
    if plan.popular is None and plan.tiles:
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
    seen: set[str] = set()
    looked = islice(pieces, LOOKED_AT)
    while batch := list(islice(looked, TOGETHER)):
        new = [piece for piece in batch if piece.work.key not in seen]
        seen.update(piece.work.key for piece in new)
        _count(new, rule, counts, kinds)
    seconds = _seconds(kinds)
    more = next(pieces, None) is not None
    yield (
        f"To be done: {counts['lacking']:,} of {counts['lacking'] + counts['fresh']:,} pieces of work "
        f"({counts['tiles']:,} tiles), about {in_seconds(seconds / conf().RETRY_LANES['paint.warm']['workers'])}."
        f"{' There are more: only the first were looked at.' if more else ''}"
    )


def _count(batch: list[Piece], rule: Rule, counts: Counter[str], kinds: Counter[str]) -> None:
    found = iter(ordering.look([wanted.content_key for piece in batch for wanted in piece.wanted]))
    now = datetime.now(UTC)
    for piece in batch:
        if rule.lacking(piece, list(islice(found, len(piece.wanted))), now):
            counts["lacking"] += 1
            counts["tiles"] += len(piece.wanted)
            kinds[piece.work.kind] += 1
        else:
            counts["fresh"] += 1


def _seconds(kinds: Counter[str]) -> float:
    known = durations.recorded(kinds)
    return sum(number * known.get(kind, UNKNOWN_SECONDS) for kind, number in kinds.items())
