"""Chromium and Firefox: an image, and fetch, on a page of another site."""

import asyncio
import itertools
import json
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import aiohttp
from playwright.async_api import async_playwright

from tests.support.browser import CHROMIUM_ARGUMENTS

from .tools import DIRECTORY

Ask = Callable[[str], Awaitable[str]]

IMAGE = """(url) => new Promise((resolve) => {
  const image = new Image();
  image.onload = () => resolve(`200 ${image.naturalWidth}`);
  image.onerror = () => resolve("error no image");
  image.src = url;
})"""
FETCH = """(url) => fetch(url).then(
  async (answer) => `${answer.status} ${(await answer.arrayBuffer()).byteLength}`,
  (error) => `error ${error}`,
)"""
SCRIPTS = {"img": IMAGE, "fetch": FETCH}
START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Browser:
    """The requests that a running browser can make, by the name of the client: `img`, `fetch`."""

    name: str
    version: str
    asks: dict[str, Ask]


@asynccontextmanager
async def chromium(page_address: str) -> AsyncIterator[Browser | None]:
    """Debian's, or None where there is none. It asks from pages at the address."""
    executable = shutil.which("chromium")
    if executable is None:
        yield None
        return
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=list(CHROMIUM_ARGUMENTS))

        def asking(script: str) -> Ask:
            async def ask(url: str) -> str:
                page = await browser.new_page()
                await page.goto(page_address)
                return str(await page.evaluate(script, url))

            return ask

        yield Browser("Chromium", browser.version, {name: asking(script) for name, script in SCRIPTS.items()})
        await browser.close()


@asynccontextmanager
async def firefox(page_address: str) -> AsyncIterator[Browser | None]:
    """Debian's ESR, as install.sh unpacked it, or None. It is driven by WebDriver BiDi."""
    libraries = DIRECTORY / "root/usr/lib"
    executable = libraries / "firefox-esr/firefox-esr"
    if not executable.exists():
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="tarry-firefox-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            *(str(executable), "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"),
            env={"HOME": profile, "PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": _library_path(libraries)},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            address = await asyncio.wait_for(_listening(process), START_SECONDS)
            async with aiohttp.ClientSession() as session, session.ws_connect(f"{address}/session") as socket:
                bidi = BiDi(socket, page_address)
                created = await asyncio.wait_for(bidi.command("session.new", {"capabilities": {}}), START_SECONDS)
                asks = {name: bidi.asking(script) for name, script in SCRIPTS.items()}
                yield Browser("Firefox", created["capabilities"]["browserVersion"], asks)
                bidi.close()
        finally:
            process.kill()  # it sends no request, and has nothing to keep
            await process.wait()


class BiDi:
    """Commands and their results over one socket. https://w3c.github.io/webdriver-bidi/"""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, page_address: str) -> None:
        self._socket = socket
        self._page_address = page_address
        self._numbers = itertools.count(1)
        self._results: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading = asyncio.create_task(self._read())

    async def command(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Raises RuntimeError when the browser refuses."""
        number = next(self._numbers)
        result = self._results[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        answer = await result
        if answer["type"] != "success":
            raise RuntimeError(f"{method}: {answer.get('message')}")
        return cast(dict[str, Any], answer["result"])

    def asking(self, script: str) -> Ask:
        async def ask(url: str) -> str:
            context = (await self.command("browsingContext.create", {"type": "tab"}))["context"]
            page = {"context": context, "url": self._page_address, "wait": "complete"}
            await self.command("browsingContext.navigate", page)
            call = {
                "functionDeclaration": script,
                "arguments": [{"type": "string", "value": url}],
                "target": {"context": context},
                "awaitPromise": True,
            }
            said = await self.command("script.callFunction", call)
            return str(said.get("result", {}).get("value", said))

        return ask

    def close(self) -> None:
        self._reading.cancel()

    async def _read(self) -> None:
        async for message in self._socket:
            answer = json.loads(message.data)
            waiting = self._results.pop(answer.get("id"), None)
            if waiting and not waiting.done():
                waiting.set_result(answer)


async def _listening(process: asyncio.subprocess.Process) -> str:
    """The address that Firefox prints; its further output is dropped."""
    assert process.stderr is not None
    async for line in process.stderr:
        if found := re.search(r"ws://\S+", line.decode(errors="replace")):
            asyncio.get_running_loop().create_task(_drain(process.stderr))
            return found[0]
    raise RuntimeError("Firefox did not start")


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(1 << 16):
        pass


def _library_path(libraries: Path) -> str:
    return f"{libraries}/firefox-esr:{libraries}/x86_64-linux-gnu"
