"""A stack with short timeouts, so that recoveries by time happen while a test looks on."""

from collections.abc import Iterator

import pytest

from tests.support.stack import Stack, eventually

WAIT_SECONDS = 10
MAX_WAITS = 2
LEASE_SECONDS = 3
HOT_SECONDS = 3
BOUND_SECONDS = 2 * MAX_WAITS * WAIT_SECONDS
"""No client is on its way for longer: two visits of its address, each with all its waits."""

IMPATIENT = {
    "DEFAULT_RETRY_TIMEOUT": str(WAIT_SECONDS),
    "RETRY_MAX_WAITS": str(MAX_WAITS),
    "RETRY_LEASE_SECONDS": str(LEASE_SECONDS),
    "FETCH_LEASE_SECONDS": str(LEASE_SECONDS),
    "RETRY_MAX_PREPARE_SECONDS": "60",
    "HOT_SECONDS": str(HOT_SECONDS),
    "PAINT_WORKERS": "2",
    "LAYER_BLOCK_SECONDS": "0",
    "PREWARM_SECONDS": "0",  # tests count the tiles that their own runs prepare
}
POPULAR = 30
LOG_MAX_BYTES = 1_000_000
OBSERVED = {
    "DJANGO_SETTINGS_MODULE": "tests.flows.counted",
    "POPULAR_REQUESTS": str(POPULAR),
    "TRAFFIC_LOG_MAX_BYTES": str(LOG_MAX_BYTES),
    "RETRY_SKIP_SECONDS": "0",
    "FEEDS_SCAN_SECONDS": "60",
}
"""Requests for slow content are counted as well, and nothing is skipped. There are no feeds."""


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    """One site for tests of faults, which leave it healthy."""
    with Stack(**IMPATIENT, **OBSERVED) as running:
        yield running


@pytest.fixture(autouse=True)
def _healthy_afterwards(stack: Stack) -> Iterator[None]:
    yield
    stack.open_all_gates()  # of a test that failed
    stack.wait_until_healthy()
    eventually(lambda: stack.metric("tarry_waiting_clients") == 0, 10, "nobody waits")


def wait_until_clients_wait(stack: Stack, count: int) -> None:
    eventually(lambda: stack.metric("tarry_waiting_clients") >= count, 20, f"{count} clients wait")
