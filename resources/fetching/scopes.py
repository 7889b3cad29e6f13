"""What the limits of an origin count for: a path, a host, a registrable domain, an address. PURE.

Registrable domains are by the Public Suffix List that tldextract brings along; nothing is downloaded.
"""

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

import tldextract

DEFAULT_PORTS = {"http": 80, "https": 443}
MOST_SEGMENT = 64

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
    name = _name(parts.hostname or "")
    if not name:
        raise ValueError(f"No host in {url!r}.")
    port = parts.port
    suffix = "" if port in (None, DEFAULT_PORTS.get(parts.scheme)) else f":{port}"
    host = (f"[{name}]" if ":" in name else name) + suffix
    segment = parts.path.lstrip("/").partition("/")[0][:MOST_SEGMENT]
    return Scopes(path=f"{host}/{segment}", host=host, registrable=registrable(name) or host)


def registrable(name: str) -> str:
    """The registrable domain of a host name without a port; empty where there is none."""
    return _suffixes.extract_str(name).top_domain_under_public_suffix


def address(text: str) -> str:
    """The scope of all hosts at one address, as an admin sets it for each of them."""
    return f"address:{text}"


def _name(hostname: str) -> str:
    """Lower case, no final dot, and international names as they are sent (A-labels) where they can be."""
    name = hostname.lower().rstrip(".")
    try:
        return name if name.isascii() else name.encode("idna").decode()
    except UnicodeError:
        return name
