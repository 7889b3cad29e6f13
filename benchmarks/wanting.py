"""`python -m benchmarks.wanting`: wants pages as main does for clients, in a site's environment, without the clients.

Each line of its input is JSON: a list of addresses, or a scope and how many requests may be in flight there, as an
admin sets it. Each line of its output says how many addresses were taken: they wait for a fetcher then.
"""

import json
import sys

import django

django.setup(set_prefix=False)

from resources.fetching.queues import frontier  # noqa: E402 - needs the apps
from resources.fetching.queues.jobs import Limits  # noqa: E402
from retry import claims, connections, lanes, standings  # noqa: E402
from retry.errors import QueueUnavailable  # noqa: E402
from tests.flows.slow.fetched import page_work  # noqa: E402


def main() -> None:
    for line in sys.stdin:
        match json.loads(line):
            case [str(scope), int(in_flight)]:
                connections.run(frontier.set_limits(scope, Limits(in_flight=in_flight)))
                print(0, flush=True)
            case urls:
                print(sum(map(_want, urls)), flush=True)


def _want(url: str) -> bool:
    """Whether the lane and the frontier had room for it."""
    work = page_work(url)
    begun = standings.standing(connections.execute_patiently(claims.beginning(work, refresh=False)))
    if not isinstance(begun, standings.Begun):
        return False
    try:
        lanes.publish(work.task, work.key, begun.token, work.arguments, work.lane)
    except QueueUnavailable:
        connections.execute_patiently(claims.abandoning(work.key, begun.token))
        return False
    return True


if __name__ == "__main__":
    main()
