"""What tells that a moment was noted by a clock that was ahead. PURE."""

from datetime import timedelta

AHEAD = timedelta(minutes=1)
"""No moment that has passed lies further ahead than this, unless the clock has been set back since."""
