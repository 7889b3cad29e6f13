"""The request of a fetch, its outcome, and its errors, as values.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from pathlib import Path

from multidict import MultiMapping

from retry.records import frozen_record

from . import freshness
from .freshness import Freshness

DEFAULT_PORTS = {"http": 80, "https": 443}
SENDABLE_METHODS = frozenset({"GET", "HEAD", "POST"})
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
MAX_FIELD_VALUE_CHARACTERS = 4000
_FIELD_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
_FIELDS_OF_CONNECTIONS = {"connection", "transfer-encoding", "upgrade", "trailer", "te", "proxy-authorization"}
_FIELDS_OF_THE_CLIENT = frozenset({"host", "content-length", "expect", *_FIELDS_OF_CONNECTIONS})


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of a fetch: its duration and its size.

    `deadline_seconds` holds for the whole fetch: DNS, connections, every redirect, the body. `head_seconds`
    is the longest wait for the head of one answer. `min_bytes_per_second` is the least average rate of a body: the
    bytes of `window_seconds` at that rate must come within `window_seconds`, over and over (0: any rate).
    `max_body_bytes` holds for the bytes sent and for the unpacked bytes; a body above `spool_bytes` goes to a file.
    `learnt_bytes_per_second` is the known speed of the server: a body that would not come in time is not begun.
    A body that still comes `slow_after_seconds` after the fetch began is slow, if the fetch has limits for slow bodies.
    """

    deadline_seconds: float = 30
    head_seconds: float = 30
    connect_seconds: float = 10
    min_bytes_per_second: float = 1000
    window_seconds: float = 10
    max_body_bytes: int = 25_000_000
    max_head_bytes: int = 65_536
    max_redirects: int = 10
    spool_bytes: int = 262_144
    learnt_bytes_per_second: float | None = None
    slow_after_seconds: float = 10


@frozen_record
class FetchRequest:
    """One request to another server. Does not say when, or how often it is tried.

    `url` is sent as it is, except for characters that no URL may hold; `kind` (tile, file, feed, hub) is for records,
    and so is `scan`, the number of the scan that handed it over.
    `headers` go to the origin of `url` and to no other; `secrets` are more of them, which go there over https alone.
    `etag` and `last_modified` are validators, sent as
    they were received, to the origin of `validated_url` only: the address that gave them, `url` by default.
    With `slow_limits`, a body that turns out too large or too slow for `limits` goes on under those.
    `head_first`: the fetcher asks for the head alone, and for the body in a turn of its own if it is needed.
    Raises ValueError for methods and headers that cannot be sent.
    """

    url: str
    kind: str = "file"
    method: str = "GET"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    etag: str | None = None
    last_modified: str | None = None
    validated_url: str | None = None
    limits: FetchLimits = FetchLimits()
    slow_limits: FetchLimits | None = None
    head_first: bool = False
    scan: int | None = None

    def __post_init__(self) -> None:
        if self.method not in SENDABLE_METHODS:
            raise ValueError(f"{self.method!r} is not one of {', '.join(sorted(SENDABLE_METHODS))}")
        for name, value in (*self.headers.items(), *self.secrets.items()):
            if not _FIELD_NAME.fullmatch(name) or not is_sendable(value) or name.lower() in _FIELDS_OF_THE_CLIENT:
                raise ValueError(f"the header {name!r} cannot be sent")

    @property
    def is_conditional(self) -> bool:
        return self.etag is not None or self.last_modified is not None


def is_sendable(value: str) -> bool:
    """Tells whether a header may have this value. Some servers give validators that cannot be sent back."""
    if len(value) > MAX_FIELD_VALUE_CHARACTERS:
        return False
    return (value.isascii() and value.isprintable()) or _FIELD_VALUE.fullmatch(value) is not None


_PERMANENT_REDIRECTS = frozenset({301, 308})


class Failure(Enum):
    """The reason of a failed fetch. `retry_policy` treats each differently."""

    PERMANENT = "permanent"
    """The next attempt would fail too: 404, no such host, a malformed address."""
    TRANSIENT = "transient"
    """A later attempt may succeed: 500, a reset, half a body."""
    THROTTLED = "throttled"
    """Too many requests. The limit's failure, not the address's."""
    POSTPONED = "postponed"
    """The host rests for now. Counts against no host."""
    OURS = "ours"
    """This machine or its network. Counts against no host."""
    REFUSED = "refused"
    """An address, port, scheme or redirect that is not fetched."""
    TOO_BIG = "too big"
    """More than the limit, as announced or as received."""
    TOO_SLOW = "too slow"
    """Slower than the minimum rate, or past the deadline."""
    EXPIRED = "expired"
    """The signature in the address has run out."""


class Obstacle(Enum):
    """The step that failed before an answer, where it is known."""

    LOOKUP = "lookup"
    """The lookup of the host's name."""
    CONNECTION = "connection"
    TLS = "tls"
    """The handshake, or the certificate."""


@dataclass(frozen=True, slots=True)
class Hop:
    """An address that redirected elsewhere."""

    url: str
    status: int


@frozen_record
class OutcomeTiming:
    """The start of a fetch in Unix seconds, the seconds to the last answer's head (None without one), and all seconds.

    `wire_bytes` counts the bytes of bodies as they were sent. `answer_seconds` has the wait for the head of each
    answer, redirects first; waits for a turn are not in it.
    """

    started_at: float
    seconds: float
    head_seconds: float | None = None
    wire_bytes: int = 0
    answer_seconds: tuple[float, ...] = ()


@frozen_record
class Head:
    """The head of an answer. `headers` are found by name in any case; of several with one name the first counts.

    `url` is the address that answered, after all redirects; `moved_to` is the permanent new address of the requested
    one: the end of the 301 and 308 redirects before any other redirect.
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
        """The freshness of the answer, parsed at each access: few callers need it."""
        return freshness.parse_freshness(self.headers, self.received_at)

    @property
    def moved_to(self) -> str | None:
        chain = [hop.url for hop in self.hops] + [self.url]
        permanent = 0
        while permanent < len(self.hops) and self.hops[permanent].status in _PERMANENT_REDIRECTS:
            permanent += 1
        return chain[permanent] if permanent else None


@dataclass(slots=True)
class Body:
    """The unpacked bytes: in `data`, or in the file at `path`, which the receiver must move or `discard`.

    `known_digest` is their digest where it is known: of a file it must be.
    """

    size: int
    known_digest: str | None = field(default=None, compare=False)
    data: bytes | None = None
    path: Path | None = None

    @property
    def digest(self) -> str:
        """Returns their SHA-256 in lower-case hex. Computes that of data at the first call: many tasks need none."""
        if self.known_digest is None:
            assert self.data is not None
            self.known_digest = sha256(self.data).hexdigest()
        return self.known_digest

    def read(self) -> bytes:
        """Reads the whole body into memory. For bodies that are known to be small."""
        if self.data is not None:
            return self.data
        assert self.path is not None
        return self.path.read_bytes()

    def discard(self) -> None:
        """Removes the file, if there is one and it was not moved."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


@frozen_record
class Fetched:
    """An answer of 2xx with its body."""

    head: Head
    body: Body
    timing: OutcomeTiming


@dataclass(frozen=True, slots=True)
class NotModified:
    """A 304: the stored content is still right. The head may bring fresh validators and freshness."""

    head: Head
    timing: OutcomeTiming


@dataclass(frozen=True, slots=True)
class BodyDropped:
    """An answer whose body the task refused after its head.

    With `onward`, the task refused to follow a redirect to that address: it is the target of the head's last hop.
    """

    head: Head
    timing: OutcomeTiming
    onward: str = ""


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """A fetch without a result. `status` is the last answer's, None without one; `detail` is a sentence for people.

    `retry_after_seconds` is the wait that the server asked for; `url` the last requested address, empty without one.
    `obstacle` is None for a failure of any other kind.
    """

    failure: Failure
    detail: str
    timing: OutcomeTiming
    status: int | None = None
    retry_after_seconds: float | None = None
    hops: tuple[Hop, ...] = ()
    url: str = ""
    obstacle: Obstacle | None = None


Outcome = Fetched | NotModified | BodyDropped | FetchFailed


class FetchError(Exception):
    """A fetch that ends here. The client turns it into `FetchFailed`, which has the same fields."""

    def __init__(
        self,
        failure: Failure,
        detail: str,
        *,
        status: int | None = None,
        retry_after_seconds: float | None = None,
        obstacle: Obstacle | None = None,
    ) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.obstacle = obstacle


class MalformedExceptionError(ValueError):
    """An entry of FETCH_ALLOW_PRIVATE that names no network."""


class UnreadableSealError(Exception):
    """A sealed value that no key opens."""


class MalformedEgressError(ValueError):
    """An entry of FETCH_EGRESS that names no egress."""
