"""Converts files of the npm package `vega-datasets` into the demo's GeoJSON.

    npm pack vega-datasets@3.2.1 && tar xzf vega-datasets-3.2.1.tgz
    python -m resources.demo.topojson package/data resources/demo/data

Does not run when the demo is loaded: its output is committed. Sources and licences of the data are in
docs/data.md. Format: https://github.com/topojson/topojson-specification
"""

import json
import math
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

Point = tuple[float, float]
Line = list[Point]
Feature = dict[str, Any]

MIN_RING_POSITIONS = 4
SEGMENT_METRES = 300.0
METRES_PER_DEGREE = 111_195.0
FREE_FLOW_KMH = 60
DLR_FREE_FLOW_KMH = 45


def decode_arcs(topology: dict[str, Any]) -> list[Line]:
    """Decodes the delta-encoded arcs into longitudes and latitudes. Does not join them."""
    scale_x, scale_y = topology["transform"]["scale"]
    move_x, move_y = topology["transform"]["translate"]
    lines: list[Line] = []
    for arc in topology["arcs"]:
        x = y = 0
        line: Line = []
        for delta_x, delta_y in arc:
            x, y = x + delta_x, y + delta_y
            line.append((x * scale_x + move_x, y * scale_y + move_y))
        lines.append(line)
    return lines


def join_arcs(arcs: list[Line], indexes: Iterable[int]) -> Line:
    """Joins arcs end to end. An index below zero, ~i, means arc i backwards."""
    joined: Line = []
    for index in indexes:
        arc = arcs[index] if index >= 0 else arcs[~index][::-1]
        joined.extend(arc[1:] if joined else arc)
    return joined


def list_polygons(geometry: dict[str, Any]) -> list[list[list[int]]]:
    """Returns the polygons of a geometry, each a list of rings of arc indexes."""
    match geometry["type"]:
        case "Polygon":
            return [geometry["arcs"]]
        case "MultiPolygon":
            polygons: list[list[list[int]]] = geometry["arcs"]
            return polygons
        case _:
            return []


def area_features(topology: dict[str, Any], name: str, prefix: str) -> Iterator[Feature]:
    """Yields one polygon feature for each polygon of an object."""
    arcs = decode_arcs(topology)
    found = topology["objects"][name]
    count = 0
    for geometry in found.get("geometries", [found]):
        for rings in list_polygons(geometry):
            joined = [round_line(join_arcs(arcs, ring), digits=4) for ring in rings]
            coordinates = [ring for ring in joined if len(ring) >= MIN_RING_POSITIONS]
            if not coordinates:  # a sliver, flattened by simplification
                continue
            properties = {"name": geometry["id"]} if "id" in geometry else {}
            yield make_feature(f"{prefix}-{count}", "Polygon", coordinates, properties)
            count += 1


def outline_features(topology: dict[str, Any], name: str, prefix: str) -> Iterator[Feature]:
    """Yields every arc that bounds an object once, so that no border is drawn twice.

    Does not yield arcs along the antimeridian: there the map is cut, not a country.
    """
    arcs = decode_arcs(topology)
    geometries = topology["objects"][name]["geometries"]
    used = {
        index if index >= 0 else ~index
        for geometry in geometries
        for rings in list_polygons(geometry)
        for ring in rings
        for index in ring
    }
    pieces = [piece for index in sorted(used) for piece in split_at_antimeridian(arcs[index])]
    for count, piece in enumerate(pieces):
        yield make_feature(f"{prefix}-{count}", "LineString", round_line(piece, digits=4), {})


def split_at_antimeridian(line: Line) -> Iterator[Line]:
    """Yields the parts of a line between its steps along longitude ±180."""
    part: Line = line[:1]
    for before, after in pairwise(line):
        if abs(before[0]) > 179.99 and abs(after[0]) > 179.99:
            if len(part) > 1:
                yield part
            part = [after]
        else:
            part.append(after)
    if len(part) > 1:
        yield part


def segment_features(topology: dict[str, Any], name: str) -> Iterator[Feature]:
    """Yields the lines cut into segments of some 300 m, each with an id of its own."""
    arcs = decode_arcs(topology)
    counts: dict[str, int] = {}
    for geometry in topology["objects"][name]["geometries"]:
        title = geometry["id"]
        slug = title.lower().replace(" & ", "-").replace(" ", "-")
        for piece in cut_line(join_arcs(arcs, geometry["arcs"]), SEGMENT_METRES):
            number = counts[slug] = counts.get(slug, 0) + 1
            free_flow = DLR_FREE_FLOW_KMH if title == "DLR" else FREE_FLOW_KMH
            properties = {"line": title, "free_flow": free_flow}
            coordinates = round_line(piece, digits=5)
            yield make_feature(f"{slug}-{number}", "LineString", coordinates, properties)


def cut_line(line: Line, metres: float) -> Iterator[Line]:
    """Yields consecutive pieces of about the same length, near `metres`, cut between points too."""
    total = sum(distance_metres(a, b) for a, b in pairwise(line))
    if not total:
        return
    target = total / max(1, round(total / metres))
    piece: Line = [line[0]]
    left = target
    for start, end in pairwise(line):
        position = start
        while (step := distance_metres(position, end)) > left + 1:
            position = point_between(position, end, left / step)
            yield [*piece, position]
            piece, left = [position], target
        piece.append(end)
        left = max(0.0, left - step)
    if len(piece) > 1 and left < target:
        yield piece


def point_between(start: Point, end: Point, share: float) -> Point:
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share


def distance_metres(a: Point, b: Point) -> float:
    """Returns the distance on a locally flat map. Not for distances of many degrees."""
    east = (b[0] - a[0]) * math.cos(math.radians((a[1] + b[1]) / 2))
    return METRES_PER_DEGREE * math.hypot(east, b[1] - a[1])


def round_line(line: Line, digits: int) -> list[list[float]]:
    """Rounds the coordinates, and drops points equal to the one before."""
    points = [[round(x, digits), round(y, digits)] for x, y in line]
    return points[:1] + [after for before, after in pairwise(points) if after != before]


def earthquake_features(collection: dict[str, Any]) -> Iterator[Feature]:
    """Yields earthquakes with magnitude and place. Not explosions, nor magnitudes below 0: weights are not negative."""
    for found in collection["features"]:
        properties = found["properties"]
        if properties["type"] == "earthquake" and properties["mag"] is not None and properties["mag"] >= 0:
            longitude, latitude = found["geometry"]["coordinates"][:2]
            kept = {"mag": round(properties["mag"], 1), "place": properties["place"]}
            yield make_feature(found["id"], "Point", [round(longitude, 4), round(latitude, 4)], kept)


def make_feature(key: str, kind: str, coordinates: Any, properties: dict[str, Any]) -> Feature:
    geometry = {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "id": key, "properties": properties, "geometry": geometry}


def write_collection(path: Path, features: Iterable[Feature]) -> None:
    """Writes one feature on each line, so that a change of the data makes a readable diff."""
    rows = ",\n".join(json.dumps(item, separators=(",", ":")) for item in features)
    path.write_text(f'{{"type":"FeatureCollection","features":[\n{rows}\n]}}\n')


def convert_files(source: Path, target: Path) -> None:
    """Writes the five files of the demo from the package's four."""
    world = json.loads((source / "world-110m.json").read_text())
    tube = json.loads((source / "londonTubeLines.json").read_text())
    earthquakes = json.loads((source / "earthquakes.json").read_text())
    boroughs = json.loads((source / "londonBoroughs.json").read_text())
    write_collection(target / "land.geojson", area_features(world, "land", "land"))
    countries = outline_features(world, "countries", "border")
    write_collection(target / "countries.geojson", countries)
    write_collection(target / "london.geojson", area_features(boroughs, "boroughs", "borough"))
    write_collection(target / "tube.geojson", segment_features(tube, "line"))
    write_collection(target / "earthquakes.geojson", earthquake_features(earthquakes))


if __name__ == "__main__":
    convert_files(Path(sys.argv[1]), Path(sys.argv[2]))
