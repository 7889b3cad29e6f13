"""The canonical form of a URL: the key of the file that it leads to. PURE.

Only the key: what is fetched is the URL as it was reported. http and https are one where they have their own ports;
userinfo and fragments are not sent, so they do not count. When in doubt two URLs stay two: that costs a download,
while one key for two files would give somebody the wrong one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TypeVar

from resources.fetching.addressing import targets
from resources.fetching.addressing.targets import DEFAULT_PORTS, Target
from resources.fetching.errors import FetchError

from ..errors import UrlError
from . import clearurls, spelling
from .parameters import name_of
from .rules import Learnt, Rules
from .signatures import without_signatures

WATCHED_ONE_IN = 100
"""Learnt rules leave one URL in so many alone, by its digest. It is fetched, and shows whether the rule still holds."""

Known = TypeVar("Known")


@dataclass(frozen=True, slots=True)
class Canonical:
    """A URL's key: `text`, and its SHA-256 in hexadecimals. `host` and `origin` are those that are really asked."""

    text: str
    digest: str
    host: str
    origin: str


def canonical(url: str, rules: Rules) -> Canonical:
    """The URL's key, under which it is stored. Raises UrlError, which says why it cannot be mirrored."""
    target = _target(url)
    text = _texts(target, rules)[-1]
    return Canonical(text, _digest(text), target.host, f"{target.scheme}://{target.authority}")


def known_as(url: str, rules: Rules) -> tuple[str, ...]:
    """The digests that a URL may be known by, the surest first. The last is that of `canonical`. Raises UrlError.

    A learnt rule gives URLs another key than those had that were stored before it. So a look-up asks for all of
    these, and takes what is `surest`: what a URL itself has given goes before what a rule concludes. What is written
    has the last digest.
    """
    return tuple(_digest(text) for text in _texts(_target(url), rules))


def surest(digests: Sequence[str], found: Mapping[str, Known], is_stored: Callable[[Known], bool]) -> Known | None:
    """What is known of a URL, of what was found for its `known_as`: the first that is stored, else the last of all."""
    return found.get(goes_by(digests, found, is_stored))


def goes_by(digests: Sequence[str], found: Mapping[str, Known], is_stored: Callable[[Known], bool]) -> str:
    """The digest under which `surest` finds what is known of a URL; that of `canonical` when nothing is.

    Whoever joins a fetch or wants another one does so by this digest: one that was begun before a rule goes on.
    """
    known = [digest for digest in digests if digest in found]
    return next((digest for digest in known if is_stored(found[digest])), (known or digests)[-1])


def plain(url: str, rules: Rules) -> str:
    """The canonical text without what was learnt: what rules are learnt from. Raises UrlError."""
    return text_of(_plain(_target(url), rules))


def text_of(target: Target) -> str:
    """The target's text, with https for http where each has its own port."""
    if target.port == DEFAULT_PORTS[target.scheme]:
        return f"https://{target.authority}{target.path_and_query}"
    return target.url


def _target(url: str) -> Target:
    try:
        return targets.parse(url)
    except FetchError as error:
        raise UrlError(f"It cannot be mirrored: {error.detail}.") from error


def _texts(target: Target, rules: Rules) -> tuple[str, ...]:
    found = _plain(target, rules)
    text = text_of(found)
    if not rules.learnt:
        return (text,)
    concluded = text_of(_by_what_was_learnt(found, rules.learnt))
    return (text,) if concluded == text or _is_watched(text) else (text, concluded)


def _plain(target: Target, rules: Rules) -> Target:
    found = Target(
        target.scheme,
        rules.shards.one(target.host),
        target.port,
        spelling.path(target.path),
        _query(target.query, rules) if target.query else None,
    )
    return clearurls.applied(rules.file, found, text_of)


def _query(text: str, rules: Rules) -> str | None:
    pieces = text.split("&")
    if "%" in text:  # each for itself: what is left out has no say in how the rest is spelt
        pieces = [spelling.query(piece) for piece in pieces]
    pieces = without_signatures(pieces)
    return "&".join(piece for piece in pieces if not rules.tracking.have(name_of(piece))) or None


def _by_what_was_learnt(target: Target, learnt: Learnt) -> Target:
    """Values that do not matter are left out, and their names stay: a URL without the parameter is another one."""
    names = learnt.parameters.get(target.host)
    query = target.query
    if names and query is not None:
        query = "&".join(_without_value(piece, names) for piece in query.split("&"))
    return replace(target, host=learnt.shards.one(target.host), query=query)


def _without_value(piece: str, names: frozenset[str]) -> str:
    name, equals, _ = piece.partition("=")
    return f"{name}=" if equals and name in names else piece


def _is_watched(text: str) -> bool:
    return int(_digest(text)[:8], 16) % WATCHED_ONE_IN == 0


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
