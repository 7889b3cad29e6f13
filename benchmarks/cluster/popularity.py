"""Requests for contents of which few are popular, and how many of them a cache answers. PURE.

The least recently used content goes: its hit ratio is by the approximation of H. Che, Y. Tung and Z. Wang,
"Hierarchical Web caching systems: modeling, design and experimental results", IEEE JSAC 20(7), 2002. A content is
in the cache if it was requested within the last `kept_seconds`, a time that is the same for all of them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EXACT = 1_000
"""So many of the most popular contents have a class of their own."""
CLASSES = 2_000
STEPS = 200
LONGEST_SECONDS = 1e12


@dataclass(frozen=True, slots=True)
class Requests:
    """Classes of contents that are equally popular: how many, and requests a second for each one."""

    counts: NDArray[np.float64]
    rates: NDArray[np.float64]

    @property
    def rate(self) -> float:
        """Requests a second for all contents."""
        return float((self.counts * self.rates).sum())

    def kept(self, seconds: float) -> float:
        """The mean number of contents that were requested within the last so many seconds."""
        return float((self.counts * -np.expm1(-self.rates * seconds)).sum())

    def missed(self, seconds: float) -> float:
        """Requests a second for contents that were not."""
        return float((self.counts * self.rates * np.exp(-self.rates * seconds)).sum())

    def after_fresh_copies(self, fresh_seconds: float, copies: int) -> "Requests":
        """The requests that caches let through which renew a copy when it is requested after so long.

        Each of the caches has an equal share of the requests for each content.
        """
        each = self.rates / copies
        return Requests(self.counts, copies * each / (1 + each * fresh_seconds))


def zipf(contents: int, skew: float, rate: float) -> Requests:
    """The n-th most popular content has requests in proportion to n to the power of −`skew`."""
    edges = np.arange(1, min(contents, EXACT) + 2, dtype=float)
    if contents > EXACT:
        edges = np.append(edges, np.unique(np.floor(np.geomspace(EXACT + 1, contents + 1, CLASSES)))[1:])
    counts = np.diff(edges)
    weights = ((edges[:-1] + edges[1:] - 1) / 2) ** -skew
    return Requests(counts, rate * weights / float((counts * weights).sum()))


def kept_seconds(requests: Requests, capacity: float) -> float:
    """The time for which a cache of so many contents keeps each one since its last request (Che's)."""
    if capacity >= requests.counts.sum():
        return float("inf")
    least, most = 0.0, LONGEST_SECONDS
    for _ in range(STEPS):
        middle = (least + most) / 2
        least, most = (middle, most) if requests.kept(middle) < capacity else (least, middle)
    return most


def hit_ratio(requests: Requests, capacity: float) -> float:
    """The share of requests that a cache of so many contents answers."""
    return 1 - requests.missed(kept_seconds(requests, capacity)) / requests.rate


def capacity_for(requests: Requests, missed: float) -> float:
    """Contents that a cache holds which misses so many requests a second."""
    if missed <= 0:
        return float(requests.counts.sum())
    least, most = 0.0, LONGEST_SECONDS
    for _ in range(STEPS):
        middle = (least + most) / 2
        least, most = (middle, most) if requests.missed(middle) > missed else (least, middle)
    return requests.kept(most)
