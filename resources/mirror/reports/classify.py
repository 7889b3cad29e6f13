"""Decides on each URL of a list: known, accepted, failed or refused. PURE.

The name of a URL is the digest of its canonical URL. The caller looks up the known states in between.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from ..canonical.rules import UrlRules
from ..canonical.urls import candidate_digests, canonicalise_url, find_surest_digest
from ..errors import UrlError
from ..ingest import due_times

ReportStatus = Literal["known", "accepted", "failed", "refused"]

JOINED_DETAIL = "In progress already."
"""The detail of an item whose URL another list, or the same list, asked for first."""

NO_TEXT_DETAIL = "The URL is not text."
BLOCKED_DETAIL = "The host is blocked by an admin."

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class UrlKnowledge(Protocol):
    """The known state of a URL, as a look-up gives it."""

    @property
    def state(self) -> str: ...
    @property
    def blob_digest(self) -> str: ...
    @property
    def failure(self) -> str: ...
    @property
    def detail(self) -> str: ...
    @property
    def due_at(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True)
class NamedUrl:
    """A URL of a list that can be mirrored, judged by the URL alone.

    `digests` are those under which it may be known, the surest first; the last is that of its canonical URL.
    """

    position: int
    url: str
    host: str
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UrlDecision:
    """The decision on one URL of a list.

    `step` is one of models.Step if the URL is settled, and empty if it is accepted. `asks` marks the first URL of its
    name in the list. `detail` is a sentence: why the URL was refused or has failed, or JOINED_DETAIL.
    A report from `retry_at` on has a failed URL tried again; None: not by itself.
    """

    position: int
    url: str
    status: ReportStatus
    step: str = ""
    url_digest: str = ""
    host: str = ""
    blob_digest: str = ""
    detail: str = ""
    asks: bool = False
    retry_at: datetime | None = None


def name_urls(
    urls: Iterable[str], rules: UrlRules, is_blocked: Callable[[str], bool]
) -> tuple[list[NamedUrl], list[UrlDecision]]:
    """Splits a list into URLs that can be mirrored, and those refused by themselves."""
    named: list[NamedUrl] = []
    refused: list[UrlDecision] = []
    for position, url in enumerate(urls):
        try:
            url.encode()
            found = canonicalise_url(url, rules)
        except UnicodeEncodeError:
            refused.append(_refuse_url(position, url, NO_TEXT_DETAIL))
            continue
        except UrlError as error:
            refused.append(_refuse_url(position, url, str(error)))
            continue
        if is_blocked(found.host):
            refused.append(_refuse_url(position, url, BLOCKED_DETAIL))
        else:
            digests = candidate_digests(url, rules) if rules.learnt else (found.digest,)
            named.append(NamedUrl(position, url, found.host, digests))
    return named, refused


def decide_urls(named: Sequence[NamedUrl], seen: Mapping[str, UrlKnowledge], now: datetime) -> list[UrlDecision]:
    """Decides on URLs that can be mirrored. Of several with one name only the first asks."""
    decisions: list[UrlDecision] = []
    asked: set[str] = set()
    for one in named:
        digest = find_surest_digest(one.digests, seen, has_file)
        decisions.append(_decide_url(one, digest, seen.get(digest), now, is_first=digest not in asked))
        asked.add(digest)
    return decisions


def storable_text(url: str, most_characters: int) -> str:
    """Returns the text in a form that any database keeps, so that people recognise a refused URL."""
    text = url.replace("\0", _REPLACEMENT).encode(errors="replace").decode()
    return text if len(text) <= most_characters else f"{text[: most_characters - 1]}…"


def has_file(seen: UrlKnowledge) -> bool:
    """True if a file is known, also while the URL is fetched again."""
    return bool(seen.blob_digest) and seen.state != "failed"


def _decide_url(one: NamedUrl, digest: str, seen: UrlKnowledge | None, now: datetime, *, is_first: bool) -> UrlDecision:
    status, step, blob, detail = _status_fields(seen, now)
    is_open = status == "accepted"
    joins = is_open and (not is_first or (seen is not None and seen.state == "wanted"))
    return UrlDecision(
        position=one.position,
        url=one.url,
        status=status,
        step=step,
        url_digest=digest,
        host=one.host,
        blob_digest=blob,
        detail=JOINED_DETAIL if joins else detail,
        asks=is_open and is_first,
        retry_at=seen.due_at if seen is not None and status == "failed" else None,
    )


def _status_fields(seen: UrlKnowledge | None, now: datetime) -> tuple[ReportStatus, str, str, str]:
    """Returns status, step, digest and detail. A failed URL is accepted after its pause."""
    if seen is not None and has_file(seen):
        return "known", "known", seen.blob_digest, ""
    if seen is None or seen.state != "failed" or _may_be_tried(seen, now):
        return "accepted", "", "", ""
    return "failed", "failed", "", seen.detail or "It could not be fetched."


def _may_be_tried(seen: UrlKnowledge, now: datetime) -> bool:
    return seen.due_at is not None and due_times.is_past(seen.due_at, now)


def _refuse_url(position: int, url: str, why: str) -> UrlDecision:
    return UrlDecision(position, url, "refused", "refused", detail=why)
