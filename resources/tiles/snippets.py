"""Code that shows one layer in other maps, for each map library. The texts are read once, when imported. PURE.

A layer's title and attribution are text: characters that HTML, JavaScript, Python or XML take for code are quoted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import quote

LEAFLET_VERSION = "1.9.4"
MAPLIBRE_VERSION = "6.17.0"
OPENLAYERS_VERSION = "10.11.0"
DEEPEST_ZOOM = 18
"""The zoom that maps reach even if a layer ends before: its last tiles are enlarged."""
DENSE_REMARK = "Dense screens get tiles of twice the pixels."


@dataclass(frozen=True, slots=True)
class SnippetSubject:
    """The layer that snippets show. `site` is the address of this site without a path."""

    site: str
    slug: str
    title: str
    attribution: str
    min_zoom: int
    max_zoom: int
    latitude: float
    longitude: float
    zoom: int
    dense: bool = True
    """True if there are tiles of twice the pixels."""

    def tiles(self, density: str = "") -> str:
        """Returns the template of the tiles' addresses, with `density` before `.png` if there is more than one."""
        density = density if self.dense else ""
        return f"{self.site}/tiles/{self.slug}/{{z}}/{{x}}/{{y}}{density}.png"

    @property
    def tilejson(self) -> str:
        return f"{self.site}/tiles/{self.slug}.json"


@dataclass(frozen=True, slots=True)
class SnippetTemplate:
    """A snippet before it is filled in: its anchor, headline, remark and text."""

    name: str
    title: str
    remark: str
    text: Template
    chooses: bool = False
    """True if it requests tiles of twice the pixels on dense screens."""

    @classmethod
    def read(cls, file: str, title: str, remark: str, *, chooses: bool = False) -> "SnippetTemplate":
        path = Path(__file__).parent / "snippet_texts" / file
        return cls(path.stem.replace("_", "-"), title, remark, Template(path.read_text().rstrip("\n")), chooses)

    def fill(self, values: Mapping[str, object], *, dense: bool) -> "Snippet":
        remark = f"{self.remark} {DENSE_REMARK}" if self.chooses and dense else self.remark
        return Snippet(self.name, self.title, remark, self.text.substitute(values))


@dataclass(frozen=True, slots=True)
class Snippet:
    """Code to be copied."""

    name: str
    title: str
    remark: str
    code: str


SNIPPET_TEMPLATES = (
    SnippetTemplate.read("leaflet.html", "Leaflet", "A whole page.", chooses=True),
    SnippetTemplate.read(
        "maplibre.html", "MapLibre GL JS", "A whole page. Zooms, bounds and attribution come from the TileJSON."
    ),
    SnippetTemplate.read(
        "maplibre_tiles.js", "MapLibre GL JS, without TileJSON", "A source for the page above.", chooses=True
    ),
    SnippetTemplate.read(
        "openlayers.html", "OpenLayers", "A whole page. Zooms and attribution come from the TileJSON."
    ),
    SnippetTemplate.read(
        "openlayers_xyz.js", "OpenLayers, without TileJSON", "A source for the page above.", chooses=True
    ),
    SnippetTemplate.read(
        "qgis.xml",
        "QGIS, a connection file",
        "Save it as .xml. In the Browser panel, right-click XYZ Tiles and choose Load Connections.",
    ),
    SnippetTemplate.read("qgis_console.txt", "QGIS, the Python console", "Adds the layer to the open project."),
)


def fill_snippets(subject: SnippetSubject) -> list[Snippet]:
    values = _template_values(subject)
    return [form.fill(values, dense=subject.dense) for form in SNIPPET_TEMPLATES]


def _template_values(subject: SnippetSubject) -> dict[str, object]:
    attribution = escape(subject.attribution, quote=False)  # libraries put it into the page as HTML
    return {
        "leaflet": LEAFLET_VERSION,
        "maplibre": MAPLIBRE_VERSION,
        "openlayers": OPENLAYERS_VERSION,
        "title_html": escape(subject.title),
        "title_py": json.dumps(subject.title, ensure_ascii=False),
        "title_xml": _quote_attribute(subject.title),
        "slug_js": _quote_script(subject.slug),
        "attribution_js": _quote_script(attribution),
        "tiles_js": _quote_script(subject.tiles()),
        "tiles_twice_js": _quote_script(subject.tiles("@2x")),
        "tiles_leaflet_js": _quote_script(subject.tiles("{r}")),
        "tiles_maplibre_js": _quote_script(subject.tiles("{ratio}")),
        "is_dense_js": "window.devicePixelRatio > 1" if subject.dense else "false",
        "tiles_xml": _quote_attribute(subject.tiles()),
        "tilejson_js": _quote_script(subject.tilejson),
        "qgis_source_py": json.dumps(_qgis_source(subject), ensure_ascii=False),
        "min_zoom": subject.min_zoom,
        "max_zoom": subject.max_zoom,
        "deepest_zoom": max(DEEPEST_ZOOM, subject.max_zoom),
        "latitude": round(subject.latitude, 4),
        "longitude": round(subject.longitude, 4),
        "zoom": subject.zoom,
        "zoom_of_512": max(0, subject.zoom - 1),
    }


def _quote_script(text: str) -> str:
    """Quotes a string of JavaScript for a page: `</script>` in it ends nothing."""
    return json.dumps(text, ensure_ascii=False).replace("<", "\\u003c")


def _quote_attribute(text: str) -> str:
    """Quotes an attribute of XML, on one line."""
    return f'"{escape(" ".join(text.split()), quote=True)}"'


def _qgis_source(subject: SnippetSubject) -> str:
    """Returns the parameters of QGIS' provider `wms`, which shows XYZ tiles."""
    address = quote(subject.tiles(), safe=":/{}@")
    return f"type=xyz&zmin={subject.min_zoom}&zmax={subject.max_zoom}&url={address}"
