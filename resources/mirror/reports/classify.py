"""What a list of URLs comes to: each is known, accepted, failed or refused. PURE.

A URL is named by the digest of its canonical form. What is known of it is looked up in between, by whoever calls.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ..canonical.rules import Rules
from ..canonical.urls import Canonical, canonical, goes_by, known_as
from ..errors import UrlError

Status = Literal["known", "accepted", "failed", "refused"]

JOINED = "In progress already."
"""The detail of an item whose URL somebody else asked for first, or the same list did."""

EXPIRED = "expired"
"""The failure of URLs whose signature has run out."""

NO_TEXT = "The URL is not text."
BLOCKED = "An admin has blocked its host."

_NO_TEXT = "\N{REPLACEMENT CHARACTER}"


class Seen(Protocol):
    """What is known of a URL, as knowing.seen tells it."""

    @property
    def state(self) -> str: ...
    @property
    def blob_digest(self) -> str: ...
    @property
    def failure(self) -> str: ...
    @property
    def detail(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Named:
    """A URL of a list that can be mirrored, as far as can be told from itself.

    `digests` are those that it may be known by, the surest first; the last is that of its canonical form.
    """

    position: int
    url: str
    canonical: Canonical
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one URL of a list.

    `step` is that of models.Step where it is settled, and empty for what is accepted; `asks` says that it is the
    first of its name in the list. `detail` is a sentence: why it was refused or has failed, or JOINED.
    """

    position: int
    url: str
    status: Status
    step: str = ""
    url_digest: str = ""
    host: str = ""
    blob_digest: str = ""
    detail: str = ""
    asks: bool = False


def read(urls: Iterable[str], rules: Rules, is_blocked: Callable[[str], bool]) -> tuple[list[Named], list[Decision]]:
    """Those that can be mirrored, and those that are refused for what they are."""
    named: list[Named] = []
    refused: list[Decision] = []
    for position, url in enumerate(urls):
        try:
            found = _canonical(url, rules)
        except UrlError as error:
            refused.append(_refused(position, url, str(error)))
            continue
        if is_blocked(found.host):
            refused.append(_refused(position, url, BLOCKED))
        else:
            named.append(Named(position, url, found, known_as(url, rules) if rules.learnt else (found.digest,)))
    return named, refused


def decide(named: Sequence[Named], seen: Mapping[str, Seen]) -> list[Decision]:
    """What becomes of those that can be mirrored. Of several of one name only the first asks."""
    decisions: list[Decision] = []
    asked: set[str] = set()
    for one in named:
        digest = goes_by(one.digests, seen, _has_file)
        decisions.append(_decided(one, digest, seen.get(digest), is_first=digest not in asked))
        asked.add(digest)
    return decisions


def storable(url: str, most_characters: int) -> str:
    """The text as any database keeps it: of what was refused, so that people recognise it."""
    text = url.replace("\0", _NO_TEXT).encode(errors="replace").decode()
    return text if len(text) <= most_characters else f"{text[: most_characters - 1]}…"


def _canonical(url: str, rules: Rules) -> Canonical:
    try:
        url.encode()
    except UnicodeEncodeError as error:
        raise UrlError(NO_TEXT) from error
    return canonical(url, rules)


def _has_file(seen: Seen) -> bool:
    """Also while it is fetched again."""
    return bool(seen.blob_digest) and seen.state != "failed"


def _decided(one: Named, digest: str, seen: Seen | None, *, is_first: bool) -> Decision:
    status, step, blob, detail = _standing(seen)
    is_open = status == "accepted"
    joins = is_open and (not is_first or (seen is not None and seen.state == "wanted"))
    return Decision(
        position=one.position,
        url=one.url,
        status=status,
        step=step,
        url_digest=digest,
        host=one.canonical.host,
        blob_digest=blob,
        detail=JOINED if joins else detail,
        asks=is_open and is_first,
    )


def _standing(seen: Seen | None) -> tuple[Status, str, str, str]:
    """Status, step, digest and detail. A signature that ran out may hold for longer in this spelling: it is asked."""
    if seen is not None and _has_file(seen):
        return "known", "known", seen.blob_digest, ""
    if seen is None or seen.state != "failed" or seen.failure == EXPIRED:
        return "accepted", "", "", ""
    return "failed", "failed", "", seen.detail or "It could not be fetched."


def _refused(position: int, url: str, why: str) -> Decision:
    return Decision(position, url, "refused", "refused", detail=why)
