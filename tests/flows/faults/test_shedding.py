"""Main after it was out of reach for a while: requests that have waited too long are told to come again."""

import time

import pytest

from project import main_worker
from tests.support.crowd import Crowd
from tests.support.stack import Stack

pytestmark = pytest.mark.no_database

CLIENTS = 40


def test_only_what_waited_too_long_is_refused(stack: Stack, crowd: Crowd, name: str) -> None:
    before = stack.metric("tarry_answers_total", server="main", answer="late")
    stack.freeze("main", children=True)
    try:
        long_ago = crowd.send([f"/slow/{name}-{number}" for number in range(CLIENTS)])
        time.sleep(main_worker.MAX_WAITED_SECONDS + 0.3)
        just_now = crowd.send([f"/slow/{name}"] * CLIENTS)
        time.sleep(0.3)
    finally:
        stack.thaw("main", children=True)
    refused = long_ago.result(20)
    assert {(visit.status, visit.answers[-1].headers["Retry-After"]) for visit in refused} == {(503, "1")}
    assert all("waited too long" in visit.answers[-1].cache_status for visit in refused)
    assert {visit.status for visit in just_now.result(20)} == {200}
    assert stack.metric("tarry_answers_total", server="main", answer="late") - before == CLIENTS
    assert stack.executions(f"{name}-0") == 0
