"""The paths of mirrored files, and URLs in them: base64url without padding (RFC 4648, 5), one spelling each. PURE.

Reads the address of a mirrored file for the counts of traffic, too. Knows no files.
"""

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from urllib.parse import parse_qs

from ..fetch.http.url_syntax import MAX_URL_BYTES
from ..traffic.asked import Asked
from .errors import MirrorAddressError, ThumbnailError
from .media.thumbnails import MAX_ADDRESS_SIDE, THUMBNAIL_KIND, Thumbnail

ADDRESS_PREFIX = "/resources/"
DIGEST_PATTERN = re.compile(r"[0-9a-f]{64}")


def encode_base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def decode_url(encoded: str) -> str:
    """Returns the URL, from its one spelling: others would have cache entries. Raises MirrorAddressError."""
    if len(encoded) > MAX_URL_BYTES * 4 // 3 + 3:
        raise MirrorAddressError(f"URLs have at most {MAX_URL_BYTES:,} bytes.")
    try:
        data = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        url = data.decode()
    except (binascii.Error, ValueError) as error:
        raise MirrorAddressError("The URL is not written in base64url.") from error
    if not url or encode_base64url(data) != encoded:
        raise MirrorAddressError("The URL is not written in base64url without padding.")
    return url


def classify_address(address: str) -> Asked | None:
    """Returns the blob, thumbnail or signed URL of an address, arguments included; None for any other address."""
    path, _, arguments = address.partition("?")
    match path.removeprefix(ADDRESS_PREFIX).split("/"):
        case [digest] if DIGEST_PATTERN.fullmatch(digest):
            return Asked("blob", noted=digest)
        case [digest, name] if DIGEST_PATTERN.fullmatch(digest):
            return Asked(THUMBNAIL_KIND, content_key=_thumbnail_key(digest, name, arguments), noted=digest)
        case [_, encoded]:
            try:
                return Asked("resource", noted=decode_url(encoded))
            except MirrorAddressError:
                return None
        case _:
            return None


def _thumbnail_key(digest: str, name: str, arguments: str) -> str:
    """Returns the thumbnail's content key; empty for none."""
    try:
        return Thumbnail.read(digest, name, parse_qs(arguments, keep_blank_values=True), MAX_ADDRESS_SIDE).content_key
    except ThumbnailError:
        return ""
