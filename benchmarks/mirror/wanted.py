"""`python -m benchmarks.mirror.wanted`: enqueues pages as main does, in a site's environment, without clients.

Each line of its input is JSON: a list of addresses, or an object with a scope and an admin's limits for it. Each line
of its output is a list of the addresses that were refused; all others wait for a fetcher.
"""

import json
import sys

import django

django.setup(set_prefix=False)

from resources.fetch import host_settings  # noqa: E402
from retry import claim_state, claims, lanes, stores  # noqa: E402
from retry.errors import QueueUnavailable  # noqa: E402
from tests.flows.slow.fetched import page_work  # noqa: E402


def main() -> None:
    for line in sys.stdin:
        match json.loads(line):
            case dict() as limits:
                host_settings.change_domain(**limits)
                print("[]", flush=True)
            case urls:
                print(json.dumps([url for url in urls if not _want(url)]), flush=True)


def _want(url: str) -> bool:
    """Tells whether the lane and the frontier had room for it."""
    work = page_work(url)
    begun = claim_state.read_claim_state(stores.execute_patiently(claims.begin_call(work, refresh=False)))
    if not isinstance(begun, claim_state.ClaimBegun):
        return False
    try:
        lanes.publish_work(work.task, work.key, begun.token, work.arguments, work.lane)
    except QueueUnavailable:
        stores.execute_patiently(claims.abandon_call(work.key, begun.token))
        return False
    return True


if __name__ == "__main__":
    main()
