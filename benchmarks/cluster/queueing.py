"""Waiting for one of several servers: Erlang's formula, and a simulation. PURE.

The formulas are those of M/M/c: clients come at random (Poisson), and take exponentially distributed times, in
A. K. Erlang, "Solution of some problems in the theory of probabilities of significance in automatic telephone
exchanges", 1917.
"""

import heapq
from collections.abc import Callable
from random import Random


def share_that_waits(servers: int, busy: float) -> float:
    """Erlang's C: the share of clients that find all servers busy. `busy` is the mean number of busy ones.

    Raises ValueError without a server. 1 where the servers do not keep up.
    """
    if servers < 1 or busy < 0:
        raise ValueError(f"{servers} servers cannot have {busy:g} busy ones")
    if busy >= servers:
        return 1.0
    blocked = 1.0  # Erlang's B, by its recursion: no large powers
    for number in range(1, servers + 1):
        blocked = busy * blocked / (number + busy * blocked)
    return servers * blocked / (servers - busy * (1 - blocked))


def mean_wait(servers: int, rate: float, service_seconds: float) -> float:
    """Seconds until a server takes a client, on average. Infinite where the servers do not keep up."""
    busy = rate * service_seconds
    if busy >= servers:
        return float("inf")
    return share_that_waits(servers, busy) * service_seconds / (servers - busy)


def servers_for(rate: float, service_seconds: float, *, wait_seconds: float, most_busy: float) -> int:
    """The fewest servers that are busy for no larger share of their time, and keep clients waiting for no longer."""
    servers = max(1, int(rate * service_seconds / most_busy))
    while servers * most_busy < rate * service_seconds or mean_wait(servers, rate, service_seconds) > wait_seconds:
        servers += 1
    return servers


def simulated_waits(
    servers: int, rate: float, service: Callable[[Random], float], *, clients: int, seed: int
) -> list[float]:
    """Seconds that each of so many clients waits, first in first out. The servers are idle at first."""
    luck = Random(seed)
    free_at = [0.0] * servers
    now, waits = 0.0, []
    for _ in range(clients):
        now += luck.expovariate(rate)
        begins = max(now, free_at[0])
        waits.append(begins - now)
        heapq.heapreplace(free_at, begins + service(luck))
    return waits
