"""Exponential decay of counts: a request of one half-life ago weighs half of one made now. PURE.

Forward decay: Cormode, Shkapenyuk, Srivastava, Xu, Forward Decay: A Practical Time Decay Model for
Streaming Systems, ICDE 2009. Weights grow from a landmark instead of shrinking: what has been
counted need not be touched as time passes, lines may come in any order, and ranks never change.
"""


def weight(age_seconds: float, half_life_seconds: float) -> float:
    """What a request of that age adds to a count as of now. One from the future weighs as one made now."""
    return float(2 ** -min(1000.0, max(0.0, age_seconds) / half_life_seconds))


def value(score: float, landmark: float, half_life_seconds: float, now: float) -> float:
    """What a score that is kept as of the landmark is worth now. Times are Unix seconds."""
    return score * weight(now - landmark, half_life_seconds)
