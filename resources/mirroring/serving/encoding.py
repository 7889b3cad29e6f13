"""URLs in paths: base64url without padding (RFC 4648, 5), of which each URL has exactly one. PURE."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode

from resources.fetching.addressing.targets import MAX_URL_BYTES

from ..errors import AddressError


def written(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def read(encoded: str) -> str:
    """The URL. Of several ways to write it one is right: others would be entries of their own in caches.

    Raises AddressError.
    """
    if len(encoded) > MAX_URL_BYTES * 4 // 3 + 3:
        raise AddressError(f"URLs have at most {MAX_URL_BYTES:,} bytes.")
    try:
        data = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        url = data.decode()
    except (binascii.Error, ValueError) as error:
        raise AddressError("The URL is not written in base64url.") from error
    if not url or written(data) != encoded:
        raise AddressError("The URL is not written in base64url without padding.")
    return url
