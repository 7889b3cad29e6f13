"""What the address of a mirrored file asks for, for the counts of traffic. PURE. Knows no files."""

import re

from resources.traffic.asked import Asked

from ..errors import AddressError
from . import encoding

BEGINNING = "/resources/"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def asked(address: str) -> Asked | None:
    """A blob, a thumbnail of one, or a signed URL; None for what is none of them."""
    match address.removeprefix(BEGINNING).split("/"):
        case [digest] if _DIGEST.fullmatch(digest):
            return Asked("blob", noted=digest)
        case [digest, _] if _DIGEST.fullmatch(digest):
            return Asked("thumbnail", noted=digest)
        case [_, encoded]:
            try:
                return Asked("resource", noted=encoding.read(encoded))
            except AddressError:
                return None
        case _:
            return None
