"""What the zooms of a layer cost and how much of the demand is for them, and what to do about it, in words. PURE."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from . import estimating
from .estimating import Estimate, in_bytes, in_seconds

WORTH_PERCENT = 80.0
"""Zooms are worth preparing as a whole that have so much of the demand …"""

WORTH_SECONDS = 3600.0
"""… and take no longer than this."""

LOW_HIT_PERCENT = 80.0
FEW_REQUESTS = 100
"""Shares of fewer requests say nothing."""


@dataclass(frozen=True, slots=True)
class ZoomCost:
    """One zoom of a layer: what it takes to prepare all of it, its share of the requests (None: nothing is known), and
    of how many requests which share was answered by nginx alone, and which had to wait.
    """

    zoom: int
    estimate: Estimate
    share_percent: float | None
    requests: int
    hit_percent: float | None
    waiting_percent: float | None

    @property
    def seconds(self) -> str:
        return in_seconds(self.estimate.seconds)

    @property
    def size(self) -> str:
        return "?" if self.estimate.size_bytes is None else in_bytes(self.estimate.size_bytes)


def advise(slug: str, zooms: Sequence[ZoomCost]) -> Iterator[str]:
    """Sentences: which of the first zooms to prepare entirely, and what to do with the rest."""
    if not any(each.share_percent for each in zooms):
        yield "Nothing is known yet of what people ask for: prewarm with --zoom prepares whole zooms."
        return
    last = _last_worthwhile(zooms)
    if last is not None:
        first = zooms[: last + 1]
        yield f"{_described(first)}. manage.py prewarm --layer {slug} --zoom {_zooms(first)} prepares all of it."
    rest = zooms[0 if last is None else last + 1 :]
    if rest and sum(each.share_percent or 0 for each in rest) >= 1:
        yield f"{_described(rest)}: prepare only what is popular of it, with --popular."
    for each in zooms:
        if each.requests >= FEW_REQUESTS and (each.hit_percent or 0) < LOW_HIT_PERCENT:
            yield (
                f"At zoom {each.zoom} nginx alone answers {each.hit_percent:.0f} % of {each.requests:,} requests, "
                f"{each.waiting_percent:.0f} % had to wait."
            )


def _last_worthwhile(zooms: Sequence[ZoomCost]) -> int | None:
    """The place of the last of the first zooms that together have most of the demand, at the least cost; None where
    they take too long: then of those that do not, if anybody asks for them.
    """
    found = None
    for place in range(len(zooms)):
        first = zooms[: place + 1]
        if estimating.total(each.estimate for each in first).seconds > WORTH_SECONDS:
            break
        found = place if sum(each.share_percent or 0 for each in first) > 0 else found
        if sum(each.share_percent or 0 for each in first) >= WORTH_PERCENT:
            break
    return found


def _described(zooms: Sequence[ZoomCost]) -> str:
    """`Zoom 0–9 of this layer: 5,461 tiles, 41 MB, 38 s to refresh entirely, 92 % of requests`."""
    whole = estimating.total(each.estimate for each in zooms)
    size = "size not known" if whole.size_bytes is None else in_bytes(whole.size_bytes)
    share = sum(each.share_percent or 0 for each in zooms)
    return (
        f"Zoom {_zooms(zooms).replace('-', '–')} of this layer: {whole.tiles:,} tiles, {size}, "
        f"{in_seconds(whole.seconds)} to refresh entirely, {share:.0f} % of requests"
    )


def _zooms(zooms: Sequence[ZoomCost]) -> str:
    return str(zooms[0].zoom) if len(zooms) == 1 else f"{zooms[0].zoom}-{zooms[-1].zoom}"
