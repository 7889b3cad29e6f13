import json
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client

from resources import tasks
from resources.models import Layer
from resources.tiles import grid, layers, works
from resources.tiles.drawing import painting
from resources.tiles.expirations import Part
from resources.tiles.keeping import expiring, scenes, storing
from resources.tiles.layers import LayerView
from resources.tiles.tile import Tile
from retry import contents
from tests.conftest import RedisServers

from .conftest import Load

LONDON = "10/511/340"
LOST = Tile("nothing", 0, 0, 0)


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is handed to workers: task, work key, token, arguments, lane."""
    calls: list[Any] = []
    monkeypatch.setattr("retry.lanes.publish", lambda *call: calls.append(call))
    return calls


@pytest.mark.parametrize(
    "address",
    [
        "unknown/1/0/0.png",
        "jams/99/0/0.png",
        "jams/19/0/0.png",
        "jams/1/2/0.png",
        "jams/01/0/0.png",
        "jams/1/0/0.gif",
        "jams/1/0/0",
        "jams",
        "",
        "jams/1/0/0.png%0A",
        "jams/" + "1" * 3000 + "/0/0.png",
        "%00/1/0/0.png",
    ],
)
def test_what_is_not_there_is_404_and_displaces_what_caches_hold(client: Client, load: Load, address: str) -> None:
    load()
    response = client.get(f"/tiles/{address}")
    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"
    assert response["Cache-Control"] == "public, max-age=1"


@pytest.mark.parametrize("address", ["jams/10/511/340.png", "jams/10/100/100.png", "unknown/1/0/0.png", "jams"])
def test_a_browser_of_another_origin_is_told_what_it_may_send_whatever_there_is(
    client: Client, load: Load, address: str
) -> None:
    load()
    response = client.options(f"/tiles/{address}")
    assert response.status_code == 204
    assert "If-None-Match" in response["Access-Control-Allow-Headers"]


@pytest.mark.parametrize("address", ["/tiles/jams/10/100/100.png", "/tiles/jams.json", "/staticmap"])
def test_a_method_that_changes_things_is_refused_as_a_problem(client: Client, load: Load, address: str) -> None:
    load()
    response = client.post(address)
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert response["Content-Type"] == "application/problem+json"
    assert response["Access-Control-Allow-Origin"] == "*"


def test_a_tile_outside_of_the_bounds_is_the_empty_one_without_any_look_up(client: Client, load: Load) -> None:
    load()
    response = client.get("/tiles/jams/10/100/100@2x.png")
    assert response.status_code == 200
    assert response.content == painting.empty_tile(2, "png")
    assert response["Content-Type"] == "image/png"
    assert client.get("/tiles/jams/10/100/100@2x.png", headers={"If-None-Match": response["ETag"]}).status_code == 304


def test_a_cold_tile_is_deferred_painted_and_then_there(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any]
) -> None:
    layer = load()
    response = client.get(f"/tiles/jams/{LONDON}.png")
    assert response.status_code == 302
    [(task, work_key, token, arguments, lane)] = published
    assert (task, lane) == ("resources.paint_block", "paint.now")
    assert work_key == f"paint:jams:{layer.version}:10:511:340:1"
    tasks.paint_block(work_key, token, *arguments)
    response = client.get(f"/tiles/jams/{LONDON}.png")
    assert response.status_code == 200
    assert response["Content-Type"] == "image/png"
    [expected] = [painting.paint(scenes.load_scene("jams")[1], Tile("jams", 10, 511, 340))]
    assert response.content == expected


def test_all_tiles_of_a_block_come_from_one_claim(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any]
) -> None:
    layer = load()
    layer.metatiles = {"9": 4}
    layer.save(update_fields=("metatiles",))
    neighbours = [f"/tiles/jams/12/{x}/{y}.png" for x in (2045, 2046) for y in (1361, 1362)]
    assert [client.get(address).status_code for address in neighbours] == [302] * 4
    assert len(published) == 1
    _, work_key, token, arguments, _ = published[0]
    assert work_key == f"paint:jams:{layer.version}:12:511:340:4"
    tasks.paint_block(work_key, token, *arguments)
    for address in neighbours:
        response = client.get(address)
        assert response.status_code == 200
        painted = painting.paint(scenes.load_scene("jams")[1], Tile.parse(address.removeprefix("/tiles/")) or LOST)
        assert response.content == painted
    assert len(published) == 1


def test_a_refresh_of_one_tile_refreshes_its_block(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any]
) -> None:
    layer = load()
    layer.metatiles = {"12": 4}
    layer.save(update_fields=("metatiles",))
    one, other = "/tiles/jams/12/2045/1361.png", "/tiles/jams/12/2046/1362.png"
    client.get(one)
    tasks.paint_block(*published[0][1:3], *published[0][3])
    expiring.expire("jams")
    assert client.get(one)["Cache-Status"].endswith("detail=begun")
    assert client.get(other)["Cache-Status"].endswith("detail=claimed")
    tasks.paint_block(*published[1][1:3], *published[1][3])
    for address in (one, other):
        assert client.get(address)["Server-Timing"].endswith("desc=hit")
    assert len(published) == 2


def test_a_tile_that_was_painted_after_its_part_expired_is_not_painted_again(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any]
) -> None:
    load()
    client.get(f"/tiles/jams/{LONDON}.png")
    tasks.paint_block(*published[0][1:3], *published[0][3])
    expiring.expire("jams", Part.of(grid.tile_bounds(10, 511, 340).as_list()))
    assert client.get(f"/tiles/jams/{LONDON}.png")["Server-Timing"].endswith("desc=stale")
    tasks.paint_block(*published[1][1:3], *published[1][3])
    assert client.get(f"/tiles/jams/{LONDON}.png")["Server-Timing"].endswith("desc=hit")
    assert len(published) == 2


def test_tiles_of_a_block_that_expire_apart_are_painted_by_one_claim(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any]
) -> None:
    layer = load()
    layer.metatiles = {"12": 4}
    layer.save(update_fields=("metatiles",))
    expired, gone = "/tiles/jams/12/2045/1361.png", "/tiles/jams/12/2047/1362.png"
    client.get(expired)
    tasks.paint_block(*published[0][1:3], *published[0][3])
    bounds = grid.tile_bounds(12, 2045, 1361)
    expiring.expire("jams", Part.of(bounds.as_list()))
    redis_servers.cache.client.delete(contents.content_name(Tile("jams", 12, 2047, 1362).content_key))
    assert client.get(gone).status_code == 302
    assert client.get(expired)["Cache-Status"].endswith("detail=claimed")
    assert len(published) == 2


def test_new_speeds_make_tiles_stale_not_absent(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any]
) -> None:
    load()
    client.get(f"/tiles/jams/{LONDON}.png")
    tasks.paint_block(*published[0][1:3], *published[0][3])
    before = client.get(f"/tiles/jams/{LONDON}.png")
    storing.store_speeds("jams", {"north": (1.0, 50.0)})
    stale = client.get(f"/tiles/jams/{LONDON}.png")
    assert (stale.status_code, stale.content) == (200, before.content)
    assert published[1][4] == "paint.refresh"
    tasks.paint_block(*published[1][1:3], *published[1][3])
    assert client.get(f"/tiles/jams/{LONDON}.png").content != before.content


def test_new_speeds_leave_tiles_fresh_that_do_not_show_them(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any]
) -> None:
    load()
    shown, elsewhere = (f"/tiles/jams/12/{place}.png" for place in ("2046/1361", "2049/1361"))
    for number, address in enumerate((shown, elsewhere)):
        client.get(address)
        tasks.paint_block(*published[number][1:3], *published[number][3])
    storing.store_speeds("jams", {"north": (1.0, 50.0), "south": (5.0, 50.0)})
    assert client.get(shown)["Server-Timing"].endswith("desc=stale")
    assert client.get(elsewhere)["Server-Timing"].endswith("desc=hit")


def test_a_layer_deleted_before_its_tile_is_painted_answers_404(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = load()
    client.get(f"/tiles/jams/{LONDON}.png")
    view = LayerView.of(layer)
    layer.delete()
    tasks.paint_block(*published[0][1:3], *published[0][3])
    monkeypatch.setattr(layers, "layer_snapshot", lambda slug: view)
    assert client.get(f"/tiles/jams/{LONDON}.png").status_code == 404


def test_the_database_failing_before_anything_was_read_is_503(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> dict[str, LayerView]:
        raise DatabaseError

    monkeypatch.setattr(layers.snapshot, "_read", failing)
    for address in (f"/tiles/jams/{LONDON}.png", "/tiles/jams.json"):
        response = client.get(address)
        assert response.status_code == 503
        assert response["Retry-After"]


def test_tilejson_describes_the_layer(client: Client, load: Load) -> None:
    load(attribution="© All", note="Speeds are generated.", min_zoom=3, max_zoom=15)
    response = client.get("/tiles/jams.json")
    described = json.loads(response.content)
    assert described["tilejson"] == "3.0.0"
    assert described["tiles"] == ["http://testserver/tiles/jams/{z}/{x}/{y}.png"]
    assert described["bounds"] == [-0.3, 51.4, 0.2, 51.6]
    assert (described["minzoom"], described["maxzoom"], described["name"]) == (3, 15, "Jams")
    assert (described["attribution"], described["note"]) == ("© All", "Speeds are generated.")
    assert described["legend"].startswith("Free flow, ")
    assert described["classes"][0]["label"] == "Free flow"
    assert response["Access-Control-Allow-Origin"] == "*"
    assert response["Cache-Control"] == "public, max-age=1, s-maxage=1"


def test_tilejson_for_dense_screens_differs_in_its_tiles_alone(client: Client, load: Load) -> None:
    load()
    plain, dense = client.get("/tiles/jams.json").json(), client.get("/tiles/jams@2x.json").json()
    assert dense.pop("tiles") == ["http://testserver/tiles/jams/{z}/{x}/{y}@2x.png"]
    assert dense == {name: value for name, value in plain.items() if name != "tiles"}
    assert client.get("/tiles/nothing@2x.json").status_code == 404


def test_tilejson_is_answered_in_full_only_when_it_changed(client: Client, load: Load) -> None:
    layer = load()
    etag = client.get("/tiles/jams.json")["ETag"]
    unchanged = client.get("/tiles/jams.json", headers={"If-None-Match": etag})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert unchanged["Cache-Control"] == "public, max-age=1, s-maxage=1"
    assert unchanged["Access-Control-Allow-Origin"] == "*"
    other = client.get("/tiles/jams.json", headers={"If-Match": '"other"'})
    assert (other.status_code, other["Content-Type"]) == (412, "application/problem+json")
    assert other["Access-Control-Allow-Origin"] == "*"
    layer.save()
    assert client.get("/tiles/jams.json", headers={"If-None-Match": etag}).status_code == 200


@pytest.mark.parametrize("address", ["jams.json", f"jams/{LONDON}.png"])
def test_preflights_are_answered(client: Client, load: Load, address: str) -> None:
    load()
    response = client.options(f"/tiles/{address}")
    assert response.status_code == 204
    assert "GET" in response["Access-Control-Allow-Methods"]


def test_tilejson_of_an_unknown_layer_is_404(client: Client, db: None) -> None:
    assert client.get("/tiles/unknown.json").status_code == 404


def test_tilejson_bounds_do_not_cross_the_antimeridian(client: Client, load: Load) -> None:
    load(bounds=[170, -20, -170, 20])
    assert json.loads(client.get("/tiles/jams.json").content)["bounds"] == [-180, -20, 180, 20]


@pytest.mark.parametrize("address", ["jams.json", f"jams/{LONDON}.png"])
@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_tiles_and_tilejson_are_only_read(load: Load, method: str, address: str) -> None:
    load()
    client = Client(enforce_csrf_checks=True)
    assert getattr(client, method)(f"/tiles/{address}").status_code == 405


def test_layers_that_are_switched_off_or_without_data_are_404(client: Client, load: Load) -> None:
    load(enabled=False)
    Layer.objects.create(slug="bare")
    for slug in ("jams", "bare"):
        assert client.get(f"/tiles/{slug}/{LONDON}.png").status_code == 404


def test_work_names_the_version_that_it_paints(load: Load) -> None:
    work = works.paint_work(LayerView.of(load()), Tile("jams", 10, 511, 340, 2, "webp"))
    assert work.arguments == ("jams", 10, 511, 340, 1, 2, "webp")
    assert (work.kind, work.lane, work.refresh_lane) == ("paint:jams:10:1", "paint.now", "paint.refresh")
