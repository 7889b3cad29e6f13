"""The limit beyond which a recorded moment must come from a clock that was ahead. PURE."""

from datetime import timedelta

MAX_CLOCK_LEAD = timedelta(minutes=1)
"""The greatest lead of a recorded moment over now. A greater one means that the clock was set back since."""
