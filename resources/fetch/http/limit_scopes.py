"""The scopes that the limits of an origin count for, and the egress of a domain.

Registrable domains follow the Public Suffix List that publicsuffixlist includes; nothing is downloaded.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import blake2b
from ipaddress import ip_address
from urllib.parse import SplitResult, unquote, urlsplit

import idna
from publicsuffixlist import PublicSuffixList

from .messages import DEFAULT_PORTS, MalformedEgressError

EGRESS_SEPARATOR = " via "
MAX_SEGMENT_CHARACTERS = 64
MAX_SCOPE_CHARACTERS = 400
"""Characters of the longest scope: a host with its port, a slash and a segment, and an egress."""

_HOST = re.compile(r"(?:[a-z0-9_-]+\.)*[a-z0-9_-]+(?::[1-9][0-9]{0,4})?|\[[0-9a-f:.]+\](?::[1-9][0-9]{0,4})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class UrlScopes:
    """The scopes that a URL's limits may count for, from the narrowest to the widest.

    `host` carries a port that is not its scheme's. `registrable` is the host if there is no registrable domain: an
    address, a name without a suffix. An address scope needs a rule: address_scope(...) names it.
    """

    path: str
    host: str
    registrable: str


@lru_cache(maxsize=10_000)
def url_scopes(url: str) -> UrlScopes:
    """Returns the URL's scopes, the same for http and https. Raises ValueError if the URL has no host."""
    parts = urlsplit(url)
    host, registrable = _host_and_domain(parts.scheme, parts.netloc)
    if not host:
        raise ValueError(f"No host in {url!r}.")
    segment = parts.path.lstrip("/").partition("/")[0][:MAX_SEGMENT_CHARACTERS]
    return UrlScopes(path=f"{host}/{segment}", host=host, registrable=registrable)


@lru_cache(maxsize=10_000)
def _host_and_domain(scheme: str, authority: str) -> tuple[str, str]:
    """Returns host and registrable domain; empty without a host. Cached: hosts are few, and URLs many."""
    parts = SplitResult(scheme, authority, "", "", "")
    name = _normalise_host(parts.hostname or "")
    if not name:
        return "", ""
    port = parts.port
    suffix = "" if port in (None, DEFAULT_PORTS.get(scheme)) else f":{port}"
    host = (f"[{name}]" if ":" in name else name) + suffix
    return host, registrable_domain(name) or host


def registrable_domain(name: str) -> str:
    """Returns the registrable domain of a host name without a port; empty if it has none."""
    return _suffix_list().privatesuffix(name) or ""


@cache  # read at first use: that takes a tenth of a second
def _suffix_list() -> PublicSuffixList:
    """Returns the list with private suffixes (as github.io), without a suffix for names that it does not have."""
    return PublicSuffixList(accept_unknown=False)


def address_scope(text: str) -> str:
    """Returns the scope of all hosts at one address, which an admin sets for each of them."""
    return f"address:{text}"


def parse_scope(text: str) -> str:
    """Parses the scope that an admin typed: a host, a path of one, or an address. Raises ValueError."""
    text = text.strip()
    if text.lower().startswith("address:"):
        return address_scope(str(ip_address(text.partition(":")[2].strip())))
    if any(sign in text for sign in "?#@\\") or not text.isprintable() or " " in text:
        raise ValueError(f"{text!r} is no domain")
    found = url_scopes(text if "://" in text else f"https://{text}")
    scope = found.host if found.path == f"{found.host}/" else found.path
    if len(scope) > MAX_SCOPE_CHARACTERS or not _HOST.fullmatch(found.host):
        raise ValueError(f"{text!r} is no domain")
    return scope


def scope_domain(scope: str) -> str:
    """Returns the registrable domain of a scope, its host if it has none; empty for an address scope."""
    if scope.startswith("address:"):
        return ""
    return url_scopes("//" + strip_egress(scope)).registrable


def is_host_scope(scope: str) -> bool:
    """True for the scope of a host or a registrable domain: only these have rules for the scope of their limits."""
    return "/" not in scope and EGRESS_SEPARATOR not in scope and not scope.startswith("address:")


def scope_via(scope: str, egress: str) -> str:
    """Returns the scope of requests by an egress: each egress has limits of its own."""
    return f"{scope}{EGRESS_SEPARATOR}{egress}" if egress else scope


def strip_egress(scope: str) -> str:
    """Returns the scope without its egress: limits of it hold for each of its egresses."""
    return scope.partition(EGRESS_SEPARATOR)[0]


def _normalise_host(hostname: str) -> str:
    """Returns lower case without a final dot, international names as A-labels if possible."""
    name = hostname.lower().rstrip(".")
    try:  # as parse_target does: headers and limits must be those of the host that is connected to
        return name if name.isascii() else idna.encode(name, uts46=True).decode("ascii").lower().rstrip(".")
    except (idna.IDNAError, UnicodeError):
        return name


_EGRESS_ENTRY = re.compile(r"(?P<name>[A-Za-z0-9_-]{1,32})=(?P<way>.+)", re.ASCII | re.DOTALL)
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")


@dataclass(frozen=True, slots=True)
class Egress:
    """An egress: either `source_address`, an address of this machine, or `proxy`, the URL of an HTTP proxy."""

    name: str
    source_address: str | None = None
    proxy: str | None = field(default=None, repr=False)  # it may hold a password


def parse_egresses(entries: Iterable[str]) -> tuple[Egress, ...]:
    """Parses the entries of FETCH_EGRESS. Raises MalformedEgressError, which never quotes a password."""
    found: dict[str, Egress] = {}
    for place, entry in enumerate(entries, 1):
        match = _EGRESS_ENTRY.fullmatch(entry.strip())
        if match is None:
            raise MalformedEgressError(f"entry {place} is not NAME=ADDRESS or NAME=http://PROXY:PORT")
        if match["name"] in found:
            raise MalformedEgressError(f"{match['name']} is there twice")
        found[match["name"]] = _parse_egress(match["name"], match["way"])
    return tuple(found.values())


def choose_egress(egresses: Sequence[Egress], domain: str) -> Egress | None:
    """Returns the egress of a domain (registrable, or a host): always the same one. None without any egress.

    Uses rendezvous hashing (Thaler & Ravishankar, 1998): an egress that comes or goes moves only its own share.
    """
    return max(egresses, key=lambda egress: _egress_weight(egress.name, domain), default=None)


def find_egress(egresses: Sequence[Egress], name: str, domain: str) -> Egress | None:
    """Returns the egress that a job was queued for; if the settings no longer have it, the one chosen now."""
    if not name:
        return None
    return next((egress for egress in egresses if egress.name == name), None) or choose_egress(egresses, domain)


def _egress_weight(name: str, domain: str) -> int:
    return int.from_bytes(blake2b(f"{name} {domain}".encode(), digest_size=8).digest(), "big")


def _parse_egress(name: str, way: str) -> Egress:
    if "://" in way:
        return Egress(name, proxy=_check_proxy_url(name, way))
    bracketed = _BRACKETS.fullmatch(way)
    try:
        address = ip_address(bracketed[1] if bracketed else way)
    except ValueError as error:
        raise MalformedEgressError(f"{name} has no IP address, and no URL of a proxy") from error
    if (address.version == 6) is not bool(bracketed):
        raise MalformedEgressError(f"{name}: an IPv6 address stands in brackets, an IPv4 address does not")
    return Egress(name, source_address=str(address))


def _check_proxy_url(name: str, url: str) -> str:
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
    if _has_path_or_query(parts) or not url.isascii() or re.search(r"[\s\x00-\x1f\x7f]", url):
        raise MalformedEgressError(f"{name}: a proxy's URL is http://HOST:PORT or http://USER:PASSWORD@HOST:PORT")
    return url.rstrip("/")


def _has_path_or_query(parts: SplitResult) -> bool:
    return parts.path not in ("", "/") or bool(parts.query or parts.fragment)
