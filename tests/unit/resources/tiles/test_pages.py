"""Pages of layers: description, snippets, preview and map."""

import html
import json
import re
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from resources.tiles import snippets
from resources.tiles.models import Layer
from tests.unit.resources.conftest import AREAS, HEAT, PLAIN, POINTS, TEMPLATE, Load, LoadUpstream


def page(client: Client, slug: str = "jams") -> str:
    response = client.get(f"/layers/{slug}/")
    assert response.status_code == 200
    return response.content.decode()


def facts(text: str) -> dict[str, str]:
    """The state by its terms, without markup."""
    found = re.findall(r"<dt>(.*?)</dt> <dd>(.*?)</dd>", text)
    return {term: html.unescape(re.sub(r"<[^>]+>", "", value)) for term, value in found}


def code_blocks(text: str) -> list[str]:
    return [html.unescape(block) for block in re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", text, re.DOTALL)]


def preview(text: str) -> dict[str, Any]:
    found = re.search(r'<script id="layer-data" type="application/json">(.*?)</script>', text)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_page_tells_what_the_layer_is_and_how_it_stands(client: Client, load: Load) -> None:
    load(title="Traffic", note="Speeds are generated.", attribution="© All", fresh_seconds=90, client_seconds=300)
    text = page(client)
    assert "<h1>Traffic</h1>" in text
    assert "Speeds are generated." in text
    assert "© All" in text
    assert "Free flow" in text
    state = facts(text)
    assert state["Kind"] == "Lines, coloured by speed"
    assert state["Features"].startswith("3 ")
    assert state["Speeds"].startswith("2 of 3 ")
    assert state["Zooms"] == "0 to 18"
    assert state["Bounds"].startswith("-0.3°, 51.4°, 0.2°, 51.6°")
    assert state["Fresh for"].startswith("1 minute 30 seconds")
    assert state["Kept by browsers for"].startswith("5 minutes")


def test_its_tilejson_and_snippets_have_the_addresses_of_this_site(client: Client, load: Load) -> None:
    load()
    text = page(client)
    described = json.loads(client.get("/tiles/jams.json").content)
    blocks = code_blocks(text)
    assert json.loads(blocks[-1]) == described
    assert "http://testserver/tiles/jams/{z}/{x}/{y}.png" in blocks
    shown = [block for block in blocks if "testserver" in block]
    assert len(shown) == len(snippets.SNIPPET_TEMPLATES) + 2  # the address, and the TileJSON
    assert 'href="/tiles/jams.json"' in text
    assert client.get(described["page"]).content.decode() == text


def test_the_page_says_when_speeds_were_measured_and_that_there_are_none(client: Client, load: Load) -> None:
    load()
    Layer.objects.update(measured_at=datetime(2026, 11, 21, 9, 30, tzinfo=UTC))
    text = page(client)
    assert facts(text)["Measured"].startswith("21 November 2026, 09:30:00 UTC")
    assert '<time datetime="2026-11-21T09:30:00+00:00">' in text
    Layer.objects.update(speeds_known=0, measured_at=None)
    state = facts(page(client))
    assert state["Speeds"].startswith("None")
    assert "Measured" not in state


@pytest.mark.parametrize(
    ("settled", "warned"),
    [
        ({}, True),
        ({"RETRY_DELIVERY": "internal"}, False),
        ({"RETRY_AFTER_SERVER": "http://testserver/retry_after"}, False),
    ],
)
def test_qgis_users_are_warned_of_its_redirects(
    client: Client, load: Load, settings: Settings, settled: dict[str, str], warned: bool
) -> None:
    for name, value in settled.items():
        setattr(settings, name, value)
    load()
    assert ("QGIS does not follow" in page(client)) is warned


@pytest.mark.parametrize(
    ("kind", "said"), [("areas", "Areas, filled"), ("points", "Points, as clusters, heat or dots")]
)
def test_only_lines_have_speeds_to_tell_of(client: Client, load: Load, kind: str, said: str) -> None:
    load(slug="land", kind="areas", data=AREAS)
    Layer.objects.update(kind=kind)
    state = facts(page(client, "land"))
    assert state["Kind"] == said
    assert "Speeds" not in state


def test_blocks_that_are_painted_at_once_are_told_by_zoom(client: Client, load: Load) -> None:
    load()
    Layer.objects.update(metatiles={"0": 4, "2": 2, "3": 1})
    assert facts(page(client))["Metatiles"].startswith("4 × 4 tiles at zooms 0 to 1; 2 × 2 tiles at zoom 2")


@pytest.mark.parametrize(
    "bounds", [[170, -20, -170, 20], [-180, -90, 180, 90], [2.35, 48.86, 2.35, 48.86], [-180, 0, -180, 0]]
)
def test_odd_bounds_have_a_page_and_a_place_to_look_at(client: Client, load: Load, bounds: list[float]) -> None:
    load(bounds=bounds)
    view = preview(page(client))["view"]
    latitude, longitude = view["centre"]
    assert -90 <= latitude <= 90
    assert -180 <= longitude <= 180
    assert 0 <= view["zoom"] <= 18


def test_text_stays_text_wherever_it_stands(client: Client, load: Load) -> None:
    hostile = "</script><script>alert(1)</script><b onclick=\"x\">&amp; 'quoted'"
    load(title=hostile, note=hostile, attribution=hostile)
    text = page(client)
    assert "<script>alert" not in text
    assert "<b onclick" not in text
    assert preview(text)["layers"][-1]["title"] == hostile


def test_the_preview_shows_base_layers_below_what_is_previewed(client: Client, load: Load) -> None:
    load(slug="land", kind="areas", data=AREAS, base=True, order=0)
    load(slug="borders", base=True, order=5)
    load(slug="off", base=True, enabled=False)
    load(slug="jams")
    load(slug="other")

    def shown(slug: str) -> set[str]:
        return {layer["slug"] for layer in preview(page(client, slug))["layers"]}

    assert shown("jams") == {"land", "borders", "jams"}
    assert shown("borders") == {"land", "borders"}
    assert shown("land") == {"land"}


@pytest.mark.parametrize(
    "address", ["no/", "off/", "bare/", "broken/", "UPPER/", "jams/more/", "", "%00/", "a" * 300 + "/"]
)
def test_an_unknown_layer_is_a_plain_404(client: Client, load: Load, address: str) -> None:
    load()
    load("off", enabled=False)
    load("broken")
    Layer.objects.filter(slug="broken").update(bounds=[1, 2])
    Layer.objects.create(slug="bare")
    response = client.get(f"/layers/{address}")
    assert response.status_code == 404
    assert "No such layer" in response.content.decode()


def test_the_page_is_only_read_and_has_one_address(client: Client, load: Load) -> None:
    load()
    assert client.post("/layers/jams/").status_code == 405
    assert client.head("/layers/jams/")["Cache-Control"] == "no-cache"
    response = client.get("/layers/jams")
    assert (response.status_code, response["Location"]) == (301, "/layers/jams/")


def test_the_page_costs_one_query_beside_the_snapshot_and_opens_no_file(
    client: Client, load: Load, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.LAYER_SNAPSHOT_SECONDS = 60
    load()
    page(client)  # templates are read by then
    opened = Mock(side_effect=AssertionError("a file was opened"))
    with CaptureQueriesContext(connection) as queries, monkeypatch.context() as patched:
        patched.setattr("builtins.open", opened)
        patched.setattr("io.open", opened)
        page(client)
    assert len(queries) == 1


def test_the_map_page_shows_heat_as_a_ramp_and_clusters_as_discs(client: Client, load: Load) -> None:
    load("warm", "points", POINTS, style=HEAT)
    load("many", "points", POINTS)
    page = client.get("/").content.decode()
    [ramp] = re.findall(r'<linearGradient id="ramp-warm">(.*?)</linearGradient>', page, re.DOTALL)
    assert re.findall(r'offset="(.*?)"', ramp) == ["0%", "33%", "67%", "100%"]
    assert 'fill="url(#ramp-warm)"' in page
    assert re.findall(r'<circle .*? r="(.)"', page) == ["3", "5", "5", "5"]


@pytest.mark.parametrize(("template", "dense"), [(TEMPLATE, True), (PLAIN, False)])
def test_maps_and_snippets_use_dense_tiles_of_servers_that_have_some(
    client: Client, upstream: LoadUpstream, template: str, dense: bool
) -> None:
    upstream(template=template)
    for address in ("/", "/layers/osm/"):
        text = client.get(address).content.decode()
        assert ("{y}{r}.png" in text) is dense
        assert "secret" not in text
    assert ("@2x" in text) is dense
    assert ("twice the pixels" in text) is dense
    assert ("devicePixelRatio" in text) is dense


def test_the_page_of_another_servers_tiles_says_whose_tiles_they_are(client: Client, upstream: LoadUpstream) -> None:
    upstream(fresh_seconds=60, most_fresh_seconds=3600)
    text = page(client, "osm")
    for said in ("Tiles of another server", "tiles.example.org", "1 minute to 1 hour", "© Somebody"):
        assert said in text
    for absent in ("Features", "Speeds", ">Style<", "painted"):
        assert absent not in text
