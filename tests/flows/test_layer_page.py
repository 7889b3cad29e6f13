"""The page of a layer in a real browser, and the code that it gives away, run as it stands there."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, Route, expect

from ..support import browser as support_browser
from ..support.browser import TILES_SECONDS, Visit
from ..support.layers import COLOURS
from ..support.server import Handler, serving
from ..support.stack import ROOT, Stack, eventually

pytestmark = pytest.mark.browser

LEAFLET = ROOT / "resources" / "static" / "vendor" / "leaflet"
LEAFLET_FILES = re.compile(r"https://unpkg\.com/leaflet@[\d.]+/dist/(leaflet\.(?:js|css))")
TRAFFIC = {bytes.fromhex(colour[1:]) for colour in COLOURS.values()}
REFRESH_SECONDS = 20

ALL_LOADED = """(count) => {
  const tiles = [...document.querySelectorAll("img.leaflet-tile")];
  const loaded = tiles.filter((tile) => tile.naturalWidth && tile.matches(".leaflet-tile-loaded"));
  return tiles.length >= count && loaded.length === tiles.length;
}"""
LISTEN = """() => {
  const place = document.querySelector("[data-announcement]");
  window.heard = [];
  new MutationObserver(() => window.heard.push(place.textContent)).observe(place, { childList: true });
}"""
"""What is announced goes away by itself, perhaps before a busy machine has looked."""


@contextmanager
def another_site(page: str) -> Iterator[str]:
    """Serves the page at an origin of its own; yields its address."""

    class Page(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            body = page.encode() if self.path == "/" else b""
            self.answer(200 if body else 204, body, Content_Type="text/html; charset=utf-8")

    with serving(Page) as address:
        yield f"{address}/"


def give_vendored_leaflet(route: Route) -> None:
    """A snippet's files from the network come from this repository: tests reach no internet."""
    found = LEAFLET_FILES.fullmatch(route.request.url)
    assert found is not None, route.request.url
    kind = "text/css" if found[1].endswith("css") else "text/javascript"
    route.fulfill(status=200, body=(LEAFLET / found[1]).read_bytes(), content_type=kind)


def snippet(page: Page, name: str) -> str:
    return page.locator(f"#{name} pre").text_content() or ""


def shows_traffic(page: Page) -> bool:
    """Tells whether some of the page has a colour of traffic, of any speed."""
    pixels = Image.open(BytesIO(page.screenshot())).convert("RGB").tobytes()
    return any(pixels[at : at + 3] in TRAFFIC for at in range(0, len(pixels), 3))


def wait_for_pictures(page: Page, at_least: int) -> None:
    page.wait_for_function(ALL_LOADED, arg=at_least, timeout=TILES_SECONDS * 1000)


def sideways(page: Page) -> int:
    """By how many pixels the page can be scrolled sideways."""
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def test_the_map_leads_to_the_page_of_a_layer_which_shows_it_and_its_code(site: str, desktop: Visit) -> None:
    page = desktop.page
    page.goto(site)
    page.get_by_role("link", name="About London Underground").press("Enter")
    expect(page).to_have_url(f"{site}/layers/jams/")
    desktop.wait_for_tiles("overlays", at_least=2)
    desktop.wait_for_tiles("base", at_least=2)
    desktop.wait_until_filled()
    expect(page.locator("h1")).to_have_text("London Underground")
    expect(page.locator("#leaflet pre")).to_contain_text(f"{site}/tiles/jams/{{z}}/{{x}}/{{y}}{{r}}.png")
    expect(page.locator("#map .leaflet-control-attribution")).to_contain_text("OpenStreetMap")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.url.endswith("#code")
    page.locator("#map").focus()
    before = page.locator("#map .leaflet-map-pane").get_attribute("style")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#map .leaflet-map-pane")).not_to_have_attribute("style", before or "")
    assert desktop.complaints == []
    assert desktop.hosts == {urlsplit(site).netloc}


def test_a_phone_shows_the_page_without_scrolling_sideways(site: str, phone: Visit) -> None:
    page = phone.page
    page.goto(f"{site}/layers/jams/")
    phone.wait_for_tiles("overlays", at_least=1)
    for summary in page.locator("summary").all()[1:]:
        summary.tap()
    assert page.locator("details[open]").count() == page.locator("details").count()
    assert sideways(page) <= 0
    assert phone.complaints == []


def test_dark_mode_darkens_the_page_of_a_layer(site: str, dark_desktop: Visit) -> None:
    page = dark_desktop.page
    page.goto(f"{site}/layers/jams/")
    dark_desktop.wait_for_tiles("overlays", at_least=1)
    shades = page.evaluate("getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(shades) < 80
    assert dark_desktop.complaints == []


def test_a_button_copies_the_code(site: str, browser: Browser) -> None:
    with support_browser.visit(browser, permissions=["clipboard-read", "clipboard-write"]) as visit:
        page = visit.page
        page.goto(f"{site}/layers/jams/")
        page.evaluate(LISTEN)
        page.get_by_role("button", name="Copy: Leaflet").press("Enter")
        page.wait_for_function("() => window.heard[0] === 'Copied'")
        assert page.evaluate("navigator.clipboard.readText()") == snippet(page, "leaflet")


def test_where_the_clipboard_is_refused_the_code_is_selected(site: str, desktop: Visit) -> None:
    page = desktop.page
    page.add_init_script("navigator.clipboard.writeText = () => Promise.reject(new Error('refused'))")
    page.goto(f"{site}/layers/jams/")
    page.evaluate(LISTEN)
    page.get_by_role("button", name="Copy: Leaflet").click()
    page.wait_for_function("() => window.heard[0] === 'Selected'")
    assert page.evaluate("getSelection().toString()").strip() == snippet(page, "leaflet").strip()
    assert desktop.complaints == []


def test_without_javascript_everything_but_the_preview_is_there(site: str, browser: Browser) -> None:
    with support_browser.visit(browser, java_script_enabled=False) as visit:
        page = visit.page
        page.goto(f"{site}/layers/jams/")
        expect(page.locator("[data-facts]")).to_contain_text("Lines, coloured by speed")
        expect(page.locator("[data-tilejson]")).to_contain_text("3.0.0")
        expect(page.locator("#leaflet pre")).to_be_visible()
        expect(page.get_by_role("button", name="Copy")).to_have_count(0)


def test_the_state_follows_the_layer_and_its_end(stack: Stack, site: str, desktop: Visit, tmp_path: Path) -> None:
    line = tmp_path / "line.geojson"
    line.write_text('{"type":"LineString","coordinates":[[-10,50],[10,52]]}')
    stack.change_layers("load_layer", "passing", "--lines", str(line))
    page = desktop.page
    page.goto(f"{site}/layers/passing/")
    desktop.wait_for_tiles("overlays", at_least=1)
    known = page.evaluate("document.querySelector('[data-tilejson]').textContent")
    stack.change_layers("expire", "passing")
    renewed = "(known) => document.querySelector('[data-tilejson]').textContent !== known"
    page.wait_for_function(renewed, arg=known, timeout=REFRESH_SECONDS * 1000)
    assert desktop.complaints == []
    stack.change_layers("shell", "-c", "from resources.models import Layer; Layer.objects.get(slug='passing').delete()")
    expect(page.locator("[data-gone]")).to_contain_text("deleted or disabled", timeout=REFRESH_SECONDS * 1000)


def test_the_code_for_leaflet_shows_cold_tiles_on_another_site_and_asks_again_for_refused_ones(
    site: str, desktop: Visit
) -> None:
    page, refused = desktop.page, set[str]()
    page.goto(f"{site}/layers/jams/")
    code = snippet(page, "leaflet")

    def refuse_once(route: Route) -> None:
        if route.request.url in refused:
            route.fallback()
        else:
            refused.add(route.request.url)
            route.fulfill(status=503, headers={"Retry-After": "1"}, body="busy")

    page.route("https://unpkg.com/**", give_vendored_leaflet)
    page.route("**/tiles/jams/*/*/*.png", refuse_once)
    with another_site(deeper(code, 14)) as address:
        page.goto(address)
        wait_for_pictures(page, at_least=6)
    assert len(refused) >= 6
    assert [each for each in desktop.complaints if "503" not in each] == []
    eventually(lambda: shows_traffic(page), TILES_SECONDS, "the pictures are faded in")


def deeper(code: str, zoom: int) -> str:
    """The same code at a zoom that no other test has seen."""
    changed, count = re.subn(r"(setView\(.*?\], )\d+", rf"\g<1>{zoom}", code)
    assert count == 1
    return changed
