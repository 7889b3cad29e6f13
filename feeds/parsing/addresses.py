"""Addresses in feeds: made absolute, and let through by their scheme. PURE."""

import re
from urllib.parse import urljoin, urlsplit

ALLOWED = ("http", "https")
_BLANK = re.compile(r"[\x00-\x20\x7f-\xa0]+")

_NO_HOST = re.compile(r"[\s<>\"'{}|\\^`%&;=,*!?#$()+~]")


def absolute(base: str, address: str, max_characters: int) -> str:
    """The address relative to a base; empty for what is none, is too long, or has another scheme than the web's."""
    address = address.strip()
    if not address or len(address) > max_characters:
        return ""
    try:
        found = urljoin(base, _BLANK.sub("%20", address))
        parts = urlsplit(found)
        host, _ = parts.hostname or "", parts.port
    except ValueError:  # brackets that are no IPv6 address, a port that is no number
        return ""
    is_whole = parts.scheme in ALLOWED and host and not _NO_HOST.search(host)
    return found if is_whole and len(found) <= max_characters else ""


def joined(base: str, inner: str) -> str:
    """A base within another (xml:base). One that is nonsense changes nothing."""
    try:
        return urljoin(base, inner.strip())
    except ValueError:
        return base
