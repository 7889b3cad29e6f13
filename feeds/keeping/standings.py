"""How a feed stands, between its row and the values that are decided with."""

from datetime import datetime, timedelta
from typing import Any

from ..deciding.checking import Circumstances, Decision
from ..deciding.standing import Hints, Rules, Sighting, Standing, State
from ..models import Feed

WEEK = timedelta(days=7)


def standing_of(feed: Feed) -> Standing:
    return Standing(
        state=State(feed.state),
        failures=feed.failures,
        failing_since=feed.failing_since,
        held_up=feed.held_up,
        hints=_hints(feed.hints),
        moving=_sighting(feed.moving),
    )


def circumstances(feed: Feed, now: datetime, luck: float) -> Circumstances:
    """By what rules it is decided. `luck` as there."""
    usual = Rules().usual
    rules = Rules(
        least=feed.least,
        usual=min(max(usual, feed.least), feed.most),
        most=feed.most,
        longest_pause=max(WEEK, feed.most),
    )
    return Circumstances(now, rules, luck, is_pushed=feed.is_pushed, refused_moves=feed.refused_moves)


def fields_of(decision: Decision) -> dict[str, Any]:
    """What a decision makes of the row."""
    after = decision.standing
    return {
        "state": after.state.value,
        "failures": after.failures,
        "failing_since": after.failing_since,
        "held_up": after.held_up,
        "hints": _written_hints(after.hints),
        "moving": _written_sighting(after.moving),
        "next_check_at": decision.next_check_at,
        "reason": decision.reason,
    }


def _hints(held: dict[str, Any]) -> Hints:
    return Hints(
        fresh=_length(held.get("fresh")),
        ttl=_length(held.get("ttl")),
        skip_hours=frozenset(held.get("skip_hours", ())),
        skip_days=frozenset(held.get("skip_days", ())),
    )


def _written_hints(hints: Hints) -> dict[str, Any]:
    lengths = {"fresh": hints.fresh, "ttl": hints.ttl}
    days = {"skip_hours": sorted(hints.skip_hours), "skip_days": sorted(hints.skip_days)}
    found = {name: length.total_seconds() for name, length in lengths.items() if length is not None}
    return {**found, **{name: numbers for name, numbers in days.items() if numbers}}


def _length(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def _sighting(held: dict[str, Any]) -> Sighting | None:
    if not held:
        return None
    first_at, last_at = datetime.fromisoformat(held["first_at"]), datetime.fromisoformat(held["last_at"])
    return Sighting(held["url"], first_at, last_at, held["times"])


def _written_sighting(seen: Sighting | None) -> dict[str, Any]:
    if seen is None:
        return {}
    moments = {"first_at": seen.first_at.isoformat(), "last_at": seen.last_at.isoformat()}
    return {"url": seen.url, "times": seen.times, **moments}
