"""Mirrored files over HTTP: their paths, and the header fields by which no browser runs one as part of this site. PURE.

URLs in paths are base64url without padding (RFC 4648, 5), in one spelling each. The path of a file is read for the
counts of traffic, too.

The type is never the one that the origin named, and browsers are told to believe it (`nosniff`). Images, audio, video
and plain text are shown in place. Anything else, SVG and HTML included, is a download: an SVG still shows in an
`<img>`, where it runs no scripts. All answers get a sandbox of their own, without scripts, forms, plugins, or the
site's cookies, in case a browser opens one as a document.
"""

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import parse_qs

from retry import headers

from ..fetch.http.url_syntax import MAX_URL_BYTES
from ..image_formats import BY_PILLOW_NAME
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


CONTENT_POLICY = (
    "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Allows only the file itself, which browsers embed in a document of their own for an image, a video or a text.

Chromium also wants inline style, to centre an image opened by itself: without it, the image is in the corner.
"""
SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": CONTENT_POLICY,
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Access-Control-Allow-Origin": "*",
    "Referrer-Policy": "no-referrer",
}
"""Header fields of every answer with mirrored bytes. Other sites may embed them.

Without the permission for all origins, a video in the sandbox would not play: its document has no origin.
"""

NAME_DIGITS = 16
"""Number of digits of its digest in the name of a download."""
YEAR_SECONDS = 31_536_000

_SHOWN_PREFIXES = ("image/", "audio/", "video/")
_TEXT_TYPE, _SVG_TYPE = "text/plain", "image/svg+xml"
_OTHER_ENDING = "bin"
_ENDINGS = {
    "application/gzip": "gz",
    "application/x-gzip": "gz",
    "application/json": "json",
    "application/pdf": "pdf",
    "application/postscript": "ps",
    "application/rtf": "rtf",
    "application/vnd.rar": "rar",
    "application/x-7z-compressed": "7z",
    "application/x-tar": "tar",
    "application/x-xz": "xz",
    "application/xhtml+xml": "xhtml",
    "application/xml": "xml",
    "application/zip": "zip",
    "application/zstd": "zst",
    "audio/flac": "flac",
    "audio/mp4": "m4a",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/wav": "wav",
    "font/woff2": "woff2",
    "image/heic": "heic",
    "image/jxl": "jxl",
    "image/svg+xml": "svg",
    **{each.media_type: each.name for each in BY_PILLOW_NAME.values()},
    "text/html": "html",
    "text/plain": "txt",
    "video/mp4": "mp4",
    "video/mpeg": "mpeg",
    "video/ogg": "ogv",
    "video/quicktime": "mov",
    "video/webm": "webm",
    "video/x-matroska": "mkv",
    "video/x-msvideo": "avi",
}
_DIRECT_ORDER = (
    *("image/jpeg", "image/png", "image/webp", "image/gif", "video/mp4", "image/avif", "video/webm", "audio/mpeg"),
    *("application/pdf", "application/zip", "application/octet-stream"),
)
DIRECT_ENDINGS = {kind: _ENDINGS.get(kind, _OTHER_ENDING) for kind in _DIRECT_ORDER}
"""Types whose files nginx serves straight from the storage, with the endings by which it knows them.

nginx tries one after the other: the most common come first, and rare types are left out. It compresses none of these.
"""


def delivery_headers(media_type: str, digest: str = "") -> Mapping[str, str]:
    """Returns the header fields of an answer with this type of bytes. `digest` names a download."""
    return {"Content-Type": media_type, "Content-Disposition": _content_disposition(media_type, digest), **SAFE_HEADERS}


def is_shown_in_place(media_type: str) -> bool:
    """Tells whether browsers show the type instead of saving it."""
    bare = _bare_type(media_type)
    return bare == _TEXT_TYPE or (bare.startswith(_SHOWN_PREFIXES) and bare != _SVG_TYPE)


def _content_disposition(media_type: str, digest: str) -> str:
    """Returns the Content-Disposition of RFC 6266."""
    kind = "inline" if is_shown_in_place(media_type) else "attachment"
    return f'{kind}; filename="{digest[:NAME_DIGITS] or "file"}.{_ENDINGS.get(_bare_type(media_type), _OTHER_ENDING)}"'


def _bare_type(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """The time for which the client may keep an answer. Shared caches always ask again within the hot window.

    So a file that is taken down, or changed, is gone from them within HOT_SECONDS, unless main is away. Clients keep
    their copies. An answer without a date is compared by its ETag alone.
    """

    is_for_good: bool
    is_dated: bool = True

    def control(self, hot_seconds: float) -> str:
        window = headers.hot_window_seconds(hot_seconds)
        if not self.is_for_good:
            return headers.cache_control(window, window)
        return f"{headers.cache_control(YEAR_SECONDS, window)}, immutable"


BY_DIGEST, BY_URL = CachePolicy(is_for_good=True), CachePolicy(is_for_good=False)
BY_CHANGING_URL = CachePolicy(is_for_good=False, is_dated=False)
"""For URLs that are checked for new content: that may have been stored, from another URL, before the present one."""


def delivery_fields(
    media_type: str, digest: str, modified: datetime | None, caching: CachePolicy, hot_seconds: float
) -> Mapping[str, str]:
    """Returns the fields of 200, 206 and 304, but for Content-Length. None of them comes from the origin.

    nginx reads each of them anew for every hit, so there are no needless ones. Where nginx serves the file straight, it
    sends the same by itself (project/nginx_config.py).
    """
    location = {} if caching.is_for_good else {"Content-Location": f"{ADDRESS_PREFIX}{digest}"}
    date = {"Last-Modified": headers.http_date(modified)} if modified else {}
    return {
        **delivery_headers(media_type, digest),
        **location,
        "ETag": f'"{digest}"',
        **date,
        "Cache-Control": caching.control(hot_seconds),
        "Cache-Status": "Tarry; hit; detail=stored",
        "Accept-Ranges": "bytes",
        **headers.CORS_HEADERS,
    }
