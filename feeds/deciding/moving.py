"""When a feed's address is changed to where it redirects. PURE.

Only permanent redirects count (301, 308), and only after they were seen several times over days, each time with the
same feed behind them: a hotel's login page or a server that is being set up redirects permanently, too.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from . import words
from .standing import Rules, Sighting


@dataclass(frozen=True, slots=True)
class Moving:
    """What is remembered of a redirect, and whether its address is to be the feed's from now on. `why` may be empty."""

    sighting: Sighting | None = None
    adopts: bool = False
    why: str = ""


def watch(
    before: Sighting | None, moved_to: str | None, now: datetime, rules: Rules, refused: Collection[str] = ()
) -> Moving:
    """What follows from an answer with the same feed as ever. Its address is in `refused` if people have undone it.

    `moved_to` is where permanent redirects alone have led, as of `Head.moved_to`; None ends what was remembered.
    """
    if moved_to is None or moved_to in refused:
        return Moving()
    seen = _seen(before, moved_to, now, rules)
    if seen.times >= rules.sightings and now - seen.first_at >= rules.moving:
        since = words.moment(seen.first_at)
        why = f"It has moved for good to {moved_to}, as was seen {words.times(seen.times)} since {since}."
        return Moving(None, adopts=True, why=why)
    wanted = f"{words.times(rules.sightings)} over {words.span(rules.moving)}"
    why = f"It redirects for good to {moved_to}, seen {words.times(seen.times)}: adopted when seen {wanted}."
    return Moving(seen, why=why)


def _seen(before: Sighting | None, url: str, now: datetime, rules: Rules) -> Sighting:
    if before is None or before.url != url:
        return Sighting(url, now, now)
    if now - before.last_at < rules.apart:
        return before
    return replace(before, last_at=now, times=before.times + 1)
