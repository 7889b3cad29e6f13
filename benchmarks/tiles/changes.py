"""Staleness after a change: marked tiles against changed pixels, its time, and the cost of open pages for main."""

import time
from collections.abc import Iterator, Sequence

import numpy as np
import requests

from resources.tiles.data import arrays, compiler, speeds
from resources.tiles.data.compiler import CompiledLayer
from resources.tiles.data.speeds import SegmentSpeeds
from resources.tiles.diff import changes
from resources.tiles.diff.changes import LayerLook
from resources.tiles.render.scene import GeometryIndex
from resources.tiles.tile_marks import TileMarks, TouchedTiles
from tests.support import geojson
from tests.support.picture_comparison import different, scenes_of, with_speed
from tests.support.stack import Stack

from .. import pairs
from ..figures import Figure, Note

SEGMENTS, MANY = 100_000, 10_000
ALONE = 6
ZOOMS = range(15)
MARKED_SECONDS = 2.0
POLLED_SECONDS = 10
ASKED_A_SECOND = 1.3
"""The feed is renewed a second after main has answered, and a bit of the last second is counted too."""


def measure() -> Iterator[Figure | Note]:
    """100,000 five-point lines of one city: one of them changes, then 10,000; then pages ask for the changes."""
    data = geojson.many_lines(SEGMENTS)
    compiled = compiler.compile_layer("lines", data)
    yield from _one(compiled)
    yield from _many(compiled)
    with Stack() as stack:
        yield from _sent(stack, data)
        yield from _polled(stack)


def _one(compiled: CompiledLayer) -> Iterator[Figure | Note]:
    """The tiles that one segment marks, against those whose pixels differ, at all zooms and both scales."""
    index, before = (
        GeometryIndex.build(arrays.read_geometry(compiled.geometry)),
        speeds.read_speeds(compiled.speeds.data),
    )
    missed = extra = true = 0
    longest = 0.0
    for number, place in enumerate(np.random.default_rng(8).choice(SEGMENTS, ALONE, replace=False).tolist()):
        after = with_speed(before, [place], (0.1, 0.9, 0.3)[number % 3])
        began = time.perf_counter()
        found = _marked(compiled, before, after)
        longest = max(longest, time.perf_counter() - began)
        scenes = scenes_of(index, {}, before, after)
        for zoom in ZOOMS:
            seen, marked = different(scenes, zoom), found.tiles(zoom)
            missed, extra, true = missed + len(seen - marked), extra + len(marked - seen), true + len(seen)
    yield Note(f"{ALONE} segments of {SEGMENTS:,}, each changed alone: {true} tiles of zooms 0 to 14 look different")
    yield Figure("of them not marked", missed, at_most=0)
    yield Figure("marked, but not different ÷ different", extra / true)
    yield Figure("finding the tiles of one segment, the longest", longest, "s")


def _many(compiled: CompiledLayer) -> Iterator[Figure]:
    """The seconds until 10,000 segments are marked: found, merged, packed, and read as main does."""
    before = speeds.read_speeds(compiled.speeds.data)
    after = _changed(before, _places())
    began = time.perf_counter()
    found = _marked(compiled, before, after)
    packed = TileMarks().with_touched(found, 1, 0)[0].pack()
    marks = TileMarks.unpack(packed)
    yield Figure(f"{MANY:,} changed segments: marked within", time.perf_counter() - began, "s", at_most=MARKED_SECONDS)
    yield Figure("tiles that they mark", marks.count)
    yield Figure("the marks in the layer's row", len(packed) / 1000, "KB")


def _sent(stack: Stack, data: bytes) -> Iterator[Figure]:
    """The seconds by the API of a whole site, from sending the speeds to the answer: read, marked and saved."""
    file = stack.directory / "city.geojson"
    file.write_bytes(data)
    stack.change_layers("load_layer", "city", "--lines", str(file))
    token = stack.manage("create_token", "benchmark", "--layers", "*").strip()
    rows = "\n".join(f"{place},{5 + place % 50},50" for place in _places())
    for count, body in ((MANY, rows), (1, "77,2.5,50")):
        began = time.perf_counter()
        answer = requests.post(
            f"{stack.base_url}/api/layers/city/speeds",
            f"segment_id,speed_kmh,free_flow_kmh\n{body}",
            headers={"Authorization": f"Bearer {token}", "Content-Type": "text/csv"},
            timeout=60,
        )
        answer.raise_for_status()
        yield Figure(
            f"sending {count:,} rows of a layer of {SEGMENTS:,}, to the answer", time.perf_counter() - began, "s"
        )


def _polled(stack: Stack) -> Iterator[Figure]:
    """Open pages, as fast as they can ask: the part of their requests that reaches main."""
    address = f"{stack.base_url}/changes.json"
    requests.get(address, timeout=10).raise_for_status()
    before = _main_requests(stack)
    rate = pairs.rate(address, POLLED_SECONDS)
    asked = _main_requests(stack) - before - 1  # the first reading itself was answered after it was taken
    yield Figure("the change feed, answered a second", rate, "req/s")
    yield Figure("of them by main", asked / POLLED_SECONDS, "req/s", at_most=ASKED_A_SECOND)


def _marked(compiled: CompiledLayer, before: SegmentSpeeds, after: SegmentSpeeds) -> TouchedTiles:
    found = changes.tiles_changed_by_speeds(compiled.geometry, before, after, LayerLook({}, 0, 18))
    assert found is not None
    return found


def _places() -> list[int]:
    places: list[int] = np.random.default_rng(9).choice(SEGMENTS, MANY, replace=False).tolist()
    return places


def _changed(before: SegmentSpeeds, places: Sequence[int]) -> SegmentSpeeds:
    """The speeds: some segments get standing traffic, or free traffic where it stood."""
    standing = with_speed(before, places, 0.1)
    stood = [place for place in places if before.speed_kmh[place] < 0.25 * before.free_flow_kmh[place]]
    return with_speed(standing, stood, 0.9)


def _main_requests(stack: Stack) -> int:
    return int(stack.metric("tarry_request_seconds_count"))
