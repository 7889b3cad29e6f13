"""`Prefer` on the whole site: a status address to ask, and waits that end when the client said."""

import json
import time

import pytest

from ..support.crowd import Crowd
from ..support.stack import Stack, eventually
from .slow.slow_content import SlowContent

pytestmark = pytest.mark.no_database


def test_a_status_address_leads_to_the_content(stack: Stack, crowd: Crowd, name: str) -> None:
    accepted = crowd.visit(f"/slow/{name}?gated=1", headers={"Prefer": "respond-async"})
    assert accepted.statuses == [202]
    assert accepted.answers[0].headers["Preference-Applied"] == "respond-async"
    status = accepted.answers[0].headers["Location"]
    assert json.loads(accepted.body)["status"] == status
    assert crowd.visit(status).statuses == [202]
    stack.open_gate(name)
    eventually(lambda: crowd.visit(status).status == 200, 10, "it is ready")
    visit = crowd.visit(status)
    assert visit.statuses == [303, 200]
    assert visit.body == SlowContent(name).body


def test_a_failure_is_told_at_the_status_address(crowd: Crowd, name: str) -> None:
    accepted = crowd.visit(f"/slow/{name}?behaviour=refuse", headers={"Prefer": "respond-async"})
    status = accepted.answers[0].headers["Location"]
    eventually(lambda: crowd.visit(status).status != 202, 10, "it has failed")
    visit = crowd.visit(status)
    assert visit.statuses == [502]
    assert json.loads(visit.body)["detail"] == "The origin refused."


@pytest.mark.parametrize(("prefer", "status"), [("wait=2", 503), ("respond-async, wait=2", 202)])
def test_a_wait_ends_when_the_client_said(stack: Stack, crowd: Crowd, name: str, prefer: str, status: int) -> None:
    began = time.monotonic()
    visit = crowd.visit(f"/slow/{name}?gated=1", headers={"Prefer": prefer})
    assert time.monotonic() - began > 1
    assert visit.seconds < 4
    assert visit.statuses == [302, status]
    assert visit.answers[-1].headers["Preference-Applied"] == prefer
    assert int(visit.answers[-1].headers["Retry-After"]) >= 1
    stack.open_gate(name)
    stack.wait_for(name, "finish")


def test_preferences_do_not_change_what_others_get(crowd: Crowd, name: str) -> None:
    address = f"/slow/{name}?seconds=0.2"
    assert crowd.visit(address, headers={"Prefer": "respond-async"}).status == 202
    assert crowd.visit(address).body == SlowContent(name).body
    for _ in range(2):
        hot = crowd.visit(address, headers={"Prefer": "respond-async"})
        assert (hot.statuses, hot.body) == ([200], SlowContent(name).body)
    assert "nginx; hit" in hot.answers[0].cache_status
