"""The canonical URL of a reported one: the key of its file.

Only the key: the URL itself is fetched as it was reported. http and https are the same at their default ports;
userinfo and fragments are not sent, so they do not count. When in doubt two URLs stay two: that costs a download,
while one key for two files would deliver the wrong one.

Equivalent paths and queries get one spelling (RFC 3986, 6.2.2.1 and 6.2.2.2): escapes of unreserved characters are
resolved, all others get capital hexadecimals. Nothing is sorted, no path is shortened, `+` and `%20` stay
different: servers may tell these apart.

Expiring signatures are removed: they change with every copy of the link to the same file. Their parameters are
removed only all together: where one is missing, given twice or of another form, they may mean anything, and stay.
Parameters that select content always stay: `response-content-disposition`, `versionId`, Azure's `snapshot`,
Facebook's `stp`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from string import ascii_letters, digits
from typing import TypeVar
from urllib.parse import unquote

from resources.fetch.http import url_syntax
from resources.fetch.http.messages import FetchError
from resources.fetch.http.url_syntax import DEFAULT_PORTS, Target

from ..errors import UrlError
from . import clearurls
from .clearurls import parameter_name
from .rules import LearntRules, UrlRules

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_NO_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DOT = "%2E"
_UNRESERVED = {f"{ord(sign):02X}": sign for sign in f"{ascii_letters}{digits}-_~"}


def respell_path(text: str) -> str:
    """Respells the path. Escaped dots stay escaped where they would make a segment `.` or `..`."""
    plain = _respell_text(text)
    return "/".join(_resolve_dots(segment) for segment in plain.split("/")) if _DOT in plain else plain


def respell_query(text: str) -> str:
    return _respell_text(text).replace(_DOT, ".")


def _resolve_dots(segment: str) -> str:
    plain = segment.replace(_DOT, ".")
    return segment if plain in {".", ".."} else plain


def _respell_text(text: str) -> str:
    """Respells the text, unless one of its percent signs begins no escape: then its meaning is unknown."""
    if "%" not in text or _NO_ESCAPE.search(text):
        return text
    return _ESCAPE.sub(_respell_escape, text)


def _respell_escape(match: re.Match[str]) -> str:
    code = match[1].upper()
    return _UNRESERVED.get(code) or f"%{code}"


@dataclass(frozen=True, slots=True)
class UrlSignature:
    """The parameters that make up a signature, with the forms of their values, and those that may accompany them."""

    made_of: Mapping[str, re.Pattern[str]]
    beside: frozenset[str] = frozenset()


def _build_signature(beside: str = "", /, **made_of: str) -> UrlSignature:
    forms = {name.replace("_", "-"): re.compile(form, re.ASCII) for name, form in made_of.items()}
    return UrlSignature(forms, frozenset(beside.split()))


_UNIX_TIME = "[0-9]{9,11}"
_LIFETIME = "[0-9]{1,7}"
_BASIC_TIME = "[0-9]{8}T[0-9]{6}Z"
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_AZURE_TIME = rf"{_DAY}(?:T[0-9:.]{{5,16}}Z)?"
_HEXADECIMAL = "[0-9a-fA-F]{8}"
_ANY_VALUE = ".+"

URL_SIGNATURES = (
    _build_signature(
        "X-Amz-Algorithm X-Amz-Credential X-Amz-SignedHeaders X-Amz-Security-Token",
        X_Amz_Date=_BASIC_TIME,
        X_Amz_Expires=_LIFETIME,
        X_Amz_Signature=_ANY_VALUE,
    ),
    _build_signature(
        "X-Goog-Algorithm X-Goog-Credential X-Goog-SignedHeaders",
        X_Goog_Date=_BASIC_TIME,
        X_Goog_Expires=_LIFETIME,
        X_Goog_Signature=_ANY_VALUE,
    ),
    _build_signature("x-amz-security-token", AWSAccessKeyId=_ANY_VALUE, Expires=_UNIX_TIME, Signature=_ANY_VALUE),
    _build_signature(GoogleAccessId=_ANY_VALUE, Expires=_UNIX_TIME, Signature=_ANY_VALUE),
    _build_signature("security-token", OSSAccessKeyId=_ANY_VALUE, Expires=_UNIX_TIME, Signature=_ANY_VALUE),
    _build_signature("Hash-Algorithm", Key_Pair_Id=_ANY_VALUE, Expires=_UNIX_TIME, Signature=_ANY_VALUE),
    _build_signature("Hash-Algorithm", Key_Pair_Id=_ANY_VALUE, Policy=_ANY_VALUE, Signature=_ANY_VALUE),
    # Azure's, of a service and of an account
    _build_signature(
        "st sip spr skoid sktid skt ske sks skv saoid suoid scid sdd",
        **{"sv": _DAY, "se": _AZURE_TIME, "sp": "[a-z]+", "sr": "[a-z]+", "sig": _ANY_VALUE},
    ),
    _build_signature("st sip spr", sv=_DAY, se=_AZURE_TIME, sp="[a-z]+", ss="[a-z]+", srt="[a-z]+", sig=_ANY_VALUE),
    _build_signature(oe=_HEXADECIMAL, oh="[0-9A-Za-z_-]{16,}"),  # Facebook's and Instagram's files
    _build_signature(**{"ex": _HEXADECIMAL, "is": _HEXADECIMAL, "hm": "[0-9a-f]{64}"}),  # Discord's
)
_SIGNATURE_MARKS = frozenset({"X-Amz-Signature", "X-Goog-Signature", "Signature", "sig", "oh", "hm"})
"""One parameter of each signature: nearly all queries have none of them."""


def strip_signatures(pieces: Sequence[str]) -> list[str]:
    """Returns the pieces of a query (`name=value`) that belong to no signature, in their order."""
    found = [parameter_name(piece) for piece in pieces]
    if _SIGNATURE_MARKS.isdisjoint(found):
        return list(pieces)
    values = {name: unquote(piece.partition("=")[2]) for name, piece in zip(found, pieces, strict=True)}
    dropped: set[str] = set()
    for signature in URL_SIGNATURES:
        if _has_signature(signature, found, values):
            dropped |= signature.made_of.keys() | signature.beside
    return [piece for name, piece in zip(found, pieces, strict=True) if name not in dropped]


def strip_secrets(url: str) -> str:
    """Returns the URL in a form fit for others than its reporter: without user, password and signed query.

    With a signature, anybody could get the file from its origin on another user's behalf.
    """
    address, _, query = url_syntax.cut_fragment(url).partition("?")
    scheme, mark, rest = address.partition("://")
    authority, slash, path = rest.partition("/")
    address = f"{scheme}{mark}{authority.rpartition('@')[2]}{slash}{path}"
    pieces = query.split("&")
    is_signed = strip_signatures(pieces) != pieces or url_syntax.find_url_expiry(url) is not None
    return f"{address}?{query}" if query and not is_signed else address


def _has_signature(signature: UrlSignature, found: Sequence[str], values: Mapping[str, str]) -> bool:
    return all(
        name in values and found.count(name) == 1 and form.fullmatch(values[name])
        for name, form in signature.made_of.items()
    )


WATCHED_ONE_IN = 100
"""Learnt rules spare one URL in so many, chosen by its digest. Its fetch shows whether the rule still holds."""

KnownValue = TypeVar("KnownValue")


@dataclass(frozen=True, slots=True)
class CanonicalUrl:
    """A URL's key: `text` and its SHA-256 in hexadecimals. `host` is the one that requests are sent to."""

    text: str
    digest: str
    host: str


def canonicalise_url(url: str, rules: UrlRules) -> CanonicalUrl:
    """Returns the key under which the URL is stored. Raises UrlError with the reason if it cannot be mirrored."""
    target = _parse_target(url)
    text = _canonical_texts(target, rules)[-1]
    return CanonicalUrl(text, _text_digest(text), target.host)


def candidate_digests(url: str, rules: UrlRules) -> tuple[str, ...]:
    """Returns the digests under which a URL may be stored, the surest first, that of its present key last.

    A learnt rule changes the keys of URLs that were stored before it. So a look-up asks for all of these digests and
    takes the result of `find_surest`: content from the URL itself precedes a conclusion by rule. Rows are written under
    the last digest. Raises UrlError.
    """
    return tuple(_text_digest(text) for text in _canonical_texts(_parse_target(url), rules))


def find_surest(
    digests: Sequence[str], found: Mapping[str, KnownValue], is_stored: Callable[[KnownValue], bool]
) -> KnownValue | None:
    """Returns the result for a URL among those for its `candidate_digests`: the first that is stored, else the last."""
    return found.get(find_surest_digest(digests, found, is_stored))


def find_surest_digest(
    digests: Sequence[str], found: Mapping[str, KnownValue], is_stored: Callable[[KnownValue], bool]
) -> str:
    """Returns the digest under which `find_surest` finds a result; that of `canonicalise_url` if there is none.

    Use this digest to join a fetch or to request one: a fetch that began before a rule goes on under it.
    """
    known = [digest for digest in digests if digest in found]
    return next((digest for digest in known if is_stored(found[digest])), (known or digests)[-1])


def canonicalise_unlearnt(url: str, rules: UrlRules) -> str:
    """Returns the canonical text without learnt rules: new rules are learnt from it. Raises UrlError."""
    return canonical_text(_apply_fixed_rules(_parse_target(url), rules))


def canonical_text(target: Target) -> str:
    """Returns the target's text, with https for http where each has its default port."""
    if target.port == DEFAULT_PORTS[target.scheme]:
        return f"https://{target.authority}{target.path_and_query}"
    return target.url


def _parse_target(url: str) -> Target:
    try:
        return url_syntax.parse_target(url)
    except FetchError as error:
        raise UrlError(f"It cannot be mirrored: {error.detail}.") from error


def _canonical_texts(target: Target, rules: UrlRules) -> tuple[str, ...]:
    found = _apply_fixed_rules(target, rules)
    text = canonical_text(found)
    if not rules.learnt:
        return (text,)
    concluded = canonical_text(_apply_learnt_rules(found, rules.learnt))
    return (text,) if concluded == text or _is_watched(text) else (text, concluded)


def _apply_fixed_rules(target: Target, rules: UrlRules) -> Target:
    found = Target(
        target.scheme,
        rules.shards.one(target.host),
        target.port,
        respell_path(target.path),
        _canonical_query(target.query, rules) if target.query else None,
    )
    return clearurls.apply_rules_file(rules.file, found, canonical_text)


def _canonical_query(text: str, rules: UrlRules) -> str | None:
    pieces = text.split("&")
    if "%" in text:  # each piece by itself: a removed piece must not affect the spelling of the rest
        pieces = [respell_query(piece) for piece in pieces]
    pieces = strip_signatures(pieces)
    return "&".join(piece for piece in pieces if not rules.tracking.have(parameter_name(piece))) or None


def _apply_learnt_rules(target: Target, learnt: LearntRules) -> Target:
    """Removes values that do not matter, and keeps their names: a URL without the parameter is another one."""
    names = learnt.parameters.get(target.host)
    query = target.query
    if names and query is not None:
        query = "&".join(_remove_value(piece, names) for piece in query.split("&"))
    return replace(target, host=learnt.shards.one(target.host), query=query)


def _remove_value(piece: str, names: frozenset[str]) -> str:
    name, equals, _ = piece.partition("=")
    return f"{name}=" if equals and name in names else piece


def _is_watched(text: str) -> bool:
    return int(_text_digest(text)[:8], 16) % WATCHED_ONE_IN == 0


def _text_digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
