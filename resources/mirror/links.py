"""Addresses of mirrored files: by digest, and by URL with a signature, so that nobody has just anything fetched.

`/resources/<signature>/<URL>`: both in base64url without padding (RFC 4648, 5). The signature is the first 128 bits of
an HMAC-SHA256 over the URL, as it was given. Keys rotate: SECRET_KEY signs, SECRET_KEY_FALLBACKS are accepted.
"""

from collections.abc import Iterator

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac

from resources.fetching.addressing.targets import MAX_URL_BYTES

from ..canonical.urls import canonical
from ..errors import AddressError, ForgedError, UrlError
from ..knowing.rules import current_rules
from . import encoding
from .asking import BEGINNING

SALT = "resources.mirroring.address"
SIGNATURE_BYTES = 16
SIGNATURE_CHARACTERS = 22


def by_digest(digest: str) -> str:
    """The address of the bytes themselves."""
    return f"{BEGINNING}{digest}"


def sign_url(url: str) -> str:
    """The address, as a path, under which this site mirrors the URL. Raises UrlError for what it does not fetch."""
    canonical(url, current_rules())
    try:
        data = url.encode()
    except UnicodeEncodeError as error:
        raise UrlError("The URL is not UTF-8.") from error
    if len(data) > MAX_URL_BYTES:
        raise UrlError(f"URLs have at most {MAX_URL_BYTES:,} bytes.")
    return f"{BEGINNING}{_signature(url, settings.SECRET_KEY)}/{encoding.written(data)}"


def verify(signature: str, encoded: str) -> str:
    """The URL that was signed. Raises AddressError for what is malformed, ForgedError for what was not signed here."""
    url = encoding.read(encoded)
    if len(signature) != SIGNATURE_CHARACTERS:
        raise AddressError("The signature is malformed.")
    if not any(constant_time_compare(signature, _signature(url, key)) for key in _keys()):
        raise ForgedError("This URL was not signed by this site.")
    return url


def _keys() -> Iterator[str]:
    yield settings.SECRET_KEY
    yield from settings.SECRET_KEY_FALLBACKS


def _signature(url: str, key: str) -> str:
    return encoding.written(salted_hmac(SALT, url, secret=key, algorithm="sha256").digest()[:SIGNATURE_BYTES])
