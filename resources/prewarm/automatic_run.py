"""An automatic run: hands the most worthwhile popular content over to the slowest lanes, and does not wait for it.

First popular content by its benefit, then the blocks around popular ones. A budget bounds the seconds of work, and
nothing is begun in a family of lanes in which any work waits: clients and refreshes go first. A later look settles
the run: which of its pieces are prepared, and the time that they took.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import cast

from django.conf import settings

from retry import claims, deferral, stores
from retry.conf import conf
from retry.contents import Content
from retry.decision import Decision, Defer, Serve

from .. import locks
from ..tiles import layers
from ..tiles.models import Layer
from . import plan
from .models import PrewarmRecord
from .pieces import SLOWEST_LANES, UNKNOWN_WORK_SECONDS, Piece, PrewarmRule, WantedContent, lane_family
from .run_records import PieceInHand
from .tile_pieces import popular_pieces, surrounding_pieces

MAX_FETCHED_PIECES = 20
"""The most requests to tile servers of the operator's own in a run, all for content with POPULAR_REQUESTS or more."""

MAX_PIECES_BEGUN = 300
SURROUNDINGS_DIVISOR = 4
"""The most pieces around popular ones, as a part of the popular contents that are looked at."""

FULL_CACHE_SHARE = 0.8
"""In a fuller cache nothing is prepared without a request: it would displace content that was requested."""

BEGUN_WORD = "begun"


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The most popular contents of each kind that are looked at, the seconds of work, and those until the next run."""

    popular: int
    budget_seconds: float
    interval_seconds: float


def start_run(limits: RunLimits, now: datetime) -> PrewarmRecord | None:
    """Hands popular content over, and stores the record. None if no content is popular.

    Raises StoreUnavailable and DatabaseError.
    """
    run = AutomaticRun(limits, _find_busy_families(), now)
    if "paint" not in run.busy:  # else there is hardly anything left to do
        found = _find_popular(limits.popular)
        run.offer(found)
        if run.has_room and _cache_has_room():
            run.offer(surrounding_pieces(found, limits.popular // SURROUNDINGS_DIVISOR))
        if not run.record.considered:
            return None
    return run.store()


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
        """Hands over the pieces that are not fresh, the most worthwhile first, as far as the budget goes."""
        known = plan.look_up_pieces(found)
        seconds = claims.load_durations({piece.work.kind for piece in found})
        lacking = {piece.work.key: wanted for piece in found if (wanted := _find_lack(piece, known, self._now))}
        self.record.considered += len(found)
        self.record.fresh += len(found) - len(lacking)
        for piece in plan.order_by_benefit(found, known, seconds, self._limits.interval_seconds):
            cost = seconds.get(piece.work.kind, UNKNOWN_WORK_SECONDS)
            if (wanted := lacking.get(piece.work.key)) and self._may_begin(piece, cost):
                self._begin(piece, wanted, known[wanted.content_key], cost)

    def store(self) -> PrewarmRecord:
        """Stores the record. Raises DatabaseError."""
        record, begun = self.record, self._begun
        record.handed, record.left = len(begun), record.considered - record.fresh - len(begun)
        record.in_hand = [astuple(each) for each in begun]
        record.settled_at = None if begun else self._now
        record.save(force_insert=True)
        return record

    def _may_begin(self, piece: Piece, cost: float) -> bool:
        return self.has_room and cost <= self._left_seconds and lane_family(piece.work.lane) not in self.busy

    def _begin(self, piece: Piece, lacking: WantedContent, content: Content | None, cost: float) -> None:
        if not _is_begun(deferral.find_answer(lacking.content_key, piece.work, lacking.version)):
            return  # it is in work already, or failed a moment ago
        keys = [lacking.content_key, *(each.content_key for each in piece.wanted if each != lacking)]
        stored_before = content.stored_at.timestamp() if content else 0.0
        self._begun.append(PieceInHand(piece.work.key, keys, stored_before))
        self._left_seconds -= cost


def _find_popular(most: int) -> list[Piece]:
    """Returns popular pieces of all kinds, without tiles of other people's servers: many forbid requests in advance."""
    slugs = _list_layers()
    tiles = popular_pieces(most, plan.PrewarmPlan(slugs, popular=most).coverages) if slugs else []
    painted = [piece for piece in tiles if lane_family(piece.work.lane) == "paint"]
    fetched = [piece for piece in tiles if lane_family(piece.work.lane) == "fetch"]
    popular = [piece for piece in fetched if piece.requests >= conf().POPULAR_REQUESTS]
    popular.sort(key=lambda piece: -piece.requests)
    return [*painted, *popular[:MAX_FETCHED_PIECES], *plan.find_popular_others(most, settings.PREWARM)]


def _list_layers() -> tuple[str, ...]:
    """Returns the layers that are painted, or come from a server of the operator's own."""
    known = layers.layers_snapshot()
    own = set(Layer.objects.with_own_server().values_list("slug", flat=True))
    return tuple(each.slug for each in known if each.upstream is None or each.slug in own)


def _find_lack(piece: Piece, known: Mapping[str, Content | None], now: datetime) -> WantedContent | None:
    """Returns the first of the piece's contents that is absent or not fresh."""
    return next(iter(PrewarmRule().lacking(piece, [known[each.content_key] for each in piece.wanted], now)), None)


def _is_begun(answer: Decision) -> bool:
    """Tells whether the answer has begun the work, for absent or for stale content."""
    return isinstance(answer, Defer | Serve) and answer.why == BEGUN_WORD


def _find_busy_families() -> set[str]:
    """Returns the families of lanes in any of which work waits. Raises StoreUnavailable."""
    with locks.open_state() as client, client.pipeline(transaction=False) as pipeline:
        families = [(name, family) for name in conf().RETRY_LANES if (family := lane_family(name)) in SLOWEST_LANES]
        for name, _ in families:
            pipeline.zcard(claims.queued_key(name))
        return {family for (_, family), waiting in zip(families, pipeline.execute(), strict=True) if waiting}


def _cache_has_room() -> bool:
    """Tells whether the cache evicts nothing soon. Raises StoreUnavailable."""
    with stores.translate_errors("cache"):
        memory = cast("dict[str, int]", stores.patient_client("cache").info("memory"))
    return not memory["maxmemory"] or memory["used_memory"] < FULL_CACHE_SHARE * memory["maxmemory"]
