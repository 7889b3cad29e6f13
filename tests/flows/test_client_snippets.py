"""The code of docs/clients.md at a server that is busy at first, and then redirects: it asks again, and gets the tile.

Leaflet's page is run in test_layer_page.py. The other map libraries are not in this repository: here small stand-ins
load a tile as they do, and tell the page of a failure. QGIS is not run: of its code only the address is tried.
"""

import io
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests
from lxml.etree import fromstring
from PIL import Image
from playwright.sync_api import Browser, Route

from ..support.documentation import code_block
from ..support.server import Handler, serving
from ..support.stack import eventually

pytestmark = pytest.mark.no_database

PAGE, SITE = "docs/clients.md", "http://127.0.0.1:8000"
SECONDS = 40
REFUSALS = 2
WAITED = "/waited"


def picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (256, 256), "green").save(file, "png")
    return file.getvalue()


TILE = picture()


@dataclass(slots=True)
class BusySite:
    """Refuses each address twice, with Retry-After, then redirects, then answers with a tile or TileJSON."""

    url: str = ""
    asked: Counter[str] = field(default_factory=Counter)

    def answer(self, handler: Handler) -> None:
        path = handler.path.partition("?")[0]
        self.asked[path] += 1
        open_to_all = {"Access_Control_Allow_Origin": "*"}
        if path.endswith(".json"):
            handler.answer(200, b'{"tiles": ["%s/tiles/jams/0/0/0.png"]}' % self.url.encode(), **open_to_all)
        elif path.startswith(WAITED):
            handler.answer(200, TILE, Content_Type="image/png", **open_to_all)
        elif self.asked[path] <= REFUSALS:
            handler.answer(503, b"busy", Retry_After="1", **open_to_all)
        else:
            handler.answer(302, b"", Location=WAITED + path, **open_to_all)

    @property
    def has_sent_a_tile(self) -> bool:
        return any(path.startswith(WAITED) for path in self.asked)


@pytest.fixture
def busy() -> Iterator[BusySite]:
    site = BusySite()

    class Busy(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            site.answer(self)

    with serving(Busy) as site.url:
        yield site


def test_curl_asks_again(busy: BusySite, tmp_path: Path) -> None:
    line = code_block(PAGE, "", "curl").replace(SITE, busy.url)
    subprocess.run(shlex.split(line), cwd=tmp_path, check=True, timeout=SECONDS)
    assert (tmp_path / "tile.png").read_bytes() == TILE
    assert max(busy.asked.values()) == REFUSALS + 1


def test_requests_asks_again(busy: BusySite) -> None:
    names: dict[str, object] = {}
    exec(code_block(PAGE, "python", "import requests").replace(SITE, busy.url), names)
    assert names["tile"] == TILE
    assert max(busy.asked.values()) == REFUSALS + 1


def test_the_addresses_for_qgis_are_those_of_tiles(busy: BusySite) -> None:
    connections = fromstring(code_block(PAGE, "xml", "qgsXYZTilesConnections").encode())
    file = next(connections.iter("xyztiles")).get("url")
    console = code_block(PAGE, "python", "iface").partition("url=")[2].partition('"')[0]
    assert file == console
    address = re.sub("{[zxy]}", "0", console).replace(SITE, busy.url)
    busy.asked["/tiles/jams/0/0/0.png"] = REFUSALS
    assert requests.get(address, timeout=SECONDS).content == TILE


MAPLIBRE = """
async function load(map, source, { url, tiles }) {
  const [template] = tiles ?? (await (await fetch(url)).json()).tiles;
  const answer = await fetch(template.replace(/{[zxy]}/g, "0").replace("{ratio}", ""));
  if (!answer.ok) map.handlers.error({ error: new Error(answer.status), sourceId: source, tile: {} });
}
export class Map {
  constructor({ style }) {
    this.handlers = {};
    this.style = style;
    setTimeout(() => Object.keys(style.sources).forEach((source) => this.refreshTiles(source)));
  }
  on(name, handler) { this.handlers[name] = handler; }
  refreshTiles(source) { load(this, source, this.style.sources[source]); }
}
"""
OPENLAYERS = """
class Source {
  constructor({ url }) {
    this.handlers = {};
    const tile = { load: async () => {
      const template = url.endsWith(".json") ? (await (await fetch(url)).json()).tiles[0] : url;
      const answer = await fetch(template.replace(/{[zxy]}/g, "0"));
      if (!answer.ok) this.handlers.tileloaderror({ tile });
    } };
    setTimeout(tile.load);
  }
  on(name, handler) { this.handlers[name] = handler; }
}
window.ol = {
  proj: { fromLonLat: (position) => position },
  View: class {}, Map: class {}, layer: { Tile: class {} },
  source: { TileJSON: Source, XYZ: Source },
};
"""
WITH_TILEJSON = {
    "maplibre-gl": re.compile(r'^ *"jams": \{ type: "raster", url: .*$', re.MULTILINE),
    "ol@": re.compile(r"^ *const source = new ol\.source\.TileJSON.*?^  \}\);$", re.MULTILINE | re.DOTALL),
}
"""The source of each page, whose place the page's second block may take."""


MAPLIBRE_PAGE = code_block(PAGE, "html", "unpkg.com/maplibre-gl")
OPENLAYERS_PAGE = code_block(PAGE, "html", "unpkg.com/ol@")


def with_other_source(code: str, library: str, other_source: str) -> str:
    changed, number = WITH_TILEJSON[library].subn(lambda _: other_source, code)
    assert number == 1
    return changed


@pytest.mark.browser
@pytest.mark.parametrize(
    ("code", "stand_in"),
    [
        (MAPLIBRE_PAGE, MAPLIBRE),
        (with_other_source(MAPLIBRE_PAGE, "maplibre-gl", code_block(PAGE, "js", "{ratio}")), MAPLIBRE),
        (OPENLAYERS_PAGE, OPENLAYERS),
        (with_other_source(OPENLAYERS_PAGE, "ol@", code_block(PAGE, "js", "ol.source.XYZ")), OPENLAYERS),
    ],
    ids=["MapLibre", "MapLibre without TileJSON", "OpenLayers", "OpenLayers without TileJSON"],
)
def test_a_page_asks_again_for_tiles_that_its_library_gave_up(
    browser: Browser, busy: BusySite, code: str, stand_in: str
) -> None:
    code = code.replace(SITE, busy.url)
    page = browser.new_page()

    def give_stand_in(route: Route) -> None:
        is_script = re.search(r"\.m?js$", route.request.url)
        kind, body = ("text/javascript", stand_in) if is_script else ("text/css", "")
        route.fulfill(status=200, body=body, content_type=kind, headers={"Access-Control-Allow-Origin": "*"})

    def pass_time() -> bool:
        page.clock.run_for(1000)
        return busy.has_sent_a_tile

    try:
        page.clock.install()
        page.route("https://unpkg.com/**", give_stand_in)
        page.route(f"{busy.url}/page", lambda route: route.fulfill(status=200, body=code, content_type="text/html"))
        page.goto(f"{busy.url}/page")
        eventually(pass_time, SECONDS, "the tile is asked for until it is there")
        assert busy.asked["/tiles/jams/0/0/0.png"] == REFUSALS + 1
    finally:
        page.close()
