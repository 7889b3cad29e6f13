"""Clients wait at a port of its own: everything else of the site is where it was."""

import json
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.flows.slow.slow_content import SlowContent
from tests.support.browser import FETCH, IMAGE, Visit
from tests.support.crowd import Crowd
from tests.support.layers import load_line
from tests.support.stack import Stack, eventually

pytestmark = pytest.mark.no_database


def test_a_client_is_sent_there_and_back(stack: Stack, crowd: Crowd, waiting_port: int, name: str) -> None:
    address = f"/slow/{name}?seconds=0.2&x=%C3%BC"
    visit = crowd.visit(address)
    assert visit.statuses == [302, 302, 200]
    assert visit.body == SlowContent(name).body
    assert urlsplit(visit.answers[0].headers["Location"]).netloc == f"127.0.0.1:{waiting_port}"
    assert visit.answers[1].headers["Location"] == f"{stack.base_url}{address}"
    assert [answer.headers["Access-Control-Allow-Origin"] for answer in visit.answers] == ["*", "*", "*"]


@pytest.mark.parametrize("path", ["/", "/tiles/a/1/0/0.png", "/admin/", "/healthz", "/metrics", "/static/x.css"])
def test_nothing_else_is_answered_there(stack: Stack, crowd: Crowd, waiting_port: int, path: str) -> None:
    visit = crowd.visit(f"http://127.0.0.1:{waiting_port}{path}")
    assert visit.statuses == [404]
    assert json.loads(visit.body)["status"] == 404


def test_main_does_not_meet_the_crowd(stack: Stack, crowd: Crowd, name: str) -> None:
    waiting = crowd.send([f"/slow/{name}?gated=1&size=5000"] * 100, patient=True)
    eventually(lambda: stack.metric("tarry_waiting_clients") >= 100, 20, "all wait")
    before = stack.metric("tarry_answers_total", server="main", answer="serve")
    stack.open_gate(name)
    assert {visit.body for visit in waiting.result(30)} == {SlowContent(name, size=5000).body}
    assert stack.metric("tarry_answers_total", server="main", answer="serve") - before <= 5


def test_the_status_address_is_there_as_well(stack: Stack, crowd: Crowd, waiting_port: int, name: str) -> None:
    accepted = crowd.visit(f"/slow/{name}", headers={"Prefer": "respond-async"})
    status = accepted.answers[0].headers["Location"]
    assert status.startswith(f"http://127.0.0.1:{waiting_port}/retry_after/status?")
    eventually(lambda: crowd.visit(status).status == 200, 10, "it is ready")
    assert crowd.visit(status).body == SlowContent(name).body


@pytest.mark.browser
def test_fetch_gets_cold_content_from_another_origin(stack: Stack, other_page: Page, name: str) -> None:
    found = other_page.evaluate(FETCH, f"{stack.base_url}/slow/{name}?seconds=0.2")
    assert found == {"status": 200, "redirected": True, "text": SlowContent(name).body.decode()}
    assert stack.executions(name) == 1


@pytest.mark.browser
@pytest.mark.parametrize("anonymous", [True, False])
def test_an_image_gets_a_cold_tile_from_another_origin(
    stack: Stack, other_page: Page, tmp_path: Path, anonymous: bool
) -> None:
    address = load_line(stack, f"l{uuid4().hex[:8]}", tmp_path)
    assert other_page.evaluate(IMAGE, [f"{stack.base_url}{address}", anonymous]) == [256, 256]


@pytest.mark.browser
def test_the_waiting_page_there_looks_like_the_site_and_is_replaced_by_the_content(
    stack: Stack, desktop: Visit, name: str
) -> None:
    page = desktop.page
    page.goto(f"{stack.base_url}/slow/{name}?html=1&gated=1")
    expect(page.get_by_role("heading", name="Being prepared")).to_have_css("font-size", "26px")
    stack.open_gate(name)
    expect(page.locator("pre")).to_have_text(SlowContent(name).body.decode())
    assert page.url == f"{stack.base_url}/slow/{name}?html=1&gated=1"
    assert [text for text in desktop.complaints if "503" not in text] == []


@pytest.mark.browser
def test_the_sites_own_page_may_load_what_comes_from_there(stack: Stack, browser: Browser, tmp_path: Path) -> None:
    address = load_line(stack, f"l{uuid4().hex[:8]}", tmp_path)
    own_page = browser.new_page()
    try:
        own_page.goto(f"{stack.base_url}/")
        assert own_page.evaluate(IMAGE, [address, False]) == [256, 256]
        assert own_page.evaluate("async (url) => (await fetch(url)).status", address.replace(".png", ".webp")) == 200
    finally:
        own_page.close()


def test_an_unknown_host_gets_nothing_there(stack: Stack, crowd: Crowd, waiting_port: int) -> None:
    visit = crowd.visit(f"http://127.0.0.1:{waiting_port}/retry_after?x", headers={"Host": "evil.example"})
    assert visit.statuses == [421]
