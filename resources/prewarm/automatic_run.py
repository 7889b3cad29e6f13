"""An automatic run: hands the most worthwhile popular content over to the slowest lanes, and does not wait for it.

First popular content by its benefit, then the blocks around popular ones; only content that enough requests are
expected for. A budget bounds the seconds of work, and nothing is begun in a family of lanes in which any work waits:
clients and refreshes go first. A later look settles the run: which of its pieces are prepared, and their time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Self, cast

from django.conf import settings

from retry import claims, deferral, stores
from retry.conf import conf
from retry.contents import Content
from retry.decision import Decision, Defer, Serve

from ..tiles import layers
from ..tiles.models import Layer
from . import plan, run_records
from .models import PrewarmRecord
from .pieces import (
    LEAST_REQUESTS,
    SLOWEST_LANES,
    UNKNOWN_WORK_SECONDS,
    Piece,
    PrewarmRule,
    WantedContent,
    is_worth_its_work,
    lane_family,
)
from .run_records import PieceInHand
from .tile_pieces import popular_pieces, surrounding_pieces

MAX_FETCHED_PIECES = 20
"""The most requests to tile servers of the operator's own in a run, all for content with POPULAR_REQUESTS or more."""

MAX_PIECES_BEGUN = 300
SURROUNDINGS_DIVISOR = 4
"""The most pieces around popular ones, as a part of the popular contents that are looked at."""

FULL_CACHE_SHARE = 0.8
"""In a fuller cache nothing is prepared without a request: it would displace content that was requested."""

PIECES_PER_NOTE = 50
"""The pieces that are noted in the record before any of them is begun."""

BEGUN_WORD = "begun"


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The most popular contents of each kind that are looked at, the seconds of work, and those until the next run."""

    popular: int
    budget_seconds: float
    interval_seconds: float


def start_run(limits: RunLimits, now: datetime) -> PrewarmRecord | None:
    """Hands popular content over, and stores the record, also of a run that fails midway. None if none is popular.

    Raises StoreUnavailable, LayerError and DatabaseError.
    """
    run = AutomaticRun(limits, _find_busy_families(), now)
    try:
        if "paint" not in run.busy:  # else there is hardly anything left to do
            _offer_popular(run, limits.popular)
    finally:
        record = run.store()
    return record


def _offer_popular(run: "AutomaticRun", most: int) -> None:
    """Offers popular content, then what lies around it. A nearly full cache gets only that with POPULAR_REQUESTS."""
    has_room = _cache_has_room()
    found = _find_popular(most, LEAST_REQUESTS if has_room else conf().POPULAR_REQUESTS)
    run.offer(found)
    if run.has_room and has_room:
        run.offer(surrounding_pieces(found, most // SURROUNDINGS_DIVISOR))


@dataclass(frozen=True, slots=True)
class PieceOffer:
    """A piece to begin, the first of its contents that it lacks, its note in the record, and its cost."""

    piece: Piece
    lacking: WantedContent
    note: PieceInHand
    cost_seconds: float

    @classmethod
    def make(cls, piece: Piece, lacking: WantedContent, content: Content | None, cost_seconds: float) -> Self:
        """Makes an offer; `content` is the cached one that is not fresh."""
        keys = [lacking.content_key, *(each.content_key for each in piece.wanted if each != lacking)]
        stored_before = content.stored_at.timestamp() if content else 0.0
        return cls(piece, lacking, PieceInHand(piece.work.key, keys, stored_before), cost_seconds)


class AutomaticRun:
    """The pieces begun so far, within the limits."""

    def __init__(self, limits: RunLimits, busy: set[str], now: datetime) -> None:
        self.busy = busy
        self.record = PrewarmRecord(began_at=now, budget_seconds=limits.budget_seconds, busy=", ".join(sorted(busy)))
        self._limits, self._now, self._left_seconds = limits, now, limits.budget_seconds
        self._begun: list[PieceInHand] = []

    @property
    def has_room(self) -> bool:
        return self._left_seconds > 0 and len(self._begun) < MAX_PIECES_BEGUN

    def offer(self, found: Sequence[Piece]) -> None:
        """Hands over the pieces that are worth it, the most worthwhile first, as far as the budget goes.

        The pieces are in the record before they are begun: whatever ends this process, they are settled.
        """
        offers = self._choose(found)
        for start in range(0, len(offers), PIECES_PER_NOTE):
            if next_ones := [each for each in offers[start : start + PIECES_PER_NOTE] if self._may_begin(each)]:
                self._write([*self._begun, *(each.note for each in next_ones)])
                for each in next_ones:
                    self._begin(each)

    def store(self) -> PrewarmRecord | None:
        """Stores the record with the pieces that were begun; None if there is nothing to tell. Raises DatabaseError."""
        record, begun = self.record, self._begun
        if not (record.considered or "paint" in self.busy):
            return None
        record.handed = len(begun)
        record.settled_at = None if begun else self._now
        self._write(begun)
        return record

    def _choose(self, found: Sequence[Piece]) -> list[PieceOffer]:
        """Returns the pieces that are not fresh and worth their work, the most worthwhile first. Counts all of them."""
        known = plan.look_up_pieces(found)
        seconds = claims.load_durations({piece.work.kind for piece in found})
        lacking = {piece.work.key: wanted for piece in found if (wanted := _list_lacking(piece, known, self._now))}
        worthy = [piece for piece in found if _is_worthy(piece, lacking.get(piece.work.key), known, self._now)]
        self.record.considered += len(found)
        self.record.fresh += len(found) - len(lacking)
        self.record.rare += len(lacking) - len(worthy)
        offers = []
        for piece in plan.order_by_benefit(worthy, known, seconds, self._limits.interval_seconds):
            first = lacking[piece.work.key][0]
            cost = seconds.get(piece.work.kind, UNKNOWN_WORK_SECONDS)
            offers.append(PieceOffer.make(piece, first, known[first.content_key], cost))
        return offers

    def _may_begin(self, offer: PieceOffer) -> bool:
        is_free = lane_family(offer.piece.work.lane) not in self.busy
        return is_free and self.has_room and offer.cost_seconds <= self._left_seconds

    def _begin(self, offer: PieceOffer) -> None:
        if not self._may_begin(offer):
            return
        answer = deferral.find_answer(offer.lacking.content_key, offer.piece.work, offer.lacking.version)
        if _is_begun(answer):  # else it is in work already, or failed a moment ago
            self._begun.append(offer.note)
            self._left_seconds -= offer.cost_seconds

    def _write(self, in_hand: Sequence[PieceInHand]) -> None:
        record = self.record
        record.left = record.considered - record.fresh - record.rare - len(self._begun)
        record.in_hand = [astuple(each) for each in in_hand]
        run_records.write_start(record)


def _find_popular(most: int, least: float) -> list[Piece]:
    """Returns the popular pieces of all kinds, of content with `least` requests or more.

    Leaves out tiles of other people's servers: many forbid requests in advance.
    """
    slugs = _list_layers()
    tiles = popular_pieces(most, plan.PrewarmPlan(slugs, popular=most).coverages, least) if slugs else []
    painted = [piece for piece in tiles if lane_family(piece.work.lane) == "paint"]
    fetched = [piece for piece in tiles if lane_family(piece.work.lane) == "fetch"]
    popular = [piece for piece in fetched if piece.requests >= conf().POPULAR_REQUESTS]
    popular.sort(key=lambda piece: -piece.requests)
    return [*painted, *popular[:MAX_FETCHED_PIECES], *plan.find_popular_others(most, settings.PREWARM, least)]


def _list_layers() -> tuple[str, ...]:
    """Returns the layers that are painted, or come from a server of the operator's own."""
    known = layers.layers_snapshot()
    own = set(Layer.objects.with_own_server().values_list("slug", flat=True))
    return tuple(each.slug for each in known if each.upstream is None or each.slug in own)


def _list_lacking(piece: Piece, known: Mapping[str, Content | None], now: datetime) -> list[WantedContent]:
    """Returns the piece's contents that are absent or not fresh."""
    return PrewarmRule().lacking(piece, [known[each.content_key] for each in piece.wanted], now)


def _is_worthy(
    piece: Piece, lacking: Sequence[WantedContent] | None, known: Mapping[str, Content | None], now: datetime
) -> bool:
    contents = [known[each.content_key] for each in lacking or ()]
    return is_worth_its_work(piece, contents, now, conf().POPULARITY_HALF_LIFE_SECONDS)


def _is_begun(answer: Decision) -> bool:
    """Tells whether the answer has begun the work, for absent or for stale content."""
    return isinstance(answer, Defer | Serve) and answer.why == BEGUN_WORD


def _find_busy_families() -> set[str]:
    """Returns the families of lanes in any of which work waits. Raises StoreUnavailable."""
    families = {name: family for name in conf().RETRY_LANES if (family := lane_family(name)) in SLOWEST_LANES}
    return {families[name] for name, waiting in claims.count_queued(list(families)).items() if waiting}


def _cache_has_room() -> bool:
    """Tells whether the cache evicts nothing soon. Raises StoreUnavailable."""
    with stores.translate_errors("cache"):
        memory = cast("dict[str, int]", stores.patient_client("cache").info("memory"))
    return not memory["maxmemory"] or memory["used_memory"] < FULL_CACHE_SHARE * memory["maxmemory"]
