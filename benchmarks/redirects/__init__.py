"""Which clients get slow content: client × delivery × duration of the preparation, as a table."""

from benchmarks.redirects.matrix import measure

__all__ = ["measure"]
