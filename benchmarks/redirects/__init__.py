"""Real clients and slow content: client × delivery × duration of the preparation, as a table."""

from .matrix import measure

__all__ = ["measure"]
