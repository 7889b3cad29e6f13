"""What the limits of an origin count for: a path, a host, a registrable domain, an address. PURE.

Registrable domains are by the Public Suffix List that tldextract brings along; nothing is downloaded.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

import idna
import tldextract

DEFAULT_PORTS = {"http": 80, "https": 443}
VIA = " via "
MOST_SEGMENT = 64
MOST_SCOPE = 400
"""Characters of the longest scope: a host with its port, a slash and a segment, and an egress."""

_HOST = re.compile(r"(?:[a-z0-9_-]+\.)*[a-z0-9_-]+(?::[1-9][0-9]{0,4})?|\[[0-9a-f:.]+\](?::[1-9][0-9]{0,4})?", re.ASCII)

_suffixes = tldextract.TLDExtract(
    suffix_list_urls=(), cache_dir=None, fallback_to_snapshot=True, include_psl_private_domains=True
)


@dataclass(frozen=True, slots=True)
class Scopes:
    """The names a URL's limits may count under, from the narrowest to the widest.

    `host` carries a port that is not its scheme's. `registrable` is the host where there is none: an
    address, a name without a suffix. An address scope is by rule: address(...) names it.
    """

    path: str
    host: str
    registrable: str


@lru_cache(maxsize=10_000)
def scopes(url: str) -> Scopes:
    """The URL's scopes. http and https share theirs. Raises ValueError when the URL has no host."""
    parts = urlsplit(url)
    host, registrable = _site(parts.scheme, parts.netloc)
    if not host:
        raise ValueError(f"No host in {url!r}.")
    segment = parts.path.lstrip("/").partition("/")[0][:MOST_SEGMENT]
    return Scopes(path=f"{host}/{segment}", host=host, registrable=registrable)


@lru_cache(maxsize=10_000)
def _site(scheme: str, authority: str) -> tuple[str, str]:
    """Host and registrable domain; empty where there is no host. Remembered: hosts are few, and URLs many."""
    parts = SplitResult(scheme, authority, "", "", "")
    name = _name(parts.hostname or "")
    if not name:
        return "", ""
    port = parts.port
    suffix = "" if port in (None, DEFAULT_PORTS.get(scheme)) else f":{port}"
    host = (f"[{name}]" if ":" in name else name) + suffix
    return host, registrable(name) or host


def registrable(name: str) -> str:
    """The registrable domain of a host name without a port; empty where there is none."""
    return _suffixes.extract_str(name).top_domain_under_public_suffix


def address(text: str) -> str:
    """The scope of all hosts at one address, as an admin sets it for each of them."""
    return f"address:{text}"


def named(text: str) -> str:
    """The scope that somebody means: a host, a path of one, or an address. Raises ValueError."""
    text = text.strip()
    if text.lower().startswith("address:"):
        return address(str(ip_address(text.partition(":")[2].strip())))
    if any(sign in text for sign in "?#@\\") or not text.isprintable() or " " in text:
        raise ValueError(f"{text!r} is no domain")
    found = scopes(text if "://" in text else f"https://{text}")
    scope = found.host if found.path == f"{found.host}/" else found.path
    if len(scope) > MOST_SCOPE or not _HOST.fullmatch(found.host):
        raise ValueError(f"{text!r} is no domain")
    return scope


def site(scope: str) -> str:
    """The registrable domain that a scope belongs to, its host where there is none; empty for an address scope."""
    if scope.startswith("address:"):
        return ""
    return scopes("//" + plain(scope)).registrable


def is_host(scope: str) -> bool:
    """Whether it names a host or a registrable domain: those have rules of what their limits count for."""
    return "/" not in scope and VIA not in scope and not scope.startswith("address:")


def via(scope: str, egress: str) -> str:
    """The scope of requests that go out by an egress: it sees them apart from all others."""
    return f"{scope}{VIA}{egress}" if egress else scope


def plain(scope: str) -> str:
    """The scope without its egress: what holds for it holds for all its ways."""
    return scope.partition(VIA)[0]


def _name(hostname: str) -> str:
    """Lower case, no final dot, and international names as they are sent (A-labels) where they can be."""
    name = hostname.lower().rstrip(".")
    try:  # as targets.parse does: headers and limits must be those of the host that is connected to
        return name if name.isascii() else idna.encode(name, uts46=True).decode("ascii").lower().rstrip(".")
    except (idna.IDNAError, UnicodeError):
        return name
