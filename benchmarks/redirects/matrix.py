"""Runs every client against every delivery and every duration at once, since all of them only wait."""

import asyncio
import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.support import other_site
from tests.support.stack import Stack

from ..figures import Figure, Note
from .browsers import Ask, Browser, chromium, firefox
from .counting_proxy import CountingProxy
from .painters import sleepers
from .tools import Tool, tools

DELIVERIES = ("redirect", "inline", "internal")
SECONDS = (0.2, 12, 35, 60)
"""At once, within the first wait, within the second, and longer than both (25 s each)."""

PATIENCE_SECONDS = 120

APART_SECONDS = 0.7
"""Between the starts of two clients: some take a second of the processor before they ask."""


@dataclass(frozen=True, slots=True)
class Result:
    """A client's final output, and the answers it got on its way."""

    said: str
    statuses: tuple[int, ...]

    @property
    def redirects(self) -> int:
        return sum(status == 302 for status in self.statuses)

    def __str__(self) -> str:
        """`content 2` or `503 2`, with the number of redirects it was sent; else its other end.

        A client that came again after a 503 has a mark.
        """
        status, last = self.said.split(" ")[0], self.statuses[-1:]
        again = ", asked again" if self.statuses.count(503) > (last == (503,)) else ""
        if status == "200" and last == (200,):
            return f"content {self.redirects}{again}"
        if last == (503,):
            return f"503 {self.redirects}{again}"
        return f"gives up after {self.redirects}{again}" if last == (302,) else f"{self.said} {self.statuses}"


Client = tuple[str, Ask]


def measure() -> Iterator[Figure | Note]:
    """Tables of Markdown, one for each delivery. They have no bound, since clients differ."""
    present = [tool for tool in tools() if tool.is_here]
    missing = sorted({tool.name for tool in tools()} - {tool.name for tool in present})
    if missing:
        yield Note(f"not here (benchmarks/redirects/install.sh): {', '.join(missing)}")
    for delivery in DELIVERIES:
        with Stack(RETRY_DELIVERY=delivery) as stack, sleepers(stack, len(SECONDS) * (len(present) + 4)):
            found = asyncio.run(_with_clients(stack.host, present))
        for line in _table(delivery, found):
            yield Note(line)


async def _with_clients(host: str, present: list[Tool]) -> dict[str, list[Result]]:
    """The results by the client's name and version."""
    versions = {tool.name: tool.version_text() for tool in present}
    clients: list[Client] = [(tool.name, _running(tool)) for tool in present]
    async with AsyncExitStack() as ending:
        directory = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="tarry-page-")))
        page_address = ending.enter_context(other_site.serving(directory))
        for running in (chromium(page_address), firefox(page_address)):
            browser = await ending.enter_async_context(running)
            clients += _of_browser(browser, versions)
        proxy = await ending.enter_async_context(CountingProxy(host))
        turns = itertools.count()
        rows = await asyncio.gather(*(_row(proxy, turns, *client) for client in clients))
    return dict(zip((f"{name} {versions[name]}" for name, _ in clients), rows, strict=True))


def _of_browser(browser: Browser | None, versions: dict[str, str]) -> list[Client]:
    if browser is None:
        return []
    clients = [(f"{browser.name} {name}", ask) for name, ask in browser.asks.items()]
    versions.update({name: browser.version for name, _ in clients})
    return clients


def _running(tool: Tool) -> Ask:
    async def ask(url: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *tool.command,
            url,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, **tool.environment},
        )
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            raise
        return output.decode(errors="replace").strip()

    return ask


async def _row(proxy: CountingProxy, turns: Iterator[int], name: str, ask: Ask) -> list[Result]:
    cells = [_cell(proxy, next(turns) * APART_SECONDS, name, ask, seconds) for seconds in SECONDS]
    return await asyncio.gather(*cells)


async def _cell(proxy: CountingProxy, delay: float, name: str, ask: Ask, seconds: float) -> Result:
    await asyncio.sleep(delay)
    content = "".join(letter if letter.isalnum() else "-" for letter in f"{name}-{seconds:g}".lower())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            said = await ask(f"{proxy.base_url}/slow/{content}?seconds={seconds}&behaviour=image")
    except TimeoutError:
        said = "no answer"
    return Result(said, tuple(proxy.statuses[content]))


def _table(delivery: str, rows: dict[str, list[Result]]) -> Iterator[str]:
    yield ""
    yield f"| `{delivery}` | {' | '.join(f'{seconds:g} s' for seconds in SECONDS)} |"
    yield f"|---|{'---|' * len(SECONDS)}"
    for name, results in rows.items():
        yield f"| {name} | {' | '.join(map(str, results))} |"
