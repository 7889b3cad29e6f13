"""The map in a real browser, on the whole stack with the demo's data."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from playwright.sync_api import Request, expect

from resources.demo import load

from ..support import geojson
from ..support.browser import TILES_SECONDS, Visit, imported
from ..support.stack import Stack

pytestmark = pytest.mark.browser

ANSWERED_AT_ONCE = ("browser", "hot", "cache", "stale")
SHOWN_SECONDS = 18
"""Until new data are on an open map: the page polls, nginx keeps answers for a moment, and tiles are painted."""
CENTRAL_LONDON = "#12/51.510/-0.130"
JAMS_ALONE = "without:land,countries,london,earthquakes"
"""Each layer in sight costs the browser and the painters."""

SHOWS_STANDING = """() => [...document.querySelectorAll(".leaflet-overlays-pane img")].some((image) => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 256;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, 256, 256).data;
  for (let i = 0; i < pixels.length; i += 4) {
    if (pixels[i] > 120 && pixels[i] < 160 && pixels[i + 1] < 40 && pixels[i + 3] > 250) return true;
  }
  return false;
})"""

OLDER_CHANGES = """
const send = window.fetch;
let answered = false;
window.looks = 0;
window.fetch = async (address, options) => {
  const response = await send(address, options);
  if (!String(address).endsWith("/changes.json")) return response;
  const look = ++window.looks;
  const isOlder = look <= 2 || !answered;
  const body = await response.json();
  if (isOlder) delete body.layers.countries;
  if (look === 1) await new Promise((resolve) => setTimeout(resolve, 2500));
  answered = true;
  const copy = look === 2 ? "STALE" : "HIT";
  return Response.json(body, { headers: { "Server-Timing": `front;desc=${copy}` } });
};
"""
"""The front's first answers are a copy without a layer. The first comes late; the second lets the front renew it."""


def told(site: str, *gone: str) -> dict[str, Any]:
    """The layers in the change feed, as if there were some no more."""
    layers = requests.get(f"{site}/changes.json", timeout=10).json()["layers"]
    return {slug: one for slug, one in layers.items() if slug not in gone}


def test_the_map_fills_with_tiles_that_did_not_exist_and_tells_how(site: str, desktop: Visit) -> None:
    page, names = desktop.page, list[str]()
    page.on("response", lambda response: names.append(urlsplit(response.url).path.rpartition("/")[2]))
    page.goto(f"{site}/#13/51.530/-0.100")
    expect(page.locator('[data-kind="waited"] [data-count]')).not_to_have_text("0", timeout=TILES_SECONDS * 1000)
    expect(page.locator("[data-last]")).to_contain_text("redirects")
    desktop.wait_for_tiles("overlays", at_least=6)
    desktop.wait_for_tiles("base", at_least=6)
    desktop.wait_until_filled()
    expect(page.locator("#note-jams")).to_contain_text("generated")
    expect(page.locator(".leaflet-control-attribution")).to_contain_text("OpenStreetMap")
    modules = [name for name in names if name.endswith(".js")]
    assert len(modules) == len(imported("map.js")) + 1  # and Leaflet
    assert all(re.fullmatch(r"\w+\.[0-9a-f]{12}\.js", name) for name in modules)

    page.reload()
    desktop.wait_until_filled()
    at_once = page.locator(", ".join(f'[data-kind="{kind}"] [data-count]' for kind in ANSWERED_AT_ONCE))
    assert sum(int(text) for text in at_once.all_inner_texts()) > 0
    assert desktop.complaints == []
    assert desktop.hosts == {urlsplit(site).netloc}


def test_what_is_there_is_shown_while_the_rest_is_waited_for(stack: Stack, site: str, desktop: Visit) -> None:
    place = "#14/51.600/0.100"  # nothing of it was in sight before
    desktop.page.goto(f"{site}/{place}/without:jams,earthquakes")
    desktop.wait_for_tiles("base", at_least=6)
    desktop.wait_until_filled()
    stack.freeze("paint-now", children=True)
    try:
        desktop.page.goto("about:blank")
        desktop.page.goto(f"{site}/{place}")
        desktop.wait_for_tiles("base", at_least=6)
        assert desktop.page.locator(".leaflet-overlays-pane img.leaflet-tile-loaded").count() == 0
    finally:
        stack.thaw("paint-now", children=True)
    desktop.wait_until_filled()


def test_the_keyboard_alone_moves_the_map_and_switches_layers(site: str, desktop: Visit) -> None:
    page = desktop.page
    page.goto(f"{site}/{CENTRAL_LONDON}/without:earthquakes")
    desktop.wait_for_tiles("overlays", at_least=1)
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#map")).to_be_focused()
    assert page.url.endswith("-0.1300/without:earthquakes")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => !location.hash.includes('/-0.13') && location.hash.startsWith('#12/')")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.layer") == "jams":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("Space")
    expect(page.locator(".leaflet-overlays-pane img")).to_have_count(0)
    assert page.url.endswith("/without:jams,earthquakes")
    page.keyboard.press("Space")
    desktop.wait_for_tiles("overlays", at_least=1)


def test_the_address_brings_back_the_view_at_first_and_later(site: str, desktop: Visit) -> None:
    page = desktop.page
    page.goto(f"{site}/#%")  # which cannot be decoded: the first view
    desktop.wait_for_tiles("overlays", at_least=2)
    page.goto("about:blank")
    page.goto(f"{site}/#5/48.86/2.35/without:countries")
    desktop.wait_for_tiles("base", at_least=4)
    assert page.url.endswith("#5/48.86/2.35/without:countries")
    expect(page.locator('[data-layer="countries"]')).not_to_be_checked()
    page.evaluate("location.hash = '#6/48.86/2.35/without:jams,earthquakes,london'")
    expect(page.locator('[data-layer="jams"]')).not_to_be_checked()
    expect(page.locator(".leaflet-overlays-pane img")).to_have_count(0)
    page.wait_for_function("() => location.hash.startsWith('#6/48.86/2.35/without:')")
    assert desktop.complaints == []


def test_layers_in_sight_are_credited_and_a_button_shows_all_of_one(site: str, desktop: Visit) -> None:
    page = desktop.page
    page.goto(f"{site}/#5/36.00/-119.00/without:jams")
    desktop.wait_for_tiles("overlays", at_least=2)
    entry = page.locator(".layer", has=page.locator('[data-layer="earthquakes"]'))
    expect(entry.locator(".legend li")).to_have_text(["1", "2–9", "10–99", "100 and more"])
    shown = page.locator(".leaflet-control-attribution")
    for text in ("Natural Earth", "U.S. Geological Survey"):
        expect(shown).to_contain_text(text)
    expect(shown).not_to_contain_text("OpenStreetMap")
    page.get_by_role("button", name="Show London Underground").press("Enter")
    desktop.wait_for_tiles("overlays", at_least=2)
    assert page.locator('[data-layer="jams"]').is_checked()
    link = shown.get_by_role("link", name="openstreetmap.org")
    expect(link).to_have_attribute("href", "https://www.openstreetmap.org/copyright")
    assert desktop.complaints == []


def test_many_layers_with_long_titles_leave_controls_their_size_and_panel_in_sight(site: str, desktop: Visit) -> None:
    page = desktop.page
    page.goto(f"{site}/{CENTRAL_LONDON}/{JAMS_ALONE}")
    page.evaluate(
        """() => {
      const layer = document.querySelector(".layer");
      layer.querySelector("label").lastChild.textContent = "A title " + "without end".repeat(20);
      for (let i = 0; i < 30; i++) layer.parentNode.append(layer.cloneNode(true));
    }"""
    )
    checkbox = page.locator(".layer input").first.bounding_box()
    assert checkbox is not None
    assert (checkbox["width"], checkbox["height"]) == (16, 16)
    for target in (".layer label", ".switch a", ".switch button"):
        box = page.locator(target).first.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 24
    expect(page.locator("[data-last]")).to_be_in_viewport()
    assert page.get_by_role("main").get_by_role("application").count() == 1


def test_layers_that_go_leave_the_page_and_later_ones_are_told_of(site: str, desktop: Visit) -> None:
    page, layers = desktop.page, told(site, "countries")
    page.route("**/changes.json", lambda route: route.fulfill(json={"layers": layers}))
    page.goto(f"{site}/{CENTRAL_LONDON}/without:earthquakes")
    expect(page.locator('[data-layer="countries"]')).to_have_count(0)
    expect(page.locator('[data-layer="jams"]')).to_be_checked()
    with page.expect_response("**/changes.json"):
        pass  # another look finds nothing to take away
    button = page.get_by_role("button", name="Reload")
    expect(button).to_be_hidden()
    assert desktop.complaints == []
    layers["new"] = {"version": 1, "since": 1, "changes": []}
    expect(button).to_be_visible()
    with page.expect_navigation():
        button.click()
    assert page.url.endswith("/without:earthquakes")


def test_a_copy_from_before_the_page_takes_no_layer_away(site: str, desktop: Visit) -> None:
    page = desktop.page
    page.add_init_script(OLDER_CHANGES)
    page.goto(f"{site}/{CENTRAL_LONDON}/without:earthquakes")
    page.wait_for_function("() => window.looks >= 4", timeout=TILES_SECONDS * 1000)
    expect(page.locator('[data-layer="countries"]')).to_be_checked()


def test_a_phone_shows_the_map_without_scrolling_sideways(site: str, phone: Visit) -> None:
    phone.page.goto(site)
    phone.wait_for_tiles("overlays", at_least=2)
    width = phone.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1]
    phone.page.get_by_text("Layers", exact=True).tap()
    phone.page.get_by_label("London Underground").tap()
    phone.page.get_by_label("Earthquakes").tap()
    expect(phone.page.locator(".leaflet-overlays-pane img")).to_have_count(0)
    assert phone.complaints == []


def test_dark_mode_darkens_the_page_and_the_base_map(site: str, dark_desktop: Visit) -> None:
    page = dark_desktop.page
    page.goto(f"{site}/{CENTRAL_LONDON}/without:countries,jams,earthquakes")
    dark_desktop.wait_for_tiles("base", at_least=6)
    assert "invert" in page.evaluate("getComputedStyle(document.querySelector('.leaflet-base-pane')).filter")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") != "light"
    assert (
        max(page.evaluate("getComputedStyle(document.body.parentNode).backgroundColor.match(/\\d+/g).map(Number)")) < 80
    )
    assert dark_desktop.complaints == []


def load_jams(stack: Stack, directory: Path, share: float) -> None:
    """Loads for each segment of the demo the same share of its free flow."""
    rows = [
        f"{segment.key},{segment.free_flow_kmh * share},{segment.free_flow_kmh}" for segment in load.read_segments()
    ]
    file = directory / f"{share}.csv"
    file.write_text("\n".join(["segment_id,speed_kmh,free_flow_kmh", *rows]))
    stack.change_layers("load_speeds", "jams", str(file))


def test_new_speeds_show_without_touching_the_page(stack: Stack, site: str, desktop: Visit, tmp_path: Path) -> None:
    load_jams(stack, tmp_path, share=1)  # the generated speeds depend on the clock
    desktop.page.goto(f"{site}/#12/51.700/-0.600/{JAMS_ALONE}")
    desktop.wait_for_tiles("overlays", at_least=1)
    desktop.page.wait_for_function(f"() => !({SHOWS_STANDING})()", timeout=TILES_SECONDS * 1000)
    load_jams(stack, tmp_path, share=0.02)
    desktop.page.wait_for_function(SHOWS_STANDING, timeout=SHOWN_SECONDS * 1000)
    assert desktop.complaints == []


def load_two_lines(stack: Stack, slug: str, directory: Path) -> Path:
    """Loads a layer of two lines; answers the file with another speed for that which is near the equator."""
    lines = [geojson.line(name, [[-60, y], [60, y]], speed=50, free_flow=50) for name, y in (("near", 3), ("far", 40))]
    layer, changed = directory / "lines.geojson", directory / "changed.csv"
    layer.write_bytes(geojson.collection(*lines))
    changed.write_text("segment_id,speed_kmh,free_flow_kmh\nnear,5,50\n")
    stack.change_layers("load_layer", slug, "--lines", str(layer), "--style", '{"widths": {"0": 12}}')
    return changed


def test_only_what_a_change_touches_is_marked_stale_and_asked_for_again(
    stack: Stack, site: str, desktop: Visit, tmp_path: Path
) -> None:
    file, others = load_two_lines(stack, "crossing", tmp_path), "land,countries,jams,earthquakes,london"
    page, asked = desktop.page, list[str]()
    page.goto(f"{site}/#4/20.000/0.000/without:{others}")
    desktop.wait_for_tiles("overlays", at_least=6)
    desktop.wait_until_filled()

    def note(request: Request) -> None:
        if "/tiles/" in request.url:
            asked.append(urlsplit(request.url).path)

    page.on("request", note)
    stack.freeze("paint-refresh", children=True)
    try:
        stack.change_layers("load_speeds", "crossing", "--update", str(file))
        expect(page.locator("[data-stale]")).to_contain_text("stale", timeout=TILES_SECONDS * 1000)
        marked = page.locator("img.stale").count()
        assert 0 < marked < page.locator(".leaflet-overlays-pane img").count()
    finally:
        stack.thaw("paint-refresh", children=True)
    desktop.page.wait_for_function(SHOWS_STANDING, timeout=TILES_SECONDS * 1000)
    expect(page.locator("img.stale")).to_have_count(0, timeout=TILES_SECONDS * 1000)
    expect(page.locator("[data-stale]")).to_be_empty()
    assert {path.split("/")[2] for path in asked} == {"crossing"}
    assert {path.split("/")[5] for path in asked} == {"7.png"}  # the row of the line that changed
    assert desktop.complaints == []


def test_busy_answers_are_asked_for_again_until_the_map_is_full(site: str, desktop: Visit) -> None:
    refused: set[str] = set()

    def refuse_once(route):  # type: ignore[no-untyped-def]
        if route.request.url in refused:
            route.continue_()
        else:
            refused.add(route.request.url)
            route.fulfill(status=503, headers={"Retry-After": "1"}, body="busy")

    desktop.page.route("**/tiles/jams/*/*/*.png", refuse_once)
    desktop.page.goto(f"{site}/{CENTRAL_LONDON}/{JAMS_ALONE}")
    desktop.wait_for_tiles("overlays", at_least=6)
    assert len(refused) >= 6
