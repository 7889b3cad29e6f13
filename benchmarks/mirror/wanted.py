"""`python -m benchmarks.wanting`: wants pages as main does for clients, in a site's environment, without the clients.

Each line of its input is JSON: a list of addresses, or an object with a scope and what an admin sets there. Each line
of its output is a list of the addresses that were not taken; all others wait for a fetcher.
"""

import json
import sys

import django

django.setup(set_prefix=False)

from resources.fetching.keeping import limiting  # noqa: E402 - needs the apps
from retry import claims, connections, lanes, standings  # noqa: E402
from retry.errors import QueueUnavailable  # noqa: E402
from tests.flows.slow.fetched import page_work  # noqa: E402


def main() -> None:
    for line in sys.stdin:
        match json.loads(line):
            case dict() as limits:
                limiting.change(**limits)
                print("[]", flush=True)
            case urls:
                print(json.dumps([url for url in urls if not _want(url)]), flush=True)


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
