"""Addresses that are fetched: their syntax (RFC 3986), and what a redirect may lead to. PURE.

A target is read once, here, and is sent as it was read: no other parser gets to understand it differently.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import cast

import idna

from ..errors import FetchError
from ..outcomes import Failure

MAX_URL_BYTES = 2000
MAX_HOP_BYTES = 8000
"""Addresses in redirects may be longer: signed ones carry tokens of a thousand bytes and more."""
DEFAULT_PORTS = {"http": 80, "https": 443}

# RFC 3986, appendix B.
_PARTS = re.compile(
    r"(?:(?P<scheme>[^:/?#]+):)?(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#.*)?", re.DOTALL
)
_Parts = tuple[str | None, str | None, str | None, str | None]
"""Scheme, authority, path and query."""
_AUTHORITY = re.compile(r"(?:[^@]*@)*(?P<host>\[[^\[\]@]*\]|[^:@\[\]]*)(?::(?P<port>[0-9]{0,5}))?", re.ASCII)
_HOST = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NO_TEXT = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # the rest of the half surrogates are bytes that are no UTF-8
_PLAIN = re.compile(r"[!-~]*")
_ILLEGAL = re.compile(r"[^!#$%&\'()*+,\-./0-9:;=?@A-Z\[\]_a-z~|]")


@dataclass(frozen=True, slots=True)
class Target:
    """An address that can be asked. Its host is in ASCII, an IPv6 address without brackets; it has no userinfo.

    `path` and `query` are as they were given, with what no URL may hold percent-encoded; a query of None is
    one that is missing, which differs from one that is empty. Whether the address is allowed is not known here.
    """

    scheme: str
    host: str
    port: int
    path: str
    query: str | None = None

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def is_address(self) -> bool:
        """Whether its host is an IP address, and no name."""
        return ":" in self.host or _is_ipv4(self.host)

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def path_and_query(self) -> str:
        return self.path if self.query is None else f"{self.path}?{self.query}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path_and_query}"


def parse(url: str, *, max_bytes: int = MAX_URL_BYTES) -> Target:
    """The target of an absolute URL; userinfo and fragment are left out. Raises FetchError."""
    scheme, authority, path, query = _split(url, max_bytes)
    if scheme is None or authority is None:
        raise FetchError(Failure.PERMANENT, "not an absolute URL")
    return _target(scheme, authority, path or "", query)


def resolve(base: Target, reference: str) -> Target:
    """What a Location means at `base` (RFC 3986, 5.2). Raises FetchError."""
    scheme, authority, path, query = _split(reference.strip(" \t"), MAX_HOP_BYTES)
    path = path or ""
    if scheme is not None or authority is not None:
        if authority is None:
            _check_scheme(scheme or "")
            raise FetchError(Failure.PERMANENT, "a redirect to an address without a host")
        return _target(scheme or base.scheme, authority, without_dots(path), query)
    if not path:
        path, query = base.path, base.query if query is None else query
    elif not path.startswith("/"):
        path = base.path[: base.path.rfind("/") + 1] + path
    return Target(base.scheme, base.host, base.port, _legal(without_dots(path)) or "/", _legal_query(query))


def next_target(base: Target, location: str | None, *, allow_downgrade: bool) -> Target:
    """Where a redirect leads. Raises FetchError for one that leads nowhere, or from https to http."""
    if location is None or not location.strip(" \t"):
        raise FetchError(Failure.PERMANENT, "a redirect that does not say where to")
    target = resolve(base, location)
    if base.scheme == "https" and target.scheme == "http" and not allow_downgrade:
        raise FetchError(Failure.REFUSED, "a redirect from https to http")
    return target


def without_dots(path: str) -> str:
    """The path without `.` and `..` segments (RFC 3986, 5.2.4); what climbs above the root stays there."""
    if "." not in path:
        return path
    segments = path.split("/")
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            del kept[max(1, len(kept) - 1) :]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/".join(kept)


def _split(url: str, max_bytes: int) -> _Parts:
    if len(url) <= max_bytes and _PLAIN.fullmatch(url):  # as nearly all are
        return _parts(url)
    if _CONTROL.search(url) or (not url.isascii() and _NO_TEXT.search(url)):
        raise FetchError(Failure.PERMANENT, "control characters in an address")
    if len(url) > max_bytes or len(url.encode("utf-8", "surrogateescape")) > max_bytes:
        raise FetchError(Failure.PERMANENT, f"an address of more than {max_bytes:,} bytes")
    return _parts(url)


def _parts(url: str) -> _Parts:
    match = _PARTS.fullmatch(url)
    assert match is not None, "the pattern matches any text"
    return cast(_Parts, match.groups())


def _target(scheme: str, authority: str, path: str, query: str | None) -> Target:
    scheme = _check_scheme(scheme)
    host, port = _host_and_port(scheme, authority)
    return Target(scheme, host, port, _legal(path) or "/", _legal_query(query))


@lru_cache(maxsize=4096)
def _host_and_port(scheme: str, authority: str) -> tuple[str, int]:
    """Remembered, since what is fetched has few hosts and many paths."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None or "\\" in authority:  # which some take for a slash, so that another host is meant
        raise FetchError(Failure.PERMANENT, "a malformed host")
    port = int(match["port"]) if match["port"] else DEFAULT_PORTS[scheme]
    if not 0 < port < 65536:
        raise FetchError(Failure.PERMANENT, "an impossible port")
    return _host(match["host"]), port


def _check_scheme(scheme: str) -> str:
    if scheme in DEFAULT_PORTS:
        return scheme
    if scheme.lower() not in DEFAULT_PORTS:
        raise FetchError(Failure.REFUSED, "only http and https are fetched")
    return scheme.lower()


def _host(text: str) -> str:
    if not text:
        raise FetchError(Failure.PERMANENT, "an address without a host")
    if text.startswith("["):
        return _ipv6(text[1:-1])
    host = text.lower() if text.isascii() else _in_ascii(text)
    host = host.removesuffix(".")
    if len(host) > 253 or not _HOST.fullmatch(host):
        raise FetchError(Failure.PERMANENT, "a malformed host")
    # Systems read 127.1, 2130706433 or 0x7f.1 as addresses, each in its own way.
    if _NUMBER.fullmatch(host.rpartition(".")[2]) and not _is_ipv4(host):
        raise FetchError(Failure.REFUSED, "a number that stands for an IP address")
    return host


def _in_ascii(text: str) -> str:
    try:
        return idna.encode(text, uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError) as error:
        raise FetchError(Failure.PERMANENT, "a malformed international host") from error


def _ipv6(text: str) -> str:
    if "%" in text:  # a zone is an interface of this machine
        raise FetchError(Failure.REFUSED, "an IPv6 address with a zone")
    try:
        return str(IPv6Address(text))
    except AddressValueError as error:
        raise FetchError(Failure.PERMANENT, "a malformed IPv6 address") from error


def _is_ipv4(host: str) -> bool:
    try:
        return str(IPv4Address(host)) == host
    except AddressValueError:
        return False


def _legal(text: str) -> str:
    """The text with what no URL may hold percent-encoded: bytes that are no UTF-8 as themselves."""
    return _ILLEGAL.sub(_encoded, text) if _ILLEGAL.search(text) else text


def _legal_query(query: str | None) -> str | None:
    return None if query is None else _legal(query)


def _encoded(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogateescape"))
