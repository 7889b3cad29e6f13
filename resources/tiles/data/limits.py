"""The limits of a layer's file."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class LayerLimits:
    """Limits of a layer's file."""

    max_bytes: int = 100_000_000
    max_positions_per_line: int = 250_000
    measured_until: datetime | None = None
    """Speeds measured later are refused: some clock is wrong. None: no limit."""
