from datetime import UTC, datetime, timedelta

import pytest

from resources.models import Layer
from resources.tiles.layers import LayerView
from resources.tiles.tile import Tile
from resources.warming import pieces, tiles
from resources.warming.benefit import COLD
from resources.warming.pieces import Rule
from retry.contents import Content
from tests.resources.conftest import Load

NOW = datetime(2026, 11, 22, tzinfo=UTC)
HOUR = timedelta(hours=1)


def content(fresh_seconds: float = 60, version: int = 5, age: timedelta = HOUR) -> Content:
    return Content(b"", "image/png", '"a"', NOW - age, 0.1, None, version, fresh_seconds)


@pytest.mark.parametrize(
    ("rule", "found", "lacks"),
    [
        (Rule(), None, True),
        (Rule(), content(), False),
        (Rule(), content(fresh_seconds=0), True),
        (Rule(), content(version=4), True),
        (Rule(only_expired=True), None, False),
        (Rule(only_expired=True), content(version=4), True),
        (Rule(older_than=2 * HOUR), content(), False),
        (Rule(older_than=HOUR / 2), content(), True),
        (Rule(older_than=HOUR / 2, done_since=NOW - 2 * HOUR), content(), False),
        (Rule(done_since=NOW - 2 * HOUR), content(fresh_seconds=-60), False),
        (Rule(done_since=NOW - 2 * HOUR), content(version=4), True),
        (Rule(done_since=NOW - HOUR / 2), content(fresh_seconds=-60), True),
        (Rule(done_since=NOW - HOUR), None, True),
    ],
)
def test_what_is_to_be_prepared(rule: Rule, found: Content | None, lacks: bool) -> None:
    assert rule.lacks(found, 5, NOW) is lacks


def test_how_content_stands_for_those_who_ask() -> None:
    assert pieces.standing(None, 5) == COLD
    assert pieces.standing(content(), 5).fresh_seconds == 60
    assert pieces.standing(content(version=4), 5).fresh_seconds == 0
    assert pieces.standing(content(version=4), 5).kept_seconds > 0


def test_a_piece_has_all_tiles_of_its_block_and_main_would_name_its_work_alike(load: Load) -> None:
    layer = LayerView.of(load(metatiles={"12": 8}))
    found = tiles.piece_of(layer, Tile("jams", 12, 2046, 1361))
    assert (found.work.lane, found.group, found.zoom) == ("paint.warm", "jams", 12)
    assert "tile:jams:12:2046:1361:png" in {each.content_key for each in found.wanted}
    assert {each.address for each in found.wanted} >= {"/tiles/jams/12/2046/1361.png"}
    assert len(found.wanted) > 1
    assert tiles.piece_of(layer, Tile("jams", 12, 2047, 1361)).work == found.work


@pytest.mark.django_db
def test_a_tile_of_another_server_is_a_piece_of_its_own_in_the_slowest_lane_of_fetching() -> None:
    row = Layer.objects.create(slug="osm", kind="upstream", upstream="https://tiles.example.org/{z}/{x}/{y}.png")
    found = tiles.piece_of(LayerView.of(row), Tile("osm", 3, 3, 2))
    assert (found.work.lane, found.work.refresh_lane) == ("fetch.warm", "fetch.warm")
    assert [each.address for each in found.wanted] == ["/tiles/osm/3/3/2.png"]
