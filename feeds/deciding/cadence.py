"""How often a feed publishes, and how often it is worth a look. PURE."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from . import words
from .standing import Rules

MOMENTS = 20
"""So many of the last publications count."""
LOOKS = 2
"""For each publication."""
SILENCE_SHARE = 0.1
"""A feed that has been silent for longer than usual is looked at when its silence is so much longer."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The time between two fetches, and why."""

    length: timedelta
    why: str


def interval(published: Iterable[datetime], now: datetime, rules: Rules) -> Interval:
    """What the history of publications suggests, within no bounds.

    `published` is when entries were, or when they were first seen if they do not say. What lies ahead is left out.
    """
    moments = publications(published, now, rules.least)
    if not moments:
        return Interval(rules.usual, f"Nothing tells how often it publishes: checked every {words.span(rules.usual)}.")
    silence = now - moments[0]
    gap = usual_gap(moments)
    by_gap, by_silence = (gap / LOOKS if gap else rules.usual), silence * SILENCE_SHARE
    if by_silence > by_gap:
        return Interval(by_silence, f"Nothing new for {words.span(silence)}: checked every {words.span(by_silence)}.")
    if gap is None:
        return Interval(by_gap, f"It has published once so far: checked every {words.span(by_gap)}.")
    return Interval(by_gap, f"It publishes about every {words.span(gap)}: checked twice as often.")


def publications(published: Iterable[datetime], now: datetime, least: timedelta) -> list[datetime]:
    """The last publications, newest first. Entries that came within `least` of each other came together."""
    found: list[datetime] = []
    for moment in sorted((moment for moment in published if moment <= now), reverse=True):
        if not found or found[-1] - moment >= least:
            found.append(moment)
        if len(found) == MOMENTS:
            break
    return found


def usual_gap(newest_first: list[datetime]) -> timedelta | None:
    """The median of the times between publications; None with fewer than two."""
    gaps = [(after - before).total_seconds() for after, before in pairwise(newest_first)]
    return timedelta(seconds=median(gaps)) if gaps else None
