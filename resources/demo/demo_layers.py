"""The demo's layers: their files, sources and styles, and generated speeds.

The speeds are smooth in time and place, and the same for the same second.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

DATA_FOLDER = Path(__file__).parent / "data"
JAMS_SLUG = "jams"

NATURAL_EARTH = "Natural Earth"
OPENSTREETMAP = "© OpenStreetMap contributors, https://www.openstreetmap.org/copyright"
CROWN = "Contains National Statistics and Ordnance Survey data © Crown copyright and database right 2015"
USGS = "Earthquakes: U.S. Geological Survey, https://earthquake.usgs.gov"
STILL = {"fresh_seconds": 86_400, "client_seconds": 300}
"""The freshness of layers that do not change."""

GENERATED_NOTE = "The lines are real, as of 2018. The speeds are generated: nobody measured them."

MINUTE_SECONDS = 60.0
KM_PER_DEGREE = 111.2
SLOWEST_SHARE = 0.06
LINES_WITHOUT_DATA = frozenset({"Waterloo & City"})


@dataclass(frozen=True, slots=True)
class DemoLayer:
    """A layer of the demo, its fields other than the defaults, and its file if it has another name."""

    slug: str
    kind: Literal["lines", "areas", "points"]
    fields: dict[str, Any]
    other_file: str = ""

    @property
    def file(self) -> str:
        return self.other_file or f"{self.slug}.geojson"


DEMO_LAYERS = (
    DemoLayer(
        "land",
        "areas",
        {
            "title": "Land",
            "base": True,
            "order": 0,
            "style": {"colours": {"fill": "#f5f2ea", "outline": "#f5f2ea00"}},
            "attribution": NATURAL_EARTH,
            **STILL,
        },
    ),
    DemoLayer(
        "london",
        "areas",
        {
            "title": "London boroughs",
            "base": True,
            "order": 10,
            "min_zoom": 7,
            "style": {"colours": {"fill": "#e6e2d7", "outline": "#faf8f3"}, "widths": {"8": 0.5, "12": 1.5, "16": 3}},
            "attribution": CROWN,
            **STILL,
        },
    ),
    DemoLayer(
        "countries",
        "lines",
        {
            "title": "Countries",
            "base": True,
            "order": 20,
            "style": {"colours": {"grey": "#aaa290"}, "widths": {"2": 0.7, "6": 1.2, "12": 2}},
            "attribution": NATURAL_EARTH,
            **STILL,
        },
    ),
    DemoLayer(
        "earthquakes",
        "points",
        {
            "title": "Earthquakes",
            "order": 25,
            "style": {"mode": "clusters", "weight": "mag"},
            "attribution": USGS,
            "note": "One week, 31 January to 7 February 2018.",
            **STILL,
        },
    ),
    DemoLayer(
        JAMS_SLUG,
        "lines",
        {
            "title": "London Underground",
            "order": 30,
            "style": {"widths": {"7": 1, "10": 2.5, "12": 4, "15": 8}},
            "attribution": OPENSTREETMAP,
            "note": GENERATED_NOTE,
            "fresh_seconds": 3600,
        },
        "tube.geojson",
    ),
)


@dataclass(frozen=True, slots=True)
class DemoSegment:
    key: str
    line: str
    longitude: float
    latitude: float
    free_flow_kmh: float


@dataclass(frozen=True, slots=True)
class DemoJam:
    """A jam that circles around a place, grows and dissolves."""

    longitude: float
    latitude: float
    orbit_km: float
    reach_km: float
    orbit_seconds: float
    swell_seconds: float
    phase: float


JAMS = (
    DemoJam(-0.128, 51.508, 3.0, 3.2, 23 * MINUTE_SECONDS, 7 * MINUTE_SECONDS, 0.0),
    DemoJam(-0.075, 51.516, 4.5, 2.4, 17 * MINUTE_SECONDS, 5 * MINUTE_SECONDS, 1.9),
    DemoJam(-0.210, 51.500, 5.0, 2.8, 29 * MINUTE_SECONDS, 9 * MINUTE_SECONDS, 4.1),
    DemoJam(-0.020, 51.515, 5.5, 2.6, 19 * MINUTE_SECONDS, 6 * MINUTE_SECONDS, 2.7),
    DemoJam(-0.140, 51.560, 5.0, 2.2, 31 * MINUTE_SECONDS, 8 * MINUTE_SECONDS, 5.3),
    DemoJam(-0.300, 51.540, 6.5, 3.0, 37 * MINUTE_SECONDS, 11 * MINUTE_SECONDS, 0.8),
)


def speeds_at(seconds: float, segments: Iterable[DemoSegment]) -> dict[str, float]:
    """Returns the speed in km/h by segment key at a moment, in Unix seconds.

    Leaves out the lines without data, so that the map shows such lines, too.
    """
    centres = [(jam_centre(seconds, jam), jam) for jam in JAMS]
    return {
        segment.key: round(segment.free_flow_kmh * free_flow_share(seconds, segment, centres), 1)
        for segment in segments
        if segment.line not in LINES_WITHOUT_DATA
    }


def speeds_with_free_flow(seconds: float, segments: Sequence[DemoSegment]) -> dict[str, tuple[float, float]]:
    """Returns speed and free flow in km/h by segment key, as a layer stores them."""
    free_flow = {segment.key: segment.free_flow_kmh for segment in segments}
    return {key: (speed, free_flow[key]) for key, speed in speeds_at(seconds, segments).items()}


def jam_centre(seconds: float, jam: DemoJam) -> tuple[float, float]:
    """Returns the longitude and latitude of a jam's middle."""
    angle = math.tau * seconds / jam.orbit_seconds + jam.phase
    east_km, north_km = jam.orbit_km * math.cos(angle), jam.orbit_km * math.sin(angle)
    longitude = jam.longitude + east_km / (KM_PER_DEGREE * math.cos(math.radians(jam.latitude)))
    return longitude, jam.latitude + north_km / KM_PER_DEGREE


def free_flow_share(seconds: float, segment: DemoSegment, centres: list[tuple[tuple[float, float], DemoJam]]) -> float:
    """Returns the share of free flow, between SLOWEST_SHARE and 1."""
    pressure = sum(jam_pressure(seconds, segment, centre, jam) for centre, jam in centres)
    return max(SLOWEST_SHARE, ripple_share(seconds, segment) * math.exp(-pressure))


def jam_pressure(seconds: float, segment: DemoSegment, centre: tuple[float, float], jam: DemoJam) -> float:
    """Returns the weight of one jam on a segment: a bell over the distance, swelling in time."""
    east = (segment.longitude - centre[0]) * math.cos(math.radians(segment.latitude))
    north = segment.latitude - centre[1]
    distance_km = KM_PER_DEGREE * math.hypot(east, north)
    swell = 0.55 + 0.45 * math.sin(math.tau * seconds / jam.swell_seconds + jam.phase)
    return 2.0 * swell * math.exp(-((distance_km / jam.reach_km) ** 2))


def ripple_share(seconds: float, segment: DemoSegment) -> float:
    """Returns a share of 0.8 to 1 that waves along the lines, so that neighbours differ a little."""
    place = 90 * (segment.longitude + 1.7 * segment.latitude) + len(segment.line)
    return 0.9 + 0.1 * math.sin(place + math.tau * seconds / (4 * MINUTE_SECONDS))
