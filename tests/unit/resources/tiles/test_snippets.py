"""Snippets for map clients: Leaflet, QGIS and the documentation."""

import ast
import dataclasses
import json
import re
from urllib.parse import parse_qs
from xml.etree import ElementTree

import pytest

from project.paths import BASE_DIR
from resources.tiles import snippets
from tests.support.documentation import code_block

DEMO = snippets.SnippetSubject(
    site="http://127.0.0.1:8000",
    slug="jams",
    title="London Underground",
    attribution="© OpenStreetMap contributors, https://www.openstreetmap.org/copyright",
    min_zoom=0,
    max_zoom=18,
    latitude=51.5539,
    longitude=-0.1791,
    zoom=10,
)
HOSTILE = '</script><!-- "O\'Neill" & \\ {z} $title\n\u2028\U0001f687'
"""Ends, opens or leaves what it stands in, wherever it is not quoted."""


def code(name: str, subject: snippets.SnippetSubject = DEMO) -> str:
    return next(snippet.code for snippet in snippets.fill_snippets(subject) if snippet.name == name)


@pytest.mark.parametrize("snippet", snippets.fill_snippets(DEMO), ids=lambda snippet: snippet.name)
def test_the_documentation_shows_each_snippet_as_the_page_does(snippet: snippets.Snippet) -> None:
    blocks = re.findall(r"```\w*\n(.*?)\n```", (BASE_DIR / "docs" / "clients.md").read_text(), re.DOTALL)
    assert snippet.code in blocks


def test_leaflet_of_the_documentation_is_that_of_the_page_which_a_browser_runs() -> None:
    assert code_block("docs/clients.md", "html", "unpkg.com/leaflet@") == code("leaflet")


def test_leaflet_is_the_version_that_this_site_uses() -> None:
    vendored = (BASE_DIR / "resources/static/vendor/leaflet/README.md").read_text()
    assert f"Leaflet {snippets.LEAFLET_VERSION}," in vendored


@pytest.mark.parametrize("name", ["leaflet", "maplibre", "openlayers"])
def test_nothing_in_a_text_ends_the_script_or_the_title_of_a_page(name: str) -> None:
    plain = code(name)
    hostile = code(name, dataclasses.replace(DEMO, title=HOSTILE, attribution=HOSTILE))
    for mark in ("<script", "</script", "<!--", "<title", "</title"):
        assert hostile.count(mark) == plain.count(mark)


@pytest.mark.parametrize("name", ["leaflet", "maplibre-tiles", "openlayers-xyz"])
def test_an_attribution_is_a_string_of_escaped_html(name: str) -> None:
    hostile = code(name, dataclasses.replace(DEMO, attribution='<b> & "quoted"'))
    found = re.search(r'attributions?: (".*"),$', hostile, re.MULTILINE)
    assert found is not None
    assert json.loads(found[1]) == '&lt;b&gt; &amp; "quoted"'


def test_the_qgis_connection_is_xml_whatever_the_title_is() -> None:
    root = ElementTree.fromstring(code("qgis", dataclasses.replace(DEMO, title=HOSTILE)).partition("\n")[2])
    [connection] = root
    assert connection.get("name") == " ".join(HOSTILE.split())
    assert connection.get("url") == "http://127.0.0.1:8000/tiles/jams/{z}/{x}/{y}.png"
    assert (connection.get("zmin"), connection.get("zmax")) == ("0", "18")


def test_the_line_for_the_qgis_console_is_python_whatever_the_title_is() -> None:
    [statement] = ast.parse(code("qgis-console", dataclasses.replace(DEMO, title=HOSTILE))).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    source, title, provider = (ast.literal_eval(argument) for argument in statement.value.args)
    assert (title, provider) == (HOSTILE, "wms")
    assert parse_qs(source)["url"] == ["http://127.0.0.1:8000/tiles/jams/{z}/{x}/{y}.png"]


def test_maps_start_at_a_zoom_that_exists_and_go_beyond_the_last_tiles() -> None:
    shallow = code("leaflet", dataclasses.replace(DEMO, max_zoom=12))
    assert "maxNativeZoom: 12" in shallow
    assert "maxZoom: 18" in shallow
    assert "zoom: 0," in code("maplibre", dataclasses.replace(DEMO, zoom=0))
