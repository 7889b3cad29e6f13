"""What it is worth to prepare a piece of content before anybody asks: its popularity × the probability that a
request meets it cold or stale ÷ its cost. PURE.

Requests are taken to come at random (a Poisson process) at the rate that their popularity tells. The first that meets
content cold has it prepared for all who follow: so one piece spares at most the first request, and those that
come while it is prepared.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

STALE_WEIGHT = 0.005
"""What a stale answer counts beside a cold one: it comes at once, and has the content refreshed for the next."""

LEAST_SECONDS = 0.001

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Standing:
    """How content stands: `fresh_seconds` are left, 0 and less when it is stale or not there; for `kept_seconds` it
    can be served at all, 0 when it is not there.
    """

    fresh_seconds: float = 0.0
    kept_seconds: float = 0.0


COLD = Standing()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A piece of work: how often what it prepares is asked for (weighted requests), and what it takes, in seconds."""

    requests: float
    standing: Standing
    cost_seconds: float


def rate(requests: float, half_life_seconds: float) -> float:
    """Requests a second of content that is asked for steadily and has so many, by weight."""
    return max(0.0, requests) * math.log(2) / half_life_seconds


def probability(standing: Standing, requests_per_second: float, horizon_seconds: float, cost_seconds: float) -> float:
    """That a request of the time up to the horizon meets the content cold; stale ones count STALE_WEIGHT.

    Between 0 and 1. Without any requests it is 0.
    """
    expected = requests_per_second * horizon_seconds
    if expected <= 0:
        return 0.0
    cold_from = min(max(standing.kept_seconds, 0.0), horizon_seconds)
    stale_from = min(max(standing.fresh_seconds, 0.0), cold_from)
    cold = _met(horizon_seconds - cold_from, requests_per_second, cost_seconds)
    stale = _met(cold_from - stale_from, requests_per_second, cost_seconds) * STALE_WEIGHT
    # Whoever meets it stale has it refreshed: nobody meets it cold then.
    nobody_before = math.exp(-requests_per_second * (cold_from - stale_from))
    return min(1.0, (stale + cold * nobody_before) / expected)


def benefit(candidate: Candidate, half_life_seconds: float, horizon_seconds: float) -> float:
    """Requests spared from meeting it cold, for each second of work. Higher is better; 0 for nothing to be spared."""
    arriving, cost = rate(candidate.requests, half_life_seconds), max(candidate.cost_seconds, LEAST_SECONDS)
    spared = probability(candidate.standing, arriving, horizon_seconds, cost)
    return arriving * horizon_seconds * spared / cost


def in_order(
    candidates: Iterable[tuple[Key, Candidate]], half_life_seconds: float, horizon_seconds: float
) -> list[tuple[Key, float]]:
    """Those that are worth anything, with their benefit, the best first; equal ones in the order in which they came."""
    found = [(key, benefit(each, half_life_seconds, horizon_seconds)) for key, each in candidates]
    return sorted((each for each in found if each[1] > 0), key=lambda each: -each[1])


def _met(seconds: float, requests_per_second: float, cost_seconds: float) -> float:
    """How many requests of that time are expected to meet it: the first, and those that come while it is prepared."""
    return (1 - math.exp(-requests_per_second * seconds)) * (1 + requests_per_second * min(cost_seconds, seconds))
