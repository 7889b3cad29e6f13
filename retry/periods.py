"""The periods in which requests are counted, so that those of the last hour and day are known. PURE.

Times are Unix seconds. A sliding window is summed from whole periods and a share of the oldest.
"""

PARTS = "/parts"
"""What follows a kind under which the parts of its groups are counted, as `layer/zoom`."""

PERIOD_SECONDS = 600
DAY_SECONDS = 86_400
KEPT_SECONDS = DAY_SECONDS + 2 * PERIOD_SECONDS
"""How long the counts of a period stay after their last change: a day, and the period that is left in part."""


def period(moment: float, now: float) -> int:
    """The period in which a request of that moment is counted, -1 when that was more than a day ago."""
    return -1 if now - moment > DAY_SECONDS else int(min(moment, now) // PERIOD_SECONDS)


def shares(now: float, seconds: float) -> dict[int, float]:
    """How much of each period lies in the last `seconds`: all of it, but for the oldest."""
    last, began = int(now // PERIOD_SECONDS), (now - seconds) / PERIOD_SECONDS
    first = int(began // 1)
    return {number: min(1.0, number + 1 - began) for number in range(first, last + 1)}
