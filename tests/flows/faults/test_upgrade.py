"""All processes replaced in turn by the commands of docs/operations.md, while clients ask, and wait."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from urllib.parse import quote

import pytest

from tests.flows import file_server
from tests.flows.crowd import Crowd, Visit
from tests.flows.documented import carry_out, commands
from tests.flows.faults.conftest import BOUND_SECONDS
from tests.flows.stack import Stack, eventually

pytestmark = [pytest.mark.timed, pytest.mark.no_database]

REPLACED = ("main", "retry", "paint-now", "paint-refresh", "paint-warm", "work", "beat", "fetch", "nginx")
PAUSE_SECONDS = 0.02
"""Between two requests for what is cached. With every tenth one there is somebody who has to wait."""
SHORT, LONG = 0.2, 4
PAGES = 100


@contextmanager
def asked_steadily(ask: Callable[[int], None]) -> Iterator[None]:
    """Asks again and again, whatever becomes of it."""
    ended = threading.Event()

    def go_on() -> None:
        for number in count():
            if ended.wait(PAUSE_SECONDS):
                return
            ask(number)

    asking = threading.Thread(target=go_on)
    asking.start()
    try:
        yield
    finally:
        ended.set()
        asking.join()


def told(visit: Visit) -> str:
    """How it ended; if not well, what was asked for and what was answered on the way.

    Where painters take longer to come back than anybody may wait here, who has waited is told to come again.
    """
    has_waited_for_long = visit.is_honest_refusal and not visit.was_turned_away
    if visit.status == 200 or has_waited_for_long:
        return "served"
    return f"{visit.address}: {visit.statuses} {visit.error} {[answer.cache_status for answer in visit.answers]}"


def test_an_upgrade_loses_nobody_who_waits_and_nobody_who_asks_for_what_is_cached(
    stack: Stack, crowd: Crowd, name: str
) -> None:
    cached = f"/slow/{name}cached?size=5000"
    crowd.insist([cached])
    before = {process: stack.pids(process)[1:] or stack.pids(process) for process in REPLACED}
    with file_server.running() as origin:
        origin.files = {f"/{number}": b"page" for number in range(PAGES)}
        pages = [f"/fetched/?url={quote(origin.url + path, safe='')}" for path in origin.files]
        sent: list[Future[list[Visit]]] = []

        def ask(number: int) -> None:
            asked = [cached]
            if number % 10 == 0:
                asked.append(f"/slow/{name}{number}?seconds={LONG if number % 100 == 0 else SHORT}")
            if number % 100 == 50 and pages:
                asked.append(pages.pop())
            sent.append(crowd.send(asked))

        with asked_steadily(ask):
            carry_out(stack, commands("restart site:$process"))
            stack.wait_until_healthy()
        visits = [visit for one in sent for visit in one.result(BOUND_SECONDS)]
        assert Counter(told(visit) for visit in visits) == {"served": len(visits)}
        late = [visit.address for visit in visits if visit.status != 200]
        assert cached not in late
        crowd.insist(late)
    assert sum(len(visit.answers) > 1 for visit in visits) > 10  # they have waited
    eventually(
        lambda: all(set(stack.pids(one)).isdisjoint(pids) for one, pids in before.items()), 20, "all are replaced"
    )
