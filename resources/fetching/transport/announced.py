"""Whether a body is begun, by what its head announces: how large it is, and how fast its server sends. PURE."""

from ..errors import FetchError
from ..outcomes import Failure, Head
from ..requests import Fetch, Limits


def is_slow(fetch: Fetch, head: Head, seconds_so_far: float) -> bool:
    """Whether a body, as it is announced, needs the limits for slow ones. Raises FetchError when it is too much."""
    if head.content_length is None:
        return False
    speed = fetch.limits.learnt_bytes_per_second
    too_much = _why_not(head.content_length, fetch.limits, speed, seconds_so_far)
    if too_much is None:
        return False
    if fetch.slow_limits is not None:
        too_much = _why_not(head.content_length, fetch.slow_limits, speed, seconds_so_far)
    if too_much is not None:
        raise too_much
    return True


def too_big(max_bytes: int) -> FetchError:
    """What a body of more bytes fails of, announced or not."""
    return FetchError(Failure.TOO_BIG, f"more than {max_bytes:,} bytes")


def _why_not(length: int, limits: Limits, speed: float | None, seconds_so_far: float) -> FetchError | None:
    """Why a body of so many bytes is not begun under these limits: it is too large, or not there in time."""
    if length > limits.max_body_bytes:
        return too_big(limits.max_body_bytes)
    if speed and seconds_so_far + length / speed > limits.deadline_seconds:
        return FetchError(Failure.TOO_SLOW, f"{length:,} bytes would not be there in time")
    return None
