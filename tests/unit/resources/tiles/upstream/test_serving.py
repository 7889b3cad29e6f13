"""Layers of another server's tiles as their tiles are asked for, and as they are described and shown."""

import json
from typing import Any

import pytest
from django.test import Client

from resources.tiles import layers, work
from resources.tiles.models import Layer
from resources.tiles.render import painter
from resources.tiles.staleness import LayerPart
from retry.contents import Prepared
from tests.conftest import RedisServers
from tests.unit.resources.conftest import Load

from .conftest import TEMPLATE, LoadUpstream, Store, image

PLAIN = "https://tiles.example.org/{z}/{x}/{y}.png?key=secret"
TILE = "/tiles/osm/3/5/2"


def test_a_cold_tile_is_deferred_into_the_fetchers_lane(
    client: Client, upstream: LoadUpstream, redis_servers: RedisServers, published: list[Any]
) -> None:
    layer = upstream()
    assert client.get(f"{TILE}@2x.webp").status_code == 302
    [(task, work_key, _, arguments, lane)] = published
    assert (task, lane) == ("resources.fetch_tile", "fetch.fast")
    assert work_key == f"fetch:tile:osm:3:5:2@2x:webp:{layer.version}"
    assert arguments == ("https://tiles.example.org/3/5/2@2x.png", "osm", 3, 5, 2, 2, "webp")


def test_a_tile_of_which_a_part_expired_is_served_while_it_is_fetched_in_the_slower_lane(
    client: Client, upstream: LoadUpstream, store: Store, published: list[Any]
) -> None:
    layer = upstream()
    store(Prepared(image(image_format="JPEG"), "image/jpeg", 60, 600, version=layer.version))
    assert client.get(f"{TILE}.png")["Content-Type"] == "image/jpeg"
    work.expire_layer("osm", LayerPart.of(None, 4, 9))
    assert client.get(f"{TILE}.png")["Server-Timing"].endswith("desc=hit")
    assert not published
    work.expire_layer("osm", LayerPart.of([45.0, 41.0, 90.0, 66.0], 3, 3))
    assert client.get(f"{TILE}.png").status_code == 200
    assert [call[-1] for call in published] == ["fetch.refresh"]


def test_dense_tiles_are_404_where_the_server_has_none(
    client: Client, upstream: LoadUpstream, redis_servers: RedisServers, published: list[Any]
) -> None:
    upstream(template=PLAIN)
    assert client.get(f"{TILE}@2x.png").status_code == 404
    assert client.get(f"{TILE}.png").status_code == 302


def test_outside_of_bounds_and_zooms_nobody_is_asked(
    client: Client, upstream: LoadUpstream, published: list[Any]
) -> None:
    upstream(bounds=[0.0, 50.0, 1.0, 51.0], min_zoom=2)
    response = client.get("/tiles/osm/5/3/3.png")
    assert (response.status_code, response.content) == (200, painter.encode_empty_tile(1, "png"))
    assert client.get("/tiles/osm/1/0/0.png").status_code == 404
    assert not published


def test_a_row_that_makes_no_sense_takes_no_other_layer_along(upstream: LoadUpstream, load: Load) -> None:
    upstream()
    load("jams")
    Layer.objects.filter(slug="osm").update(upstream="https://{nonsense}/")
    assert [view.slug for view in layers.layers_snapshot()] == ["jams"]


def test_static_maps_say_that_they_show_painted_layers_only(client: Client, upstream: LoadUpstream, load: Load) -> None:
    upstream()
    load("jams")
    asked = {"layers": "osm,jams", "center": "51.5,0", "zoom": "10", "size": "300x200"}
    response = client.get("/staticmap", asked)
    assert response.status_code == 400
    assert "painted layers only" in json.loads(response.content)["detail"]


def test_its_tilejson_has_no_legend_and_no_address_of_the_other_server(client: Client, upstream: LoadUpstream) -> None:
    upstream(template=PLAIN)
    text = client.get("/tiles/osm.json").content.decode()
    described = json.loads(text)
    assert described["tiles"] == ["http://testserver/tiles/osm/{z}/{x}/{y}.png"]
    assert (described["classes"], described["attribution"]) == ([], "© Somebody")
    assert "secret" not in text
    assert "example.org" not in text


@pytest.mark.parametrize(("template", "dense"), [(TEMPLATE, True), (PLAIN, False)])
def test_the_map_and_the_snippets_ask_for_dense_tiles_only_where_there_are_some(
    client: Client, upstream: LoadUpstream, template: str, dense: bool
) -> None:
    upstream(template=template)
    for address in ("/", "/layers/osm/"):
        text = client.get(address).content.decode()
        assert ("{y}{r}.png" in text) is dense
        assert "secret" not in text
    page = client.get("/layers/osm/").content.decode()
    assert ("@2x" in page) is dense
    assert ("twice the pixels" in page) is dense
    assert ("devicePixelRatio" in page) is dense


def test_its_page_says_whose_tiles_they_are(client: Client, upstream: LoadUpstream) -> None:
    upstream(fresh_seconds=60, most_fresh_seconds=3600)
    page = client.get("/layers/osm/").content.decode()
    for said in ("Tiles of another server", "tiles.example.org", "1 minute to 1 hour", "© Somebody"):
        assert said in page
    for absent in ("Features", "Speeds", ">Style<", "painted"):
        assert absent not in page


def test_the_api_lists_it(client: Client, upstream: LoadUpstream) -> None:
    upstream(template=PLAIN)
    text = client.get("/api/layers").content.decode()
    assert json.loads(text)["layers"][0]["kind"] == "upstream"
    assert "secret" not in text
