"""Range requests (RFC 9110, 14) where no nginx answers them. One range of bytes; what asks for more gets all. PURE."""

import re
from dataclasses import dataclass

_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes from `start` to before `end`, of `size`."""

    start: int
    end: int
    size: int

    @property
    def is_whole(self) -> bool:
        return self.end - self.start == self.size

    @property
    def content_range(self) -> str:
        return f"bytes {self.start}-{self.end - 1}/{self.size}"


def span(header: str, if_range: str, etag: str, size: int) -> Span | None:
    """What the client wants of so many bytes; None when it wants what is not there (416).

    Without a range that is understood, or with an If-Range that names other content, all of it.
    """
    everything = Span(0, size, size)
    found = _RANGE.fullmatch(header.strip())
    if not found or (if_range and if_range.strip() != etag):
        return everything
    first, last = found.groups()
    if first:
        start, end = int(first), min(int(last or size) + (1 if last else 0), size)
        if last and int(last) < int(first):  # malformed: as if it were not there
            return everything
    elif last:
        start, end = max(0, size - int(last)), size
    else:
        return everything
    return Span(start, end, size) if start < end else None
