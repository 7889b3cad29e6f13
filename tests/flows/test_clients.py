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
from playwright.sync_api import Browser, Page

from ..support.browser import FETCH, IMAGE
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
def test_a_navigation_shows_the_waiting_page_and_then_the_content(stack: Stack, browser: Browser, name: str) -> None:
    page = browser.new_page()
    try:
        page.goto(f"{stack.base_url}/slow/{name}?html=1&gated=1")
        page.get_by_role("heading", name="Being prepared").wait_for()
        stack.open_gate(name)
        page.get_by_text(f"{name}.0").first.wait_for()
        assert page.evaluate("document.body.innerText.trim()") == SlowContent(name).body.decode().strip()
    finally:
        page.close()
