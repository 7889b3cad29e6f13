"""What came of a fetch. PURE."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from multidict import MultiMapping

from .times import freshness
from .times.freshness import Freshness

_PERMANENTLY = frozenset({301, 308})


class Failure(Enum):
    """Why there is nothing. Each is treated differently: `giving_up` says how."""

    PERMANENT = "permanent"
    """It will not be there next time either: 404, no such host, a malformed address."""
    TRANSIENT = "transient"
    """It may be there later: 500, a reset, half a body."""
    THROTTLED = "throttled"
    """Too many requests. The limit's failure, not the address's."""
    POSTPONED = "postponed"
    """A redirect led to a host that is left alone for now. Nobody's failure."""
    OURS = "ours"
    """This machine or its network. Counts against nobody."""
    REFUSED = "refused"
    """An address, port, scheme or redirect that is not fetched."""
    TOO_BIG = "too big"
    """More than the limit, as announced or as received."""
    TOO_SLOW = "too slow"
    """Slower than the minimum rate, or not there by the deadline."""
    EXPIRED = "expired"
    """The signature in its address has run out."""


class Obstacle(Enum):
    """What was in the way of an answer, where that is known."""

    LOOKUP = "lookup"
    """The host's name."""
    CONNECTION = "connection"
    TLS = "tls"
    """The handshake, or the certificate."""


@dataclass(frozen=True, slots=True)
class Hop:
    """An address that was asked and redirected elsewhere."""

    url: str
    status: int


@dataclass(frozen=True, slots=True)
class Timing:
    """When it began, in Unix seconds; how long it took to the last answer's head, None without one, and in all.

    `wire_bytes` are those of bodies, as they were sent.
    """

    started_at: float
    seconds: float
    head_seconds: float | None = None
    wire_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Head:
    """An answer's head. Its `headers` are found by name in any case; several of one name are the first.

    `url` is the address that answered, after all redirects; `moved_to` where the address that was wanted has
    moved for good, as far as 301 and 308 led without another in between.
    Validators are opaque, None when they cannot be sent back. `content_length` is as announced; `received_at`
    is in Unix seconds.
    """

    status: int
    url: str
    headers: MultiMapping[str]
    received_at: float = 0.0
    hops: tuple[Hop, ...] = ()
    content_type: str = ""
    content_length: int | None = None
    etag: str | None = None
    last_modified: str | None = None
    retry_after_seconds: float | None = None

    @property
    def freshness(self) -> Freshness:
        """How long it may be kept. Read from the fields when it is asked for: not everybody does."""
        return freshness.parse(self.headers, self.received_at)

    @property
    def moved_to(self) -> str | None:
        chain = [hop.url for hop in self.hops] + [self.url]
        permanent = 0
        while permanent < len(self.hops) and self.hops[permanent].status in _PERMANENTLY:
            permanent += 1
        return chain[permanent] if permanent else None


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes, unpacked: in `data`, or in the file at `path`, which whoever gets it must move or `discard`.

    `digest` is their SHA-256 in lower-case hex.
    """

    size: int
    digest: str
    data: bytes | None = None
    path: Path | None = None

    def read(self) -> bytes:
        """All of it in memory. For bodies that are known to be small."""
        if self.data is not None:
            return self.data
        assert self.path is not None
        return self.path.read_bytes()

    def discard(self) -> None:
        """Removes the file, if there is one and it was not moved."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer of 2xx with its body."""

    head: Head
    body: Body
    timing: Timing


@dataclass(frozen=True, slots=True)
class NotModified:
    """A 304: what was had is still right. The head may bring fresh validators and freshness."""

    head: Head
    timing: Timing


@dataclass(frozen=True, slots=True)
class Dropped:
    """Whoever asked looked at the head and did not want the body.

    Or the head redirects to `onward`, and nobody wanted to ask there: it is the last of the head's hops.
    """

    head: Head
    timing: Timing
    onward: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """Nothing came. `status` is the last answer's, None without one; `detail` is a sentence for people.

    `retry_after_seconds` is what the server asked for; `url` the address that was asked last, if one was.
    `obstacle` is None for a failure of any other kind.
    """

    failure: Failure
    detail: str
    timing: Timing
    status: int | None = None
    retry_after_seconds: float | None = None
    hops: tuple[Hop, ...] = ()
    url: str = ""
    obstacle: Obstacle | None = None


Outcome = Fetched | NotModified | Dropped | Failed
