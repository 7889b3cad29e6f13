"""What beat has done now and then: hands the most worthwhile popular content over to the slowest lanes, and goes."""

from collections.abc import Iterable
from datetime import UTC, datetime

from resources import locks
from retry import claims, durations, serving
from retry.conf import conf
from retry.deciding import Serve

from .estimating import UNKNOWN_SECONDS
from .ordering import look
from .pieces import Piece, Rule, Wanted
from .plan import Plan


def hand_over(most: int, seconds: float) -> int:
    """How many pieces: of the most popular contents those that are worth most, and not fresh. Raises StoreUnavailable.

    As many as their lane's workers can do in the time; none while the lane still has some.
    """
    plan = Plan(popular=most, others=True, horizon_seconds=seconds)
    found = [(piece, lacking[0]) for piece in plan.pieces() if (lacking := _lacking(piece))]
    known = durations.recorded({piece.work.kind for piece, _ in found})
    left = _room({piece.work.lane for piece, _ in found}, seconds)
    handed = 0
    for piece, wanted in found:
        left[piece.work.lane] -= known.get(piece.work.kind, UNKNOWN_SECONDS)
        if left[piece.work.lane] >= 0:
            handed += _hand_over(piece, wanted)
    return handed


def _lacking(piece: Piece) -> list[Wanted]:
    return Rule().lacking(piece, look([wanted.content_key for wanted in piece.wanted]), datetime.now(UTC))


def _room(lanes: Iterable[str], seconds: float) -> dict[str, float]:
    """The seconds of work that each lane takes on."""
    with locks.state() as client:
        return {
            lane: 0.0 if client.zcard(claims.queued_name(lane)) else seconds * conf().RETRY_LANES[lane]["workers"]
            for lane in lanes
        }


def _hand_over(piece: Piece, wanted: Wanted) -> bool:
    answer = serving.find_answer(wanted.content_key, piece.work, wanted.version)
    return not (isinstance(answer, Serve) and not answer.stale)
