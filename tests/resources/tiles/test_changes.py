"""The change feed: small, exact while little changes, and honest about what it does not tell."""

import json
import time
from typing import Any

import numpy as np
import pytest
from django.test import Client

from resources.models import Layer
from resources.tiles import changes, zorder
from resources.tiles.expirations import Part
from resources.tiles.keeping import expiring, storing
from resources.tiles.layers import LayerView
from resources.tiles.marks import Marks
from resources.tiles.touched import Touched

from .conftest import Load

NOW = 1_000_000.0


def at(seconds_ago: float) -> int:
    return int((NOW - seconds_ago) * 1_000_000)


def told(layer: Layer, *touched: tuple[float, Touched]) -> Any:
    """What is told of a layer that changed so many seconds ago."""
    marks = Marks()
    for seconds_ago, tiles in touched:
        marks, _ = marks.with_touched(tiles, at(seconds_ago), 0)
    layer.data_version = at(5000)
    return changes.feed([LayerView.of(layer, marks)], NOW)["layers"]["jams"]


def tiles(*places: tuple[int, int], zoom: int = 3) -> Touched:
    keys = zorder.distinct(np.array([zorder.key_of(x, y) for x, y in places]))
    return Touched((*[zorder.none()] * zoom, keys), keys)


def test_a_change_is_told_with_its_tiles(load: Load) -> None:
    found = told(load(), (7, tiles((2, 5), (3, 1))), (2, tiles((7, 7))))
    assert [change["version"] for change in found["changes"]] == [at(7), at(2)]
    assert found["changes"][0] == {
        "version": at(7),
        "deepest": 3,
        "zooms": {"3": [3, 1, 2, 5]},
        "below": [3, 1, 2, 5],
    }
    assert at(40) < found["since"] < at(7)


def test_what_changed_long_ago_is_not_told_any_more(load: Load) -> None:
    found = told(load(), (40, tiles((2, 5))), (2, tiles((7, 7))))
    assert [change["version"] for change in found["changes"]] == [at(2)]
    assert found["since"] > at(40)


@pytest.mark.parametrize("count", [8, 9, 20])
def test_of_many_changes_some_are_told_as_one(load: Load, count: int) -> None:
    found = told(load(), *((25 - number, tiles((number % 8, number // 8))) for number in range(count)))
    assert count / 4 <= len(found["changes"]) <= changes.MOST_CHANGES
    assert found["changes"][-1]["version"] == at(25 - count + 1)
    assert sum(len(change["zooms"]["3"]) for change in found["changes"]) == 2 * count
    assert found["since"] < at(25)


def test_a_large_change_is_told_more_coarsely(load: Load) -> None:
    every = Touched(tuple(np.arange(4**zoom) for zoom in range(9)), np.arange(4**8))
    found = told(load(), (3, every))
    [change] = found["changes"]
    assert len(json.dumps(found)) < 6000
    assert len(change["below"]) == 2 * 4 ** change["deepest"]


def test_other_changes_have_pages_look_at_all_of_a_layer(load: Load) -> None:
    layer = load()
    found = changes.feed([LayerView.of(layer)], time.time())["layers"]["jams"]
    assert found == {"version": layer.version, "since": layer.version, "changes": []}
    expired = expiring.expire("jams", Part(min_zoom=3, max_zoom=5))
    found = changes.feed([LayerView.of(expired)], time.time())["layers"]["jams"]
    assert found["since"] == found["version"] > layer.version


def test_the_front_may_keep_it_for_a_second_and_renew_it_without_a_crowd(client: Client, load: Load) -> None:
    load()
    storing.store_speeds("jams", {"north": (1.0, 50.0)})
    answer = client.get("/changes.json")
    assert answer["Cache-Control"] == "public, max-age=1, s-maxage=1, stale-while-revalidate=10"
    [change] = answer.json()["layers"]["jams"]["changes"]
    assert change["version"] == answer.json()["layers"]["jams"]["version"]
    assert client.get("/changes.json", headers={"If-None-Match": answer["ETag"]}).status_code == 304


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_it_is_only_read(client: Client, load: Load, method: str) -> None:
    load()
    assert getattr(client, method)("/changes.json").status_code == 405
