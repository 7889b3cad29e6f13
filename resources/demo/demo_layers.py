"""The demo's layers: their files, sources and styles.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

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
