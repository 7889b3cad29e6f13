"""How often a feed is polled while its hub tells of what is new, while that falls silent, and when it tells again."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from feeds.deciding.checking import Circumstances, decide
from feeds.deciding.standing import Standing
from feeds.pushing import trusting
from feeds.pushing.trusting import Look, Record, Score
from tests.feeds.deciding.answers import DAY, HOUR, MINUTE, NOW, read

EVERY = 6 * HOUR
"""Between two publications: the feed is checked every three hours where nobody tells of them."""


@dataclass
class Site:
    """One that looks at the feed when it is told, and when it has decided to. `polls` are the latter."""

    record: Record = field(default_factory=Record)
    score: Score = field(default_factory=Score)
    standing: Standing = field(default_factory=Standing)
    looked_at: datetime = NOW
    next_check_at: datetime = NOW
    polls: list[datetime] = field(default_factory=list)
    delays: dict[datetime, timedelta] = field(default_factory=dict)

    def look(self, at: datetime, published: list[datetime], pushed_at: datetime | None) -> None:
        new = [moment for moment in published if moment not in self.delays]
        self.delays |= {moment: at - moment for moment in new}
        found = trusting.verdict(self.record, Look(at, bool(new), self.looked_at, pushed_at, NOW))
        self.record, self.score = trusting.recorded(self.record, found, at), trusting.scored(self.score, found)
        is_pushed = trusting.is_relied_on(self.record, self.score)
        decision = decide(self.standing, read(), published, Circumstances(at, luck=0.5, is_pushed=is_pushed))
        self.standing, self.next_check_at, self.looked_at = decision.standing, decision.next_check_at, at


@pytest.fixture(scope="module")
def site() -> Site:
    """After thirty days, in the second ten of which the hub was silent."""
    found, published, pushed_at = Site(), list[datetime](), None
    for minute in range(30 * 24 * 60):
        at = NOW + minute * MINUTE
        if (at - NOW) % EVERY == EVERY / 2:
            published.append(at)
        if published and at == published[-1] + MINUTE and not is_silent(at):
            pushed_at = at
            found.look(at, published, pushed_at)
        elif at >= found.next_check_at:
            found.polls.append(at)
            found.look(at, published, pushed_at)
    return found


def is_silent(at: datetime) -> bool:
    return 10 * DAY <= at - NOW < 20 * DAY


def polls(site: Site, first: int, last: int) -> int:
    """How many there were in these days."""
    return sum(first * DAY <= at - NOW < last * DAY for at in site.polls)


def test_it_is_hardly_polled_while_the_hub_tells_of_all(site: Site) -> None:
    assert polls(site, 2, 10) <= 8
    assert polls(site, 23, 30) <= 7


def test_it_is_polled_as_before_within_a_day_of_the_hub_falling_silent(site: Site) -> None:
    assert polls(site, 12, 20) >= 7 * 8


def test_what_is_new_comes_late_for_one_day_at_the_most(site: Site) -> None:
    late = [moment - NOW for moment, delay in site.delays.items() if delay > 3.5 * HOUR]
    assert all(10 * DAY <= each < 11.5 * DAY for each in late)
    assert max(site.delays.values()) <= 1.1 * DAY
