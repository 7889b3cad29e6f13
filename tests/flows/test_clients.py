"""Real clients of all kinds get cold content without knowing anything of how it is made."""

import asyncio
import shutil
import subprocess
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
import requests
import urllib3
from playwright.sync_api import Browser, Page, expect

from ..support import browser as support_browser
from ..support.browser import FETCH, IMAGE, Visit
from ..support.layers import load_line
from ..support.stack import Stack
from .slow.slow_content import SlowContent

pytestmark = pytest.mark.no_database

SECONDS = 20


def get_with_curl(url: str) -> bytes:
    command = ["curl", "--silent", "--fail", "--location", "--max-time", str(SECONDS), url]
    return subprocess.run(command, check=True, capture_output=True).stdout


def get_with_wget(url: str) -> bytes:
    command = ["wget", "--quiet", "--timeout", str(SECONDS), "--output-document", "-", url]
    return subprocess.run(command, check=True, capture_output=True).stdout


def get_with_requests(url: str) -> bytes:
    return requests.get(url, timeout=SECONDS).content


def get_with_urllib(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        content: bytes = answer.read()
    return content


def get_with_urllib3(url: str) -> bytes:
    with urllib3.PoolManager() as pool:
        return pool.request("GET", url, timeout=SECONDS).data


def get_with_aiohttp(url: str) -> bytes:
    async def get() -> bytes:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return await answer.read()

    with ThreadPoolExecutor(1) as thread:  # the browser has a loop in this one
        return thread.submit(asyncio.run, get()).result()


GETTERS = (get_with_curl, get_with_wget, get_with_requests, get_with_urllib, get_with_urllib3, get_with_aiohttp)


@pytest.mark.parametrize("get", GETTERS)
def test_a_client_follows_to_the_content(get: Any, stack: Stack, name: str) -> None:
    tool = get.__name__.rpartition("_")[2]
    if tool in ("curl", "wget") and shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    assert get(f"{stack.base_url}/slow/{name}?seconds=0.2&size=5000") == SlowContent(name, size=5000).body
    assert stack.executions(name) == 1


@pytest.mark.browser
def test_fetch_gets_cold_content_from_another_origin(stack: Stack, other_page: Page, name: str) -> None:
    found = other_page.evaluate(FETCH, f"{stack.base_url}/slow/{name}?seconds=0.2")
    assert found == {"status": 200, "redirected": True, "text": SlowContent(name).body.decode()}
    assert stack.executions(name) == 1


@pytest.mark.browser
def test_fetch_learns_why_and_for_how_long_it_is_refused(stack: Stack, other_page: Page, name: str) -> None:
    script = """async (url) => {
      const answer = await fetch(url);
      return [answer.status, Number(answer.headers.get("Retry-After")) >= 1, (await answer.json()).detail];
    }"""
    found = other_page.evaluate(script, f"{stack.base_url}/slow/{name}?behaviour=refuse")
    assert found == [502, True, "The origin refused."]


@pytest.mark.browser
def test_an_image_gets_a_cold_tile_from_another_origin(stack: Stack, other_page: Page, tmp_path: Path) -> None:
    address = load_line(stack, f"l{uuid4().hex[:8]}", tmp_path)
    assert other_page.evaluate(IMAGE, [f"{stack.base_url}{address}", True]) == [256, 256]


@pytest.mark.browser
def test_a_page_that_is_soon_ready_is_all_that_a_person_sees(stack: Stack, desktop: Visit, name: str) -> None:
    address = f"{stack.base_url}/slow/{name}?html=1&seconds=0.2"
    shown: list[str] = []
    desktop.page.on("domcontentloaded", lambda page: shown.append(page.url))
    answer = desktop.page.goto(address)
    assert answer is not None
    assert (answer.status, answer.text(), shown) == (200, SlowContent(name).body.decode(), [address])


@pytest.mark.browser
def test_the_waiting_page_is_replaced_by_the_content_and_leaves_nothing_to_go_back_to(
    stack: Stack, desktop: Visit, name: str
) -> None:
    page, address = desktop.page, f"{stack.base_url}/slow/{name}?html=1&gated=1"
    page.goto(f"{stack.base_url}/robots.txt")
    answer = page.goto(f"{address}#part")
    assert answer is not None
    assert (answer.status, answer.headers["cache-control"]) == (503, "no-store")
    expect(page.get_by_role("heading", name="Being prepared")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("Work on it has begun.")
    assert page.url == f"{address}#part"
    stack.open_gate(name)
    expect(page.locator("pre")).to_have_text(SlowContent(name).body.decode())
    assert page.url == f"{address}#part"
    page.go_back()
    assert page.url == f"{stack.base_url}/robots.txt"
    assert [text for text in desktop.complaints if "503" not in text] == []


@pytest.mark.browser
@pytest.mark.parametrize(
    ("behaviour", "said"), [("unavailable", "It is not there now."), ("refuse", "The origin refused.")]
)
def test_a_failure_takes_the_place_of_the_waiting_page_whatever_its_status(
    stack: Stack, desktop: Visit, name: str, behaviour: str, said: str
) -> None:
    desktop.page.goto(f"{stack.base_url}/slow/{name}?html=1&gated=1&behaviour={behaviour}")
    expect(desktop.page.get_by_role("heading", name="Being prepared")).to_be_visible()
    stack.open_gate(name)
    expect(desktop.page.get_by_text(said)).to_be_visible()


@pytest.mark.browser
def test_without_scripts_the_waiting_page_loads_the_content_by_itself(
    stack: Stack, browser: Browser, name: str
) -> None:
    with support_browser.visit(browser, java_script_enabled=False) as visit:
        visit.page.goto(f"{stack.base_url}/slow/{name}?html=1&gated=1")
        expect(visit.page.get_by_role("heading", name="Being prepared")).to_be_visible()
        stack.open_gate(name)
        expect(visit.page.locator("pre")).to_have_text(SlowContent(name).body.decode())
        assert visit.page.url == f"{stack.base_url}/slow/{name}?html=1&gated=1"
