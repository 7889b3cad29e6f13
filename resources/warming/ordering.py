"""What is done first: pieces by their expected benefit, from what is in the cache and what was recorded."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from django.conf import settings
from django.utils.module_loading import import_string

from retry import connections, contents, durations, popularity
from retry.conf import conf
from retry.contents import Content

from . import benefit, pieces
from .benefit import COLD, Candidate, Standing
from .estimating import UNKNOWN_SECONDS
from .pieces import Piece

HORIZON_SECONDS = 3600.0
"""Requests of the next hour are what counts, unless the next run comes sooner."""

TOGETHER = 500
"""So many contents are looked for in one round trip."""

Name = Callable[[str, float], Piece | None]
"""The piece of work for popular content, by the key under which its requests are counted; None for what is gone."""


def look(keys: Sequence[str]) -> list[Content | None]:
    """What the cache has of these contents, without their bodies. Raises StoreUnavailable."""
    found: list[Content | None] = []
    for start in range(0, len(keys), TOGETHER):
        steps = [contents.read(key, with_body=False) for key in keys[start : start + TOGETHER]]
        found += connections.run_together(steps, "cache")
    return found


def by_benefit(found: Sequence[Piece], horizon_seconds: float) -> list[Piece]:
    """Those that are worth anything, the best first. Raises StoreUnavailable.

    A piece stands as the one of its contents that stands worst.
    """
    known = dict(zip(_keys(found), look(list(_keys(found))), strict=True))
    seconds = durations.recorded({piece.work.kind for piece in found})
    candidates = [(piece, _candidate(piece, known, seconds)) for piece in found]
    ordered = benefit.in_order(candidates, conf().POPULARITY_HALF_LIFE_SECONDS, horizon_seconds)
    return [piece for piece, _ in ordered]


def popular_others(most: int) -> list[Piece]:
    """The most popular contents of the kinds that PREWARM names, as pages of feeds. Raises StoreUnavailable."""
    found: list[Piece] = []
    for kind, path in settings.PREWARM.items():
        name: Name = import_string(path)
        named = (name(each.content_key, each.requests) for each in popularity.most_popular(kind, most))
        found += [piece for piece in named if piece is not None]
    return found


def _keys(found: Sequence[Piece]) -> Iterator[str]:
    return (wanted.content_key for piece in found for wanted in piece.wanted)


def _candidate(piece: Piece, known: Mapping[str, Content | None], seconds: Mapping[str, float]) -> Candidate:
    standings = (pieces.standing(known[each.content_key], each.version) for each in piece.wanted)
    worst = min(standings, key=_how_long, default=COLD)
    return Candidate(piece.requests, worst, seconds.get(piece.work.kind, UNKNOWN_SECONDS))


def _how_long(standing: Standing) -> tuple[float, float]:
    return standing.kept_seconds, standing.fresh_seconds
