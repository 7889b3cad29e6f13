"""By what an origin's head says which content it has: strong ETags and checksums (RFC 9110, RFC 9530). PURE.

Each is a claim of that origin alone, so its name is part of the key, and so are the size and the coding of what was
announced. Weak ETags say too little, and so do those made of times and sizes, which different files can share.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256

from resources.fetching.addressing import targets
from resources.fetching.outcomes import Head

MOST_VALUE_CHARACTERS = 500
LEAST_OPAQUE_CHARACTERS = 16

_HEXADECIMAL = re.compile(
    r"(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})(-[0-9]{1,5})?"
)
"""Digests from MD5 to SHA-512; with the number of parts, as S3 has them."""
_BASE64 = re.compile(r"(?:[\w+/-]{22}(?:==)?|[\w+/-]{27}=?|[\w+/-]{43}=?|[\w+/-]{86}(?:==)?)(-[0-9]{1,5})?", re.ASCII)
"""The same in Base64."""
_TIMES_AND_SIZES = re.compile(r"[0-9a-fx]{1,20}(?:[-:_.][0-9a-fx]{1,20}){1,3}", re.IGNORECASE)
"""nginx: time-size; Apache: inode-size-time or size-time; IIS: time:changes."""
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_FIELD = re.compile(r"\s*([a-z0-9-]+)\s*=\s*:?([A-Za-z0-9+/=_-]+):?\s*", re.IGNORECASE)
_DIGESTS = frozenset({"md5", "sha", "sha-1", "sha1", "sha-224", "sha-256", "sha-384", "sha-512"})


class Strength(Enum):
    """How far a validator is believed."""

    DIGEST = "digest"
    """It looks like a digest of the content."""
    OPAQUE = "opaque"
    """Nobody knows what it is made of: it counts once the host has been found right about such ones."""


@dataclass(frozen=True, slots=True)
class Validator:
    """`key` is the digest of the origin, the kind, the value, the size and the coding."""

    key: str
    strength: Strength


def host_of(url: str) -> str:
    """The host whose word it is, with its port where that is not the usual one. Raises FetchError."""
    return targets.parse(url, max_bytes=targets.MAX_HOP_BYTES).authority


def read(head: Head) -> tuple[Validator, ...]:
    """All that the head says, each once."""
    origin = targets.parse(head.url, max_bytes=targets.MAX_HOP_BYTES).origin
    coding = head.headers.get("Content-Encoding", "").strip().lower()
    found = {
        Validator(_key(str(origin), name, value, str(head.content_length), coding), strength)
        for name, value, strength in _said(head)
    }
    return tuple(sorted(found, key=lambda one: one.key))


def _said(head: Head) -> Iterator[tuple[str, str, Strength]]:
    for name in ("Repr-Digest", "Content-Digest", "Digest", "X-Goog-Hash"):
        yield from _digests(name, ",".join(head.headers.getall(name, ())))
    for name in ("Content-MD5", "X-Amz-Checksum-Sha256", "X-Amz-Checksum-Sha1"):
        value = head.headers.get(name, "").strip()
        if _BASE64.fullmatch(value) or _HEXADECIMAL.fullmatch(value.lower()):
            yield name, value, Strength.DIGEST
    if head.content_length is None:  # the rest is not enough without the size
        return
    needle = head.headers.get("X-Needle-Checksum", "").strip()
    if 0 < len(needle) <= MOST_VALUE_CHARACTERS and needle.isalnum():  # 32 bits
        yield "X-Needle-Checksum", needle, Strength.OPAQUE
    strength = _strength_of_etag(head.etag or "")
    if strength is not None:
        yield "ETag", head.etag or "", strength


def _digests(name: str, text: str) -> Iterator[tuple[str, str, Strength]]:
    """`sha-256=:…:, md5=…`. What is shorter than an MD5, as crc32c, is left out."""
    for part in text[: 4 * MOST_VALUE_CHARACTERS].split(","):
        field = _FIELD.fullmatch(part)
        if field and field[1].lower() in _DIGESTS and len(field[2]) >= 22:
            yield f"{name} {field[1].lower()}", field[2], Strength.DIGEST


def _strength_of_etag(etag: str) -> Strength | None:
    """None for an ETag that says too little: weak, short, a time, or a time and a size."""
    if etag.startswith("W/") or not (len(etag) > 2 and etag[0] == etag[-1] == '"'):
        return None
    value = etag[1:-1]
    if _HEXADECIMAL.fullmatch(value.lower()):
        return Strength.DIGEST
    if len(value) < LEAST_OPAQUE_CHARACTERS or _TIMES_AND_SIZES.fullmatch(value) or _NUMBER.fullmatch(value):
        return None
    return Strength.DIGEST if _BASE64.fullmatch(value) and _is_mixed(value) else Strength.OPAQUE


def _is_mixed(value: str) -> bool:
    """Whether it has capitals, small letters and digits, as nearly all digests in Base64 have, and no words."""
    return all(any(test(sign) for sign in value) for test in (str.isupper, str.islower, str.isdigit))


def _key(*parts: str) -> str:
    return sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
