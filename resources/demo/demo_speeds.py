"""Speeds that nobody measured: smooth in time and place, and the same for the same second.

PURE. Does not read a clock, a file or a database.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MINUTE = 60.0
DEGREE_KM = 111.2
SLOWEST_SHARE = 0.06
LINES_WITHOUT_DATA = frozenset({"Waterloo & City"})


@dataclass(frozen=True, slots=True)
class Segment:
    key: str
    line: str
    longitude: float
    latitude: float
    free_flow_kmh: float


@dataclass(frozen=True, slots=True)
class Jam:
    """A jam that circles around a place, grows and dissolves."""

    longitude: float
    latitude: float
    orbit_km: float
    reach_km: float
    orbit_seconds: float
    swell_seconds: float
    phase: float


JAMS = (
    Jam(-0.128, 51.508, 3.0, 3.2, 23 * MINUTE, 7 * MINUTE, 0.0),
    Jam(-0.075, 51.516, 4.5, 2.4, 17 * MINUTE, 5 * MINUTE, 1.9),
    Jam(-0.210, 51.500, 5.0, 2.8, 29 * MINUTE, 9 * MINUTE, 4.1),
    Jam(-0.020, 51.515, 5.5, 2.6, 19 * MINUTE, 6 * MINUTE, 2.7),
    Jam(-0.140, 51.560, 5.0, 2.2, 31 * MINUTE, 8 * MINUTE, 5.3),
    Jam(-0.300, 51.540, 6.5, 3.0, 37 * MINUTE, 11 * MINUTE, 0.8),
)


def speeds_at(seconds: float, segments: Iterable[Segment]) -> dict[str, float]:
    """Returns the speed in km/h by segment key at a moment, in Unix seconds.

    Leaves out the lines that have no data, so that the map shows what that looks like.
    """
    centres = [(centre_at(seconds, jam), jam) for jam in JAMS]
    return {
        segment.key: round(segment.free_flow_kmh * share_at(seconds, segment, centres), 1)
        for segment in segments
        if segment.line not in LINES_WITHOUT_DATA
    }


def with_free_flow(seconds: float, segments: Sequence[Segment]) -> dict[str, tuple[float, float]]:
    """Returns speed and free flow in km/h by segment key: what a layer stores."""
    free_flow = {segment.key: segment.free_flow_kmh for segment in segments}
    return {key: (speed, free_flow[key]) for key, speed in speeds_at(seconds, segments).items()}


def centre_at(seconds: float, jam: Jam) -> tuple[float, float]:
    """Returns where the middle of a jam is."""
    angle = math.tau * seconds / jam.orbit_seconds + jam.phase
    east_km, north_km = jam.orbit_km * math.cos(angle), jam.orbit_km * math.sin(angle)
    longitude = jam.longitude + east_km / (DEGREE_KM * math.cos(math.radians(jam.latitude)))
    return longitude, jam.latitude + north_km / DEGREE_KM


def share_at(seconds: float, segment: Segment, centres: list[tuple[tuple[float, float], Jam]]) -> float:
    """Returns the share of free flow, between SLOWEST_SHARE and 1."""
    pressure = sum(pressure_of(seconds, segment, centre, jam) for centre, jam in centres)
    return max(SLOWEST_SHARE, ripple(seconds, segment) * math.exp(-pressure))


def pressure_of(seconds: float, segment: Segment, centre: tuple[float, float], jam: Jam) -> float:
    """Returns how much one jam weighs on a segment: a bell over the distance, swelling in time."""
    east = (segment.longitude - centre[0]) * math.cos(math.radians(segment.latitude))
    north = segment.latitude - centre[1]
    distance_km = DEGREE_KM * math.hypot(east, north)
    swell = 0.55 + 0.45 * math.sin(math.tau * seconds / jam.swell_seconds + jam.phase)
    return 2.0 * swell * math.exp(-((distance_km / jam.reach_km) ** 2))


def ripple(seconds: float, segment: Segment) -> float:
    """Returns a share of 0.8 to 1 that waves along the lines, so that neighbours differ a little."""
    place = 90 * (segment.longitude + 1.7 * segment.latitude) + len(segment.line)
    return 0.9 + 0.1 * math.sin(place + math.tau * seconds / (4 * MINUTE))
