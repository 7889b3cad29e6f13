"""Hostile files in Chromium: whatever a page does with them, nothing of them runs in the site's name."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.flows import browsing
from tests.flows.stack import eventually
from tests.hostile import files, showing
from tests.hostile.showing import TRY, Watch, visit

pytestmark = pytest.mark.browser

HOSTILE = {**files.RUNNING, **files.CUT_SHORT, "texts.png": files.BOMBS["texts.png"]}
SHOWN = {name: body for name, body in files.PICTURES.items() if not name.endswith(("jp2", "tiff"))}
"""Chromium shows the others not at all."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing.chromium() as running:
        yield running


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    opened = browser.new_context()
    yield opened
    opened.close()


@pytest.fixture
def watch(context: BrowserContext) -> Watch:
    watching = Watch()
    watching.over(context)
    return watching


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with showing.serving({**HOSTILE, **SHOWN, "sound.wav": files.wave()}) as address:
        yield address


def addresses(site: str, manner: str) -> dict[str, str]:
    return {name: f"{site}/{manner}/{number}" for number, name in enumerate(HOSTILE)}


def test_a_page_of_the_site_itself_cannot_make_them_run(context: BrowserContext, watch: Watch, site: str) -> None:
    page = context.new_page()
    page.goto(site)
    page.evaluate(TRY, list(addresses(site, "safe").values()))
    watch.look(page)

    assert page.evaluate("() => document.cookie") == showing.COOKIE
    assert watch.ran == []


def test_nothing_runs_where_one_goes_to_them(context: BrowserContext, watch: Watch, site: str) -> None:
    page = context.new_page()
    page.goto(site)
    for name, address in addresses(site, "safe").items():
        assert visit(page, address) in (None, ""), name
        watch.look(page)

    assert watch.ran == []


@pytest.mark.parametrize("name", ["page.html", "drawing.svg", "page.xhtml", "page in a JPEG.jpeg"])
def test_the_same_files_run_where_they_are_served_carelessly(
    context: BrowserContext, watch: Watch, site: str, name: str
) -> None:
    context.new_page().goto(site)
    visit(context.new_page(), addresses(site, "careless")[name])

    assert any(showing.COOKIE in what for what in watch.ran)


@pytest.mark.parametrize("name", ["script.js", "script in a GIF.gif"])
def test_so_do_scripts(context: BrowserContext, watch: Watch, site: str, name: str) -> None:
    page = context.new_page()
    page.goto(site)
    page.evaluate(TRY, [addresses(site, "careless")[name]])
    watch.look(page)

    assert watch.ran


def test_pictures_sound_and_drawings_still_show(context: BrowserContext, site: str) -> None:
    page = context.new_page()
    page.goto(site)
    numbers = {name: len(HOSTILE) + number for number, name in enumerate([*SHOWN, "sound.wav"])}
    drawing = addresses(site, "safe")["drawing.svg"]
    sized = {name: f"{site}/safe/{numbers[name]}" for name in SHOWN} | {"drawing.svg": drawing}

    widths = page.evaluate(WIDTHS, sized)
    assert widths == {name: 16 if name == "a.ico" else 40 for name in sized}
    page.goto(sized["a.png"])
    assert page.evaluate("() => document.images[0].naturalWidth") == 40
    page.goto(f"{site}/safe/{numbers['sound.wav']}")
    eventually(lambda: page.evaluate("() => document.querySelector('video, audio').duration") == 0.2, 10, "it plays")
    page.goto(addresses(site, "safe")["script.js"])
    assert "globalThis.ran" in page.inner_text("body")


WIDTHS = """async (addresses) => {
  const width = async (address) => {
    const image = Object.assign(new Image(), { src: address });
    await image.decode();
    return image.naturalWidth;
  };
  const found = Object.entries(addresses).map(async ([name, address]) => [name, await width(address)]);
  return Object.fromEntries(await Promise.all(found));
}"""
