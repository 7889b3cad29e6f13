"""Queries without signatures that expire. PURE.

A signature changes each time that somebody is given the same file. Its parameters go only all together: where one
of them is missing, given twice or of another form they may mean anything, and stay. What selects content stays always:
`response-content-disposition`, `versionId`, Azure's `snapshot`, Facebook's `stp`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from resources.fetching.addressing import signed_urls

from .parameters import name_of


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters that make a signature, with the forms of their values, and those that may stand beside them."""

    made_of: Mapping[str, re.Pattern[str]]
    beside: frozenset[str] = frozenset()


def _signature(beside: str = "", /, **made_of: str) -> Signature:
    forms = {name.replace("_", "-"): re.compile(form, re.ASCII) for name, form in made_of.items()}
    return Signature(forms, frozenset(beside.split()))


_SECONDS = "[0-9]{9,11}"
_LIFETIME = "[0-9]{1,7}"
_BASIC = "[0-9]{8}T[0-9]{6}Z"
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MOMENT = rf"{_DAY}(?:T[0-9:.]{{5,16}}Z)?"
_HEXADECIMAL = "[0-9a-fA-F]{8}"
_ANY = ".+"

SIGNATURES = (
    _signature(
        "X-Amz-Algorithm X-Amz-Credential X-Amz-SignedHeaders X-Amz-Security-Token",
        X_Amz_Date=_BASIC,
        X_Amz_Expires=_LIFETIME,
        X_Amz_Signature=_ANY,
    ),
    _signature(
        "X-Goog-Algorithm X-Goog-Credential X-Goog-SignedHeaders",
        X_Goog_Date=_BASIC,
        X_Goog_Expires=_LIFETIME,
        X_Goog_Signature=_ANY,
    ),
    _signature("x-amz-security-token", AWSAccessKeyId=_ANY, Expires=_SECONDS, Signature=_ANY),
    _signature(GoogleAccessId=_ANY, Expires=_SECONDS, Signature=_ANY),
    _signature("security-token", OSSAccessKeyId=_ANY, Expires=_SECONDS, Signature=_ANY),
    _signature("Hash-Algorithm", Key_Pair_Id=_ANY, Expires=_SECONDS, Signature=_ANY),
    _signature("Hash-Algorithm", Key_Pair_Id=_ANY, Policy=_ANY, Signature=_ANY),
    # Azure's, of a service and of an account
    _signature(
        "st sip spr skoid sktid skt ske sks skv saoid suoid scid sdd",
        **{"sv": _DAY, "se": _MOMENT, "sp": "[a-z]+", "sr": "[a-z]+", "sig": _ANY},
    ),
    _signature("st sip spr", sv=_DAY, se=_MOMENT, sp="[a-z]+", ss="[a-z]+", srt="[a-z]+", sig=_ANY),
    _signature(oe=_HEXADECIMAL, oh="[0-9A-Za-z_-]{16,}"),  # Facebook's and Instagram's files
    _signature(**{"ex": _HEXADECIMAL, "is": _HEXADECIMAL, "hm": "[0-9a-f]{64}"}),  # Discord's
)
_LAST = frozenset({"X-Amz-Signature", "X-Goog-Signature", "Signature", "sig", "oh", "hm"})
"""One of each signature: nearly all queries have none of them."""


def without_signatures(pieces: Sequence[str]) -> list[str]:
    """The pieces of a query (`name=value`) that belong to no signature, in their order."""
    found = [name_of(piece) for piece in pieces]
    if _LAST.isdisjoint(found):
        return list(pieces)
    values = {name: unquote(piece.partition("=")[2]) for name, piece in zip(found, pieces, strict=True)}
    dropped: set[str] = set()
    for signature in SIGNATURES:
        if _is_complete(signature, found, values):
            dropped |= signature.made_of.keys() | signature.beside
    return [piece for name, piece in zip(found, pieces, strict=True) if name not in dropped]


def without_secrets(url: str) -> str:
    """The URL as others than its reporter may see it: without user and password, and without a query that is signed.

    Whoever has a signature gets the file from its origin, in the name of somebody else.
    """
    address, _, query = url.partition("#")[0].partition("?")
    scheme, mark, rest = address.partition("://")
    authority, slash, path = rest.partition("/")
    address = f"{scheme}{mark}{authority.rpartition('@')[2]}{slash}{path}"
    pieces = query.split("&")
    is_signed = without_signatures(pieces) != pieces or signed_urls.expires_at(url) is not None
    return f"{address}?{query}" if query and not is_signed else address


def _is_complete(signature: Signature, found: Sequence[str], values: Mapping[str, str]) -> bool:
    return all(
        name in values and found.count(name) == 1 and form.fullmatch(values[name])
        for name, form in signature.made_of.items()
    )
