"""Decides without a download whether a content is known: by the validators in the head of an answer. PURE.

Validators are strong ETags and checksums (RFC 9110, RFC 9530). Each is a claim of that origin alone, so the key
includes its name, and the announced size and coding. Weak ETags prove too little, and so do those made of times and
sizes, which different files can share.

Also says what the work of fetching one URL is, whether a HEAD goes first, and what a failure means.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Literal

from resources.fetch.http import url_syntax
from resources.fetch.http.messages import Failure, FetchFailed, Head

LaneName = Literal["fast", "large"]

MAX_VALUE_CHARACTERS = 500
MIN_OPAQUE_CHARACTERS = 16

_HEXADECIMAL = re.compile(
    r"(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})(-[0-9]{1,5})?"
)
"""Digests from MD5 to SHA-512; with the number of parts, as in S3."""
_BASE64 = re.compile(r"(?:[\w+/-]{22}(?:==)?|[\w+/-]{27}=?|[\w+/-]{43}=?|[\w+/-]{86}(?:==)?)(-[0-9]{1,5})?", re.ASCII)
"""The same in Base64."""
_TIMES_AND_SIZES = re.compile(r"[0-9a-fx]{1,20}(?:[-:_.][0-9a-fx]{1,20}){1,3}", re.IGNORECASE)
"""nginx: time-size; Apache: inode-size-time or size-time; IIS: time:changes."""
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_DIGEST_ITEM = re.compile(r"\s*([a-z0-9-]+)\s*=\s*:?([A-Za-z0-9+/=_-]+):?\s*", re.IGNORECASE)
_DIGEST_ALGORITHMS = frozenset({"md5", "sha", "sha-1", "sha1", "sha-224", "sha-256", "sha-384", "sha-512"})


class ValidatorStrength(Enum):
    DIGEST = "digest"
    """It looks like a digest of the content."""
    OPAQUE = "opaque"
    """Its origin is unknown: it counts once the host has been right about such ones."""


@dataclass(frozen=True, slots=True)
class HeadValidator:
    """A validator in a head. `key` is the digest of the origin, the kind, the value, the size and the coding."""

    key: str
    strength: ValidatorStrength


def url_authority(url: str) -> str:
    """Returns the host that vouches for the URL's content, with any port but the default one. Raises FetchError."""
    return url_syntax.parse_target(url, max_bytes=url_syntax.MAX_REDIRECT_URL_BYTES).authority


def has_validators(head: Head) -> bool:
    """Tells whether `read_validators` finds any."""
    return next(_find_validators(head), None) is not None


def read_validators(head: Head) -> tuple[HeadValidator, ...]:
    if not has_validators(head):  # as most heads have none
        return ()
    origin = url_syntax.parse_target(head.url, max_bytes=url_syntax.MAX_REDIRECT_URL_BYTES).origin
    coding = head.headers.get("Content-Encoding", "").strip().lower()
    found = {
        HeadValidator(_validator_key(str(origin), name, value, str(head.content_length), coding), strength)
        for name, value, strength in _find_validators(head)
    }
    return tuple(sorted(found, key=lambda one: one.key))


_DIGEST_LISTS = ("Repr-Digest", "Content-Digest", "Digest", "X-Goog-Hash")
_DIGEST_FIELDS = ("Content-MD5", "X-Amz-Checksum-Sha256", "X-Amz-Checksum-Sha1")
_VALIDATOR_FIELDS = frozenset(name.lower() for name in (*_DIGEST_LISTS, *_DIGEST_FIELDS, "X-Needle-Checksum", "ETag"))


def _find_validators(head: Head) -> Iterator[tuple[str, str, ValidatorStrength]]:
    if _VALIDATOR_FIELDS.isdisjoint(name.lower() for name in head.headers):
        return
    for name in _DIGEST_LISTS:
        yield from _parse_digests(name, ",".join(head.headers.getall(name, ())))
    for name in _DIGEST_FIELDS:
        value = head.headers.get(name, "").strip()
        if _BASE64.fullmatch(value) or _HEXADECIMAL.fullmatch(value.lower()):
            yield name, value, ValidatorStrength.DIGEST
    if head.content_length is None:  # the rest is not enough without the size
        return
    needle = head.headers.get("X-Needle-Checksum", "").strip()
    if 0 < len(needle) <= MAX_VALUE_CHARACTERS and needle.isalnum():  # 32 bits
        yield "X-Needle-Checksum", needle, ValidatorStrength.OPAQUE
    strength = _etag_strength(head.etag or "")
    if strength is not None:
        yield "ETag", head.etag or "", strength


def _parse_digests(name: str, text: str) -> Iterator[tuple[str, str, ValidatorStrength]]:
    """Parses `sha-256=:…:, md5=…`. Ignores values shorter than an MD5, such as crc32c."""
    for part in text[: 4 * MAX_VALUE_CHARACTERS].split(","):
        field = _DIGEST_ITEM.fullmatch(part)
        if field and field[1].lower() in _DIGEST_ALGORITHMS and len(field[2]) >= 22:
            yield f"{name} {field[1].lower()}", field[2], ValidatorStrength.DIGEST


def _etag_strength(etag: str) -> ValidatorStrength | None:
    """Returns None for an ETag that proves too little: weak, short, a time, or a time and a size."""
    if etag.startswith("W/") or not (len(etag) > 2 and etag[0] == etag[-1] == '"'):
        return None
    value = etag[1:-1]
    if _HEXADECIMAL.fullmatch(value.lower()):
        return ValidatorStrength.DIGEST
    if len(value) < MIN_OPAQUE_CHARACTERS or _TIMES_AND_SIZES.fullmatch(value) or _NUMBER.fullmatch(value):
        return None
    return ValidatorStrength.DIGEST if _BASE64.fullmatch(value) and _is_mixed(value) else ValidatorStrength.OPAQUE


def _is_mixed(value: str) -> bool:
    """Tells whether the value has capitals, small letters and digits, as nearly all Base64 digests do, and no words."""
    return all(any(test(sign) for sign in value) for test in (str.isupper, str.islower, str.isdigit))


def _validator_key(*parts: str) -> str:
    return sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


MIN_CONFIRMED_OPAQUE = 10
"""A host's opaque validators count once it has been right about so many of them."""

MIN_ASKED_BODIES = 20.0
"""Recent bodies needed to judge how often validators spare one."""
ABANDONED_BODY_COST: Mapping[LaneName, float] = {"fast": 0.25, "large": 4.0}
"""The cost of an abandoned body, in requests: a new connection, and the bytes under way are wasted (for a large body as
much as the buffers in between hold). A small body arrives with its head.
"""

_FINAL_FAILURES = frozenset({Failure.PERMANENT, Failure.REFUSED, Failure.TOO_BIG, Failure.EXPIRED})


@dataclass(frozen=True, slots=True)
class ValidatorTrust:
    """The record of a host's validators. `confirmed` counts digest-like ones, `confirmed_opaque` the others."""

    confirmed: int = 0
    confirmed_opaque: int = 0
    lies: int = 0


def select_trusted_keys(validators: Iterable[HeadValidator], trust: ValidatorTrust) -> list[str]:
    """Returns the keys of the validators that count for this host."""
    if trust.lies:
        return []
    counts_opaque = trust.confirmed_opaque >= MIN_CONFIRMED_OPAQUE
    return [one.key for one in validators if one.strength is ValidatorStrength.DIGEST or counts_opaque]


def find_agreed_digest(keys: Iterable[str], known: Mapping[str, str]) -> str | None:
    """Returns the one digest that all known keys agree on, or None."""
    digests = {known[key] for key in keys if key in known}
    return digests.pop() if len(digests) == 1 else None


def is_sampled(trust: ValidatorTrust, *, first: int, every: int, luck: float) -> bool:
    """Tells whether a known body is downloaded all the same: until `first` were right, then one in `every`.

    `luck` is uniform in [0, 1).
    """
    return trust.confirmed + trust.confirmed_opaque < first or luck * every < 1


def asks_head_first(asked: float, spared: float, lane: LaneName) -> bool:
    """Tells whether a HEAD before the GET pays, given how often validators spare a body of this host.

    With a share p of spared bodies and the cost c of an abandoned one, all in requests (each waits for its turn): HEAD
    first costs 1 + (1 - p), GET at once 1 + p·c. So it pays if p > 1 / (1 + c).
    """
    return asked >= MIN_ASKED_BODIES and spared / asked > 1 / (1 + ABANDONED_BODY_COST[lane])


def is_final_failure(failed: FetchFailed, attempts: int, most_attempts: int) -> bool:
    """Tells whether a round has failed, after so many attempts including this one."""
    return (failed.failure in _FINAL_FAILURES and not _has_led_to_expired(failed)) or attempts >= most_attempts


def choose_recorded_failure(failed: FetchFailed, *, is_signed: bool) -> Failure:
    """Returns the failure to record. For a signed URL, 401 and 403 mean an expired signature: a new one may work."""
    if _has_led_to_expired(failed):
        return Failure.TRANSIENT
    return Failure.EXPIRED if is_signed and failed.status in {401, 403} else failed.failure


def _has_led_to_expired(failed: FetchFailed) -> bool:
    """Tells whether a redirect led to an expired signature: the next redirect may lead to a newer one."""
    return failed.failure is Failure.EXPIRED and bool(failed.hops)


def failure_status(failed: FetchFailed) -> int:
    if failed.failure is Failure.TOO_SLOW:
        return 504
    return 404 if failed.status in {404, 410} else 502
