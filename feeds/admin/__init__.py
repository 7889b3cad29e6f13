"""The admin of feeds."""

from . import categories, feeds, follows, scans  # noqa: F401  # they register themselves
