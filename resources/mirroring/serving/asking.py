"""What the address of a mirrored file asks for, for the counts of traffic. PURE. Knows no files."""

import re

from resources.traffic.asked import Asked

from ..contents.errors import ThumbnailError
from ..contents.thumbnail import MOST_SIDE, Thumbnail
from ..errors import AddressError
from . import encoding

BEGINNING = "/resources/"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def asked(address: str) -> Asked | None:
    """A blob, a thumbnail of one, or a signed URL; None for what is none of them."""
    match address.removeprefix(BEGINNING).split("/"):
        case [digest] if _DIGEST.fullmatch(digest):
            return Asked("blob", noted=digest)
        case [digest, name] if _DIGEST.fullmatch(digest):
            return Asked("thumbnail", content_key=_contained(digest, name), noted=digest)
        case [_, encoded]:
            try:
                return Asked("resource", noted=encoding.read(encoded))
            except AddressError:
                return None
        case _:
            return None


def _contained(digest: str, name: str) -> str:
    """The content key of the thumbnail, empty for none. Of any fit: that is an argument, which the log leaves out."""
    try:
        return Thumbnail.read(digest, name, {}, MOST_SIDE).content_key
    except ThumbnailError:
        return ""
