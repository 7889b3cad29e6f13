"""The admin of feeds."""

from . import categories, feeds, follows, hubs, scans  # noqa: F401  # they register themselves
