"""What is wanted of another server. PURE."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

METHODS = frozenset({"GET", "HEAD", "POST"})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
MAX_VALUE_CHARACTERS = 4000
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
_OURS = frozenset(
    {
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "upgrade",
        "trailer",
        "te",
        "expect",
        "proxy-authorization",
    }
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a fetch may take and how much it may bring.

    `deadline_seconds` holds for the whole of it: DNS, connections, every redirect, the body. `head_seconds`
    is the longest wait for one answer's head. `min_bytes_per_second` must come on average while a body is
    waited for: as much as that makes of `window_seconds` must come within `window_seconds`, over and over (0: any).
    `max_body_bytes` holds for what is sent and for what it unpacks to; above `spool_bytes` a body goes to a file.
    `learnt_bytes_per_second` is what is known of the server: a body that would not be there in time is not begun.
    A body that is still coming `slow_after_seconds` after the fetch began is a slow one, where there are other
    limits for those.
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


@dataclass(frozen=True, slots=True)
class Fetch:
    """One thing to get. Says nothing about when, or how often it is tried.

    `url` is sent as it is, but for what no URL may hold; `kind` (tile, file, feed, hub) is for records.
    `headers` go to the origin of `url` and to no other. `etag` and `last_modified` are validators, sent as
    they were received, to the origin of `validated_url` only: the address that gave them, `url` by default.
    With `slow_limits`, a body that turns out too large or too slow for `limits` goes on under those.
    `head_first`: the fetcher asks for the head alone, and for the body in a turn of its own if that is needed.
    Raises ValueError for methods and headers that cannot be sent.
    """

    url: str
    kind: str = "file"
    method: str = "GET"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    etag: str | None = None
    last_modified: str | None = None
    validated_url: str | None = None
    limits: Limits = Limits()
    slow_limits: Limits | None = None
    head_first: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"{self.method!r} is not one of {', '.join(sorted(METHODS))}")
        for name, value in self.headers.items():
            if not _TOKEN.fullmatch(name) or not is_sendable(value) or name.lower() in _OURS:
                raise ValueError(f"the header {name!r} cannot be sent")

    @property
    def is_conditional(self) -> bool:
        return self.etag is not None or self.last_modified is not None


def is_sendable(value: str) -> bool:
    """Whether a header may have this value. Servers send validators that nobody can send back."""
    if len(value) > MAX_VALUE_CHARACTERS:
        return False
    return (value.isascii() and value.isprintable()) or _VALUE.fullmatch(value) is not None
