"""The wait for cold content beside queued refreshes."""

import time
from collections.abc import Iterator
from uuid import uuid4

from tests.support.backlog import Backlog
from tests.support.crowd import Crowd
from tests.support.stack import Stack, eventually

from ..figures import Figure, Note, median
from ..load.clients import connect, follow
from ..load.event_loop import run

REFRESHES, MORE = 2000, 300
"""As many wait until the end: some are worked on meanwhile."""

ROUNDS = 21
WORK = "&behaviour=burn&seconds=0.1"
RATIO = 2.0
REFRESHER = "paint-refresh"


def measure() -> Iterator[Figure | Note]:
    """Time to an interactive content while refreshes are worked on ÷ while the refreshing worker stands still."""
    with Stack(BACKLOG_LIMIT="1000", RETRY_SKIP_SECONDS="0") as stack, Crowd(stack.base_url) as crowd:
        quiet = [_cold(stack) for _ in range(ROUNDS)][1:]
        backlog = Backlog(stack, "paint.refresh", uuid4().hex, REFRESHES + MORE, f"{WORK}&kind=refresh")
        stack.freeze(REFRESHER, children=True)
        backlog.queue(crowd)
        last = iter(reversed(backlog.names))
        rounds = [_round(backlog, next(last)) for _ in range(ROUNDS)]
        left = backlog.waiting()
    if left < REFRESHES:
        raise RuntimeError(f"only {left:,} refreshes were left in the end")
    cold, promoted, idle = ([one[side] for one in rounds] for side in range(3))
    yield Note(f"{left:,} refreshes still waited in the end")
    for name, side in (("cold", cold), ("promoted", promoted), ("idle", idle), ("cold without refreshes", quiet)):
        yield Figure(f"{name}, median", median(side) * 1000, "ms")
    name = f"cold content with {REFRESHES:,} refreshes queued and being worked on ÷ idle"
    yield Figure(name, _ratio(cold, idle), at_most=RATIO)
    yield Figure("one of those refreshes, promoted ÷ cold content idle", _ratio(promoted, idle), at_most=RATIO)


def _round(backlog: Backlog, refresh: str) -> tuple[float, float, float]:
    """Cold content and a promoted refresh while the worker refreshes, cold content while it does not, in seconds."""
    stack = backlog.stack
    stack.thaw(REFRESHER, children=True)
    eventually(lambda: stack.state.zcard("retry:{0}:leases"), 10, "a refresh is being worked on")
    cold = _cold(stack)
    backlog.lose(refresh)
    promoted = _seconds(stack, f"{backlog.address(refresh)}&html=0")
    stack.freeze(REFRESHER, children=True)
    return cold, promoted, _cold(stack)


def _cold(stack: Stack) -> float:
    return _seconds(stack, f"/slow/{uuid4().hex}?kind=cold{WORK}")


def _seconds(stack: Stack, path: str) -> float:
    return run(_followed(stack.host, path))


async def _followed(host: str, path: str) -> float:
    client = await connect(host)
    began = time.time()
    visit = await follow(client, path)
    client.close()
    if visit.status != 200 or visit.redirects != 2:
        raise RuntimeError(f"no content after two redirects: {visit}")
    return visit.answers[-1].at - began


def _ratio(these: list[float], those: list[float]) -> float:
    return median([one / other for one, other in zip(these, those, strict=True)])
