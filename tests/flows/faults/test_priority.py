"""Hundreds of refreshes and pre-warmings are queued: a waiting client's content comes next."""

import pytest

from tests.flows.slow.slow_content import SlowContent
from tests.support.backlog import Backlog, is_clear
from tests.support.crowd import Crowd
from tests.support.stack import Stack, eventually

pytestmark = pytest.mark.no_database

SIZE = 400
LANES = ("paint.now", "paint.refresh", "paint.warm")


def test_what_is_waited_for_comes_before_refreshes_and_pre_warmings(stack: Stack, crowd: Crowd, name: str) -> None:
    refreshes = Backlog(stack, "paint.refresh", f"{name}r", SIZE)
    warmings = Backlog(stack, "paint.warm", f"{name}w", SIZE)
    backlogs = (refreshes, warmings)
    for backlog in backlogs:
        backlog.hold(crowd)
        backlog.queue(crowd)

    cold = f"{name}cold"
    assert crowd.visit(f"/slow/{cold}").body == SlowContent(cold).body
    lasts = [(backlog, backlog.names[-1]) for backlog in backlogs]
    for backlog, last in lasts:  # promoted out of its lane
        backlog.lose(last)
        visit = crowd.visit(f"{backlog.address(last)}&html=0")  # another address, which nginx does not hold
        assert visit.statuses == [302, 302, 200]
        assert "promoted" in visit.answers[0].cache_status
        assert visit.body == SlowContent(last).body
        assert backlog.begun(stack.wait_for(last)["time"]) == 0
        assert backlog.waiting() == SIZE - 1

    for backlog in backlogs:
        backlog.let_go()
    eventually(lambda: is_clear(stack, LANES), 120, "all copies were taken, and nothing is left behind")
    assert all(stack.executions(one) == 1 for backlog in backlogs for one in backlog.names)


def test_a_refresh_promotes_what_waits_to_be_pre_warmed(stack: Stack, crowd: Crowd, name: str) -> None:
    warmings = Backlog(stack, "paint.warm", name, 3)
    warmings.hold(crowd)
    warmings.queue(crowd)
    last = warmings.names[-1]
    visit = crowd.visit(f"/slow/{last}?stale=3600")  # stale content bridges the time: a refresh
    assert visit.statuses == [200]
    assert "promoted" in visit.answers[0].cache_status
    stack.wait_for(last, "finish")
    assert warmings.begun(stack.wait_for(last)["time"]) == 0
    warmings.let_go()
    eventually(lambda: is_clear(stack, LANES), 30, "nothing is left behind")
    assert [stack.executions(one) for one in warmings.names] == [1, 1, 1]
