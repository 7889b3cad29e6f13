"""Ways out: other addresses of this machine, or proxies, that requests are spread over. PURE.

Decides which one a domain is asked by. Opens no connection.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from ipaddress import ip_address
from urllib.parse import SplitResult, unquote, urlsplit

from ..errors import MalformedEgressError

_ENTRY = re.compile(r"(?P<name>[A-Za-z0-9_-]{1,32})=(?P<way>.+)", re.ASCII | re.DOTALL)
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")


@dataclass(frozen=True, slots=True)
class Egress:
    """A way out. Either `source_address`, an address of this machine, or `proxy`, the URL of an HTTP proxy."""

    name: str
    source_address: str | None = None
    proxy: str | None = field(default=None, repr=False)  # it may hold a password


def parse(entries: Iterable[str]) -> tuple[Egress, ...]:
    """The entries of FETCH_EGRESS. Raises MalformedEgressError, which never quotes a password."""
    found: dict[str, Egress] = {}
    for place, entry in enumerate(entries, 1):
        match = _ENTRY.fullmatch(entry.strip())
        if match is None:
            raise MalformedEgressError(f"entry {place} is not NAME=ADDRESS or NAME=http://PROXY:PORT")
        if match["name"] in found:
            raise MalformedEgressError(f"{match['name']} is there twice")
        found[match["name"]] = _egress(match["name"], match["way"])
    return tuple(found.values())


def choose(egresses: Sequence[Egress], domain: str) -> Egress | None:
    """The way out for a domain (registrable, or a host): always the same one. None where there is but the machine's.

    By rendezvous hashing (Thaler & Ravishankar, 1998): an egress that comes or goes moves only its own share.
    """
    return max(egresses, key=lambda egress: _weight(egress.name, domain), default=None)


def of_name(egresses: Sequence[Egress], name: str, domain: str) -> Egress | None:
    """The way out that a job was queued for; where it is gone from the settings, the one chosen now."""
    if not name:
        return None
    return next((egress for egress in egresses if egress.name == name), None) or choose(egresses, domain)


def _weight(name: str, domain: str) -> int:
    return int.from_bytes(blake2b(f"{name} {domain}".encode(), digest_size=8).digest(), "big")


def _egress(name: str, way: str) -> Egress:
    if "://" in way:
        return Egress(name, proxy=_proxy(name, way))
    bracketed = _BRACKETS.fullmatch(way)
    try:
        address = ip_address(bracketed[1] if bracketed else way)
    except ValueError as error:
        raise MalformedEgressError(f"{name} has no IP address, and no URL of a proxy") from error
    if (address.version == 6) is not bool(bracketed):
        raise MalformedEgressError(f"{name}: an IPv6 address stands in brackets, an IPv4 address does not")
    return Egress(name, source_address=str(address))


def _proxy(name: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise MalformedEgressError(f"{name}: the URL of its proxy is malformed") from error
    if parts.scheme != "http":
        raise MalformedEgressError(f"{name}: a proxy's URL begins with http://")
    if not parts.hostname or not port:
        raise MalformedEgressError(f"{name}: a proxy's URL has a host and a port")
    if ":" in unquote(parts.username or ""):
        raise MalformedEgressError(f"{name}: the name of a proxy's user has no colon")
    if _has_more(parts) or not url.isascii() or re.search(r"[\s\x00-\x1f\x7f]", url):
        raise MalformedEgressError(f"{name}: a proxy's URL is http://HOST:PORT or http://USER:PASSWORD@HOST:PORT")
    return url.rstrip("/")


def _has_more(parts: SplitResult) -> bool:
    return parts.path not in ("", "/") or bool(parts.query or parts.fragment)
