"""Prepared content: its record in `cache`, its freshness, and the fence around its writing. PURE."""

import json
import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any

from .errors import PreparationError
from .records import frozen_record
from .scripts import Reply, ScriptCall

SERVABLE_SECONDS = 10
"""Content is kept at least this long after storing, whatever its freshness, so that waiting clients get it."""

MAX_NOTICE_BYTES = 65_536
"""The largest body that is sent to waiting instances as soon as it is stored."""

_NAME_PREFIX = "retry:content:"


@frozen_record
class Prepared:
    """Content as a preparer returns it for one content key.

    `client_seconds` is the max-age for clients; None stands for the hot window. Content whose `version` is lower than
    the requested one is stale at once.
    """

    body: bytes
    content_type: str
    fresh_seconds: float
    stale_seconds: float
    client_seconds: float | None = None
    version: int = 0
    note: str = ""
    """The preparer's own text, kept with the content and never shown."""


@frozen_record
class Content:
    """Content as read from `cache`.

    `fresh_seconds` is the rest of `given_seconds`, negative when the content is stale. `changed_at` is the time since
    which its bytes are these: a refresh that changes nothing leaves it. None stands for `stored_at`.
    """

    body: bytes
    content_type: str
    etag: str
    stored_at: datetime
    cost_seconds: float
    client_seconds: float | None
    version: int
    fresh_seconds: float
    given_seconds: float = math.inf
    note: str = ""
    changed_at: datetime | None = None

    @property
    def last_modified(self) -> datetime:
        return self.changed_at or self.stored_at

    def is_fresh(self, version: int) -> bool:
        return self.fresh_seconds > 0 and self.version >= version

    def refreshes_early(self, luck: float, beta: float = 1.0) -> bool:
        """Tells whether this request should refresh the content before it expires. `luck` is uniform in (0, 1].

        XFetch: Vattani, Chierichetti, Lowenstein, Optimal Probabilistic Cache Stampede Prevention, VLDB 2015.
        """
        return -self.cost_seconds * beta * math.log(luck) >= self.fresh_seconds

    def is_about_to_expire(self, hot_seconds: float) -> bool:
        """Tells whether this may be main's last request in time for a refresh: shared caches answer between.

        True in the last part of its life: its preparation time and two hot windows, but at most half of its life.
        """
        return self.fresh_seconds <= self.cost_seconds + min(2 * hot_seconds, self.given_seconds / 2)


_shared_bodies: dict[str, bytes] = {}


def share_body(body: bytes) -> None:
    """Registers bytes that many contents share, so that `cache` holds only their digest."""
    _shared_bodies[_digest(body)] = body


def content_name(content_key: str) -> str:
    """The name of content in `cache`."""
    return _NAME_PREFIX + content_key


def channel_name(content_key: str, database: int) -> str:
    """The name of the channel of the content's notices. All databases of a server share the names of channels."""
    return f"retry:stored:{database}:{content_key}"


def store_call(  # noqa: PLR0917  # the parts of a record
    content_key: str,
    prepared: Prepared,
    token: int,
    stored_at: datetime,
    cost_seconds: float,
    work_key: str = "",
    database: int | None = None,
) -> ScriptCall:
    """The call that stores content unless newer content is there. The reply is 1, or 0 when fenced off.

    The waiting clients of the work are told of it, if one is named with the number of this database of `cache`.
    """
    if not (prepared.fresh_seconds >= 0 and prepared.stale_seconds >= 0):
        raise PreparationError("The preparer gave an impossible freshness.")
    digest, moment = _digest(prepared.body), stored_at.timestamp()
    kept_ms = int(max(prepared.fresh_seconds + prepared.stale_seconds, SERVABLE_SECONDS) * 1000)
    terms = (
        ("type", prepared.content_type),
        ("client", prepared.client_seconds),
        ("version", prepared.version),
        ("fresh", prepared.fresh_seconds),
        ("stale_ms", kept_ms - int(prepared.fresh_seconds * 1000)),
        ("note", prepared.note),
    )
    meta = f'{{"digest":"{digest}","stored":{moment!r},"cost":{cost_seconds!r},{_write_terms(terms)}'
    body = b"" if digest in _shared_bodies else prepared.body
    channel = channel_name(content_key, database) if work_key and database is not None else ""
    given = (token, kept_ms, meta, body, digest, moment, channel, work_key, MAX_NOTICE_BYTES)
    return ScriptCall("cache", "store", [content_name(content_key)], given)


@lru_cache(maxsize=64)
def _write_terms(terms: tuple[tuple[str, str | float | None], ...]) -> str:
    """The end of content's metadata in JSON, which most of a task's contents share."""
    return json.dumps(dict(terms))[1:]


def read_content(content_key: str, *, with_body: bool = True) -> Generator[ScriptCall, Reply, Content | None]:
    """Reads content, fresh or stale. Does not decide whether it should be served."""
    reply = yield ScriptCall("cache", "read", [content_name(content_key)], ["body" if with_body else ""])
    assert isinstance(reply, list)
    left_ms, meta, body, changed = reply
    if meta is None:
        return None
    try:
        return _parse_content(meta, left_ms, body or b"", changed, with_body=with_body)
    except (KeyError, TypeError, ValueError):  # written by another version: as good as absent
        return None


@dataclass(frozen=True, slots=True)
class StoredNotice:
    """The notice that content of awaited work was stored a moment ago. `record` is empty if its body is large."""

    work_key: str
    content_key: str
    record: bytes

    @classmethod
    def parse(cls, message: bytes) -> "StoredNotice":
        """Reads the message of store.lua."""
        work_key, _, rest = message.partition(b"\n")
        name, _, record = rest.partition(b"\n")
        return cls(work_key.decode(), name.decode().removeprefix(_NAME_PREFIX), record)

    def read_content(self, now: datetime) -> Content | None:
        """Reads the content, as fresh as it is now. Returns None if it must be read from `cache`."""
        try:
            left_ms, changed, meta, body = self.record.split(b"\n", 3)
            content = _parse_content(meta, int(left_ms), body, changed, with_body=True)
        except (KeyError, TypeError, ValueError):
            return None
        age_seconds = max(0.0, (now - content.stored_at).total_seconds())
        return replace(content, fresh_seconds=content.fresh_seconds - age_seconds)


def _parse_content(meta: bytes, left_ms: int, body: bytes, changed: bytes | None, *, with_body: bool) -> Content:
    held: dict[str, Any] = json.loads(meta.decode())  # of bytes, json.loads() would find out the encoding
    return Content(
        body=_shared_bodies.get(held["digest"], body) if with_body else b"",
        content_type=held["type"],
        etag=f'"{held["digest"][:32]}"',
        stored_at=datetime.fromtimestamp(held["stored"], UTC),
        cost_seconds=held["cost"],
        client_seconds=held["client"],
        version=held["version"],
        fresh_seconds=(left_ms - held["stale_ms"]) / 1000,
        given_seconds=held.get("fresh", math.inf),
        note=held.get("note", ""),
        changed_at=datetime.fromtimestamp(float(changed), UTC) if changed else None,
    )


def _digest(body: bytes) -> str:
    return sha256(body).hexdigest()
