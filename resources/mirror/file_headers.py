"""How bytes of a type may be served, so that no browser ever runs them as part of this site. PURE.

Types are never those that the origin has named, and browsers are told to believe them (`nosniff`). Images,
audio, video and plain text are shown in place. Anything else, SVG and HTML with it, is a download: an SVG in an
`<img>` shows all the same, for there it runs no scripts. And all of it is in a sandbox of its own, without
scripts, forms, plugins, or the site's cookies, if a browser should make a document of it.
"""

from collections.abc import Mapping

POLICY = (
    "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What browsers build around an image, a video or a text needs as much: the file itself.

Chromium would have inline style besides, to put an image opened by itself into the middle: there it is in the corner.
"""
SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Access-Control-Allow-Origin": "*",
    "Referrer-Policy": "no-referrer",
}
"""Of every answer with mirrored bytes, whatever they are. Other sites may show them: that is what they are for.

Without the permission for all origins, a video in the sandbox could not be played: its document has none.
"""

NAMED = 16
"""Digits of its digest by which a download is named."""

_IN_PLACE = ("image/", "audio/", "video/")
_TEXT, _DRAWING = "text/plain", "image/svg+xml"
_OTHER = "bin"
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
    "image/avif": "avif",
    "image/bmp": "bmp",
    "image/gif": "gif",
    "image/heic": "heic",
    "image/jp2": "jp2",
    "image/jpeg": "jpeg",
    "image/jxl": "jxl",
    "image/png": "png",
    "image/svg+xml": "svg",
    "image/tiff": "tiff",
    "image/webp": "webp",
    "image/x-icon": "ico",
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


_STRAIGHT = (
    *("image/jpeg", "image/png", "image/webp", "image/gif", "video/mp4", "image/avif", "video/webm", "audio/mpeg"),
    *("application/pdf", "application/zip", "application/octet-stream"),
)
STRAIGHT = {kind: _ENDINGS.get(kind, _OTHER) for kind in _STRAIGHT}
"""Types of which nginx serves files straight from the storage, and the endings by which it knows them.

It tries one after the other: the commonest come first, and there are no more than pay. None that it compresses.
"""


def delivery(media_type: str, digest: str = "") -> Mapping[str, str]:
    """The header fields of an answer with bytes of that type, as `recognise` gives it. `digest` names a download."""
    return {"Content-Type": media_type, "Content-Disposition": _disposition(media_type, digest), **SAFE}


def is_shown_in_place(media_type: str) -> bool:
    """Whether browsers show it; else they save it."""
    bare = _bare(media_type)
    return bare == _TEXT or (bare.startswith(_IN_PLACE) and bare != _DRAWING)


def _disposition(media_type: str, digest: str) -> str:
    """RFC 6266."""
    kind = "inline" if is_shown_in_place(media_type) else "attachment"
    return f'{kind}; filename="{digest[:NAMED] or "file"}.{_ENDINGS.get(_bare(media_type), _OTHER)}"'


def _bare(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()
