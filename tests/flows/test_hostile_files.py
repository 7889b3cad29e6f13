"""Mirrored files in Chromium, and their thumbnails: nothing runs in the site's name, and harmless files show."""

import io
from collections.abc import Iterator, Mapping
from hashlib import sha256
from urllib.parse import urlsplit

import psutil
import pytest
from PIL import Image
from playwright.sync_api import Browser, BrowserContext

from ..hostile import browser_visits, files
from ..hostile.browser_visits import COOKIE, TRY, WIDTHS, Watch, named, visit
from ..support import file_server
from ..support.crowd import Crowd
from ..support.processes import peak_bytes
from ..support.stack import Stack, eventually

HOSTILE = {**files.RUNNING, **files.CUT_SHORT, "texts.png": files.BOMBS["texts.png"]}
SHOWN = {name: body for name, body in files.PICTURES.items() if not name.endswith(("jp2", "tiff"))}
"""Chromium shows the others nowhere."""
TAKEN_DOWN = files.picture("PNG", (41, 31))
LARGE = files.picture("JPEG", (1200, 800))
ALL = {**HOSTILE, **SHOWN, "sound.wav": files.wave(), "taken down.png": TAKEN_DOWN, "large.jpeg": LARGE}

MOST_MEMORY_BYTES = 512_000_000

INGEST = """
from django.core.management import call_command
from resources.fetch import host_settings
host_settings.change_domain({host!r}, delay_seconds=0, in_flight=8)
call_command("ingest", {file!r})
"""


@pytest.fixture(scope="module")
def mirrored(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The addresses of all files, by their names. They were fetched from an origin that calls all of them HTML."""
    bodies = {**ALL, **files.BOMBS}
    listed = tmp_path_factory.mktemp("files") / "urls"
    with file_server.running() as origin:
        origin.files = {f"/{number}": body for number, body in enumerate(bodies.values())}
        listed.write_text("".join(f"{origin.url}{path}\n" for path in origin.files))
        stack.manage("shell", "-c", INGEST.format(host=urlsplit(origin.url).netloc, file=str(listed)))
    return {name: f"{stack.base_url}/resources/{sha256(body).hexdigest()}" for name, body in bodies.items()}


@pytest.fixture
def context(browser: Browser, stack: Stack) -> Iterator[BrowserContext]:
    """A browser with a cookie of the site that any script could read."""
    opened = browser.new_context()
    name, _, value = COOKIE.partition("=")
    opened.add_cookies([{"name": name, "value": value, "url": stack.base_url}])
    yield opened
    opened.close()


@pytest.fixture
def watch(context: BrowserContext) -> Watch:
    watching = Watch()
    watching.over(context)
    return watching


@pytest.mark.browser
def test_no_page_can_make_them_run(
    context: BrowserContext, watch: Watch, mirrored: Mapping[str, str], stack: Stack
) -> None:
    page = context.new_page()
    page.goto(f"{stack.base_url}/healthz")  # of the site itself, and without a policy of its own
    page.evaluate(TRY, [mirrored[name] for name in HOSTILE])
    watch.look(page)

    assert page.evaluate("() => document.cookie") == COOKIE
    assert watch.ran == []


@pytest.mark.browser
def test_nothing_runs_where_one_goes_to_them(
    context: BrowserContext, watch: Watch, mirrored: Mapping[str, str], stack: Stack
) -> None:
    page = context.new_page()
    for name in HOSTILE:
        assert visit(page, mirrored[name]) in (None, ""), name
        watch.look(page)

    assert watch.ran == []


@pytest.mark.browser
@pytest.mark.no_database
def test_the_same_files_run_where_they_are_served_carelessly(browser: Browser) -> None:
    navigated = ("page.html", "drawing.svg", "page.xhtml", "page in a JPEG.jpeg")
    with browser_visits.careless(files.RUNNING) as site:
        for name in (*navigated, "script.js", "script in a GIF.gif"):
            context, watch = browser.new_context(), Watch()
            watch.over(context)
            page = context.new_page()
            page.goto(site)
            if name in navigated:
                visit(page, named(site, name))
            else:
                page.evaluate(TRY, [named(site, name)])
            context.close()
            assert any(COOKIE in what for what in watch.ran), name


@pytest.mark.browser
def test_pictures_sound_drawings_and_text_still_show(context: BrowserContext, mirrored: Mapping[str, str]) -> None:
    page = context.new_page()
    page.goto(mirrored["a.png"])
    assert page.evaluate("() => document.images[0].naturalWidth") == 40
    page.goto(mirrored["sound.wav"])
    eventually(lambda: page.evaluate("() => document.querySelector('video, audio').duration") == 0.2, 10, "it plays")
    page.goto(mirrored["script.js"])
    assert "globalThis.ran" in page.inner_text("body")


@pytest.mark.browser
def test_other_sites_show_images_and_their_thumbnails(
    context: BrowserContext, mirrored: Mapping[str, str], other_page_address: str
) -> None:
    page = context.new_page()
    page.goto(other_page_address)
    images = {name: mirrored[name] for name in (*SHOWN, "drawing.svg")}
    small = {f"small {name}": f"{mirrored[name]}/20x20.webp" for name in SHOWN}

    widths = page.evaluate(WIDTHS, {**images, **small})
    assert {name: widths[name] for name in images} == {name: 16 if name == "a.ico" else 40 for name in images}
    assert {name: widths[name] for name in small} == {name: 16 if "ico" in name else 20 for name in small}


def test_a_thumbnail_is_painted_once_for_all_who_wait_and_each_fit_is_another(
    stack: Stack, crowd: Crowd, mirrored: Mapping[str, str]
) -> None:
    address = f"/resources/{mirrored['large.jpeg'].rpartition('/')[2]}/300x300.png"
    before = painted(stack)
    stack.freeze("paint-now", children=True)
    try:
        sent = crowd.send([address] * 20)
        eventually(lambda: [len(visit.answers) for visit in crowd.visits] == [1] * 20, 20, "all of them wait")
    finally:
        stack.thaw("paint-now", children=True)
    contained = sent.result(30)
    cropped = crowd.visit(f"{address}?fit=crop")

    assert {tuple(visit.statuses) for visit in contained} == {(302, 302, 200)}
    assert len({visit.body for visit in contained}) == 1
    assert Image.open(io.BytesIO(contained[0].body)).size == (300, 200)
    assert Image.open(io.BytesIO(cropped.body)).size == (300, 300)
    again = crowd.visit(address)
    assert again.body == contained[0].body
    assert again.answers[-1].headers["Content-Security-Policy"].startswith("sandbox;")
    eventually(lambda: painted(stack) - before >= 2, 5, "both are counted")
    assert painted(stack) - before == 2


@pytest.mark.no_database
def test_what_takes_much_memory_elsewhere_takes_little_of_fetchers_and_painters(
    stack: Stack, crowd: Crowd, mirrored: Mapping[str, str]
) -> None:
    bombs = [mirrored[name].removeprefix(stack.base_url) for name in files.BOMBS]
    assert {crowd.visit(address).status for address in bombs} == {200}
    small = {crowd.visit(f"{address}/20x20.webp").status for address in bombs}
    assert small <= {200, 415, 422, 502}
    harmless = mirrored["large.jpeg"].removeprefix(stack.base_url)
    assert crowd.visit(f"{harmless}/20x20.webp").status == 200
    pids = [pid for name in ("fetch", "paint-now", "main") for pid in stack.pids(name)]
    assert any("resources.mirror.media.thumbnail_process" in psutil.Process(pid).cmdline() for pid in pids)
    assert max(map(peak_bytes, pids)) < MOST_MEMORY_BYTES


def painted(stack: Stack) -> float:
    """The number of thumbnails painted so far."""
    return stack.metric("tarry_preparations_total", task="thumbnail")


@pytest.mark.no_database
def test_a_broken_image_is_told_as_one_and_costs_no_painter(crowd: Crowd, mirrored: Mapping[str, str]) -> None:
    digest = mirrored["cut short.png"].rpartition("/")[2]
    failed = crowd.visit(f"/resources/{digest}/20x20.png")

    assert (failed.statuses, b"The image is broken" in failed.body) == ([302, 302, 502], True)
    assert crowd.visit(f"/resources/{digest}/20x20.webp").status == 502


def test_thumbnails_of_what_was_taken_down_are_gone(stack: Stack, crowd: Crowd, mirrored: Mapping[str, str]) -> None:
    digest = mirrored["taken down.png"].rpartition("/")[2]
    address = f"/resources/{digest}/20x20.png"
    assert crowd.visit(address).status == 200

    stack.manage("shell", "-c", TAKE_DOWN.format(digest=digest))
    eventually(lambda: crowd.visit(address).status == 410, 5, "it is gone from the caches")


TAKE_DOWN = """
from datetime import UTC, datetime
from resources.mirror.models import Blob
Blob.objects.filter(digest="{digest}").update(taken_down_at=datetime.now(UTC))
"""
