"""The least time that fetches can take, under the limits that hosts have now, as set or learnt."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from resources.fetching.queues import domains, frontier, tuning
from retry import connections

from ..scheduling.bounds import bound
from ..scheduling.fetches import Fetch, Limits
from . import due

MOST_HOSTS = 500


def least_seconds(fetches: Sequence[Fetch]) -> float:
    """With all fetchers that there are. Raises StoreUnavailable."""
    limits = due.limits()
    limits = replace(limits, slots=limits.slots * max(1, connections.run(frontier.fetchers())))
    return bound(fetches, limits, _known(fetches, limits)).seconds


def _known(fetches: Sequence[Fetch], limits: Limits) -> Mapping[str, Limits]:
    """The limits of the hosts that have the most of them. Where there is one alone, none is waited for."""
    largest = Counter(fetch.host for fetch in fetches).most_common(MOST_HOSTS)
    hosts = [host for host, number in largest if number > 1]
    now_ms, records = connections.run(frontier.look_at_all(hosts)) if hosts else (0.0, [])
    found = {}
    for host, record in zip(hosts, records, strict=True):
        stands = domains.read(host, now_ms, record, tuning.politeness())
        found[host] = replace(limits, in_flight=max(1, stands.most_in_flight), gap_seconds=stands.gap_seconds)
    return found
