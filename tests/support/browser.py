"""Pages in a real browser: Chromium, one visit per test."""

import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, ViewportSize, sync_playwright

from .crowd import LATE
from .stack import ROOT

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_ARGUMENTS = (
    "--no-sandbox",  # Chromium refuses its sandbox to root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TILES_SECONDS = 40
REFUSED = "status of 503"
DESKTOP = {"width": 960, "height": 640}
"""The smallest that most flows look at: each tile in sight costs all processes."""
WIDE: ViewportSize = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
MODULES = ROOT / "resources" / "static" / "resources"

FETCH = """async (url) => {
  const answer = await fetch(url);
  return {status: answer.status, redirected: answer.redirected, text: await answer.text()};
}"""
IMAGE = """async ([url, anonymous]) => {
  const image = new Image();
  if (anonymous) image.crossOrigin = "anonymous";
  image.src = url;
  await image.decode();
  return [image.naturalWidth, image.naturalHeight];
}"""
PAINTED_TILES = """(pane) => [
  ...document.querySelectorAll(`.leaflet-${pane}-pane img.leaflet-tile-loaded`),
].filter((image) => {
  if (!image.naturalWidth) return false;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 64;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0, 64, 64);
  return context.getImageData(0, 0, 64, 64).data.some((value, index) => index % 4 === 3 && value > 0);
}).length"""


@dataclass
class Visit:
    """A page in the browser, and its errors."""

    page: Page
    hosts: set[str] = field(default_factory=set)
    _said: list[tuple[str, str]] = field(default_factory=list)
    _refused: set[str] = field(default_factory=set)

    @property
    def complaints(self) -> list[str]:
        """But for tiles that a late main has refused: the page asks for them again."""
        return self.complaints_but_for(())

    def complaints_but_for(self, missing: Collection[str]) -> list[str]:
        """The complaints, without those of addresses that cannot be loaded."""
        said = [(text, address) for text, address in self._said if address not in missing]
        return [text for text, address in said if not (REFUSED in text and address in self._refused)]

    def watch(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self._said.append((str(error), "")))
        self.page.on("request", self._request)
        self.page.on("response", self._response)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._said.append((message.text, message.location["url"]))

    def _response(self, response: Response) -> None:
        said = response.headers.get("cache-status", "")
        if response.status == 503 and "/tiles/" in response.url and any(detail in said for detail in LATE):
            self._refused.add(response.url)

    def _request(self, request: Request) -> None:
        if not request.url.startswith(("blob:", "data:")):
            self.hosts.add(urlsplit(request.url).netloc)

    def painted_tiles(self, pane: str) -> int:
        """The number of tiles of the pane that show something. Layers of other tests are empty where theirs is not."""
        return int(self.page.evaluate(PAINTED_TILES, pane))

    def wait_for_tiles(self, pane: str, at_least: int) -> None:
        self.page.wait_for_function(
            f"([pane, count]) => ({PAINTED_TILES})(pane) >= count",
            arg=[pane, at_least],
            timeout=TILES_SECONDS * 1000,
            polling=200,
        )

    def wait_until_filled(self) -> None:
        self.page.wait_for_function(
            """() => { const tiles = [...document.querySelectorAll("img.leaflet-tile")];
            return tiles.length && tiles.every((tile) => tile.classList.contains("leaflet-tile-loaded")); }""",
            timeout=TILES_SECONDS * 1000,
            polling=200,
        )


def imported(module: str) -> set[str]:
    """The module and all that it imports, however far round."""
    names = set(re.findall(r'from "\./(\w+\.js)"', (MODULES / module).read_text()))
    return {module}.union(*map(imported, names))


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium. Skips the test where there is none."""
    executable = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if executable is None:
        pytest.skip("Chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(CHROMIUM_ARGUMENTS))
        yield browser
        browser.close()


@contextmanager
def visit(browser: Browser, **options: object) -> Iterator[Visit]:
    """A new page without any past, which is watched."""
    context = browser.new_context(**options)  # type: ignore[arg-type]
    visiting = Visit(context.new_page())
    visiting.watch()
    yield visiting
    context.close()
