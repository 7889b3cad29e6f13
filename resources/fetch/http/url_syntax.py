"""Parses URLs (RFC 3986), follows their redirects, and reads the expiry of signed ones.

A target is parsed once, here, and is sent as it was parsed: no other parser can understand it differently. Of
expiry parameters only those beside a signature are believed: `Expires` alone could mean anything.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import cast
from urllib.parse import parse_qsl

import idna
from multidict import CIMultiDict

from retry.records import frozen_record

from . import messages
from .messages import Failure, FetchError, FetchRequest

DEFAULT_PORTS = messages.DEFAULT_PORTS
MAX_URL_BYTES = 2000
MAX_REDIRECT_URL_BYTES = 8000
"""Addresses in redirects may be longer: signed ones carry tokens of a thousand bytes and more."""

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
_NO_TEXT = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # the other half surrogates stand for bytes that are no UTF-8
_PLAIN = re.compile(r"[!-~]*")
_ILLEGAL = re.compile(r"[^!#$%&\'()*+,\-./0-9:;=?@A-Z\[\]_a-z~|]")


@frozen_record
class Target:
    """A parsed URL. Its host is in ASCII, an IPv6 address without brackets; it has no userinfo.

    `path` and `query` are as given, with illegal characters percent-encoded; a query of None is
    missing, which differs from an empty one. Does not say whether the address is allowed.
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
        """True if the host is an IP address and no name."""
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


def cut_fragment(url: str) -> str:
    """Returns the URL without its fragment, which no server sees: two URLs that differ in it are one request."""
    return url.partition("#")[0]


def parse_target(url: str, *, max_bytes: int = MAX_URL_BYTES) -> Target:
    """Parses an absolute URL, without its userinfo and fragment. Raises FetchError."""
    scheme, authority, path, query = _split_checked(url, max_bytes)
    if scheme is None or authority is None:
        raise FetchError(Failure.PERMANENT, "not an absolute URL")
    return _build_target(scheme, authority, path or "", query)


def resolve_reference(base: Target, reference: str) -> Target:
    """Resolves a Location against `base` (RFC 3986, 5.2). Raises FetchError."""
    scheme, authority, path, query = _split_checked(reference.strip(" \t"), MAX_REDIRECT_URL_BYTES)
    path = path or ""
    if scheme is not None or authority is not None:
        if authority is None:
            _check_scheme(scheme or "")
            raise FetchError(Failure.PERMANENT, "a redirect to an address without a host")
        return _build_target(scheme or base.scheme, authority, remove_dot_segments(path), query)
    if not path:
        path, query = base.path, base.query if query is None else query
    elif not path.startswith("/"):
        path = base.path[: base.path.rfind("/") + 1] + path
    return Target(
        base.scheme, base.host, base.port, _escape_illegal(remove_dot_segments(path)) or "/", _escape_query(query)
    )


def next_redirect_target(base: Target, location: str | None, *, allow_downgrade: bool) -> Target:
    """Returns the target of a redirect. Raises FetchError for a redirect without target, or from https to http."""
    if location is None or not location.strip(" \t"):
        raise FetchError(Failure.PERMANENT, "a redirect that does not say where to")
    target = resolve_reference(base, location)
    if base.scheme == "https" and target.scheme == "http" and not allow_downgrade:
        raise FetchError(Failure.REFUSED, "a redirect from https to http")
    return target


def remove_dot_segments(path: str) -> str:
    """Removes `.` and `..` segments from the path (RFC 3986, 5.2.4); a path never climbs above the root."""
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


def _split_checked(url: str, max_bytes: int) -> _Parts:
    if len(url) > max_bytes or not _PLAIN.fullmatch(url):  # few are
        _check_text(url, max_bytes)
    match = _PARTS.fullmatch(url)
    assert match is not None, "the pattern matches any text"
    return cast(_Parts, match.groups())


def _check_text(url: str, max_bytes: int) -> None:
    if _CONTROL.search(url) or (not url.isascii() and _NO_TEXT.search(url)):
        raise FetchError(Failure.PERMANENT, "control characters in an address")
    if len(url) > max_bytes or len(url.encode("utf-8", "surrogateescape")) > max_bytes:
        raise FetchError(Failure.PERMANENT, f"an address of more than {max_bytes:,} bytes")


def _build_target(scheme: str, authority: str, path: str, query: str | None) -> Target:
    scheme = _check_scheme(scheme)
    host, port = _host_and_port(scheme, authority)
    return Target(scheme, host, port, _escape_illegal(path) or "/", _escape_query(query))


@lru_cache(maxsize=4096)
def _host_and_port(scheme: str, authority: str) -> tuple[str, int]:
    """Parses the authority. Cached: hosts are few, and paths many."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None or "\\" in authority:  # some parsers take it for a slash, and another host is meant
        raise FetchError(Failure.PERMANENT, "a malformed host")
    port = int(match["port"]) if match["port"] else DEFAULT_PORTS[scheme]
    if not 0 < port < 65536:
        raise FetchError(Failure.PERMANENT, "an impossible port")
    return _parse_host(match["host"]), port


def _check_scheme(scheme: str) -> str:
    if scheme in DEFAULT_PORTS:
        return scheme
    if scheme.lower() not in DEFAULT_PORTS:
        raise FetchError(Failure.REFUSED, "only http and https are fetched")
    return scheme.lower()


def _parse_host(text: str) -> str:
    if not text:
        raise FetchError(Failure.PERMANENT, "an address without a host")
    if text.startswith("["):
        return _parse_ipv6(text[1:-1])
    host = text.lower() if text.isascii() else _encode_host(text)
    host = host.removesuffix(".")
    if len(host) > 253 or not _HOST.fullmatch(host):
        raise FetchError(Failure.PERMANENT, "a malformed host")
    # Systems read 127.1, 2130706433 or 0x7f.1 as addresses, each in its own way.
    if _NUMBER.fullmatch(host.rpartition(".")[2]) and not _is_ipv4(host):
        raise FetchError(Failure.REFUSED, "a number that stands for an IP address")
    return host


def _encode_host(text: str) -> str:
    try:
        return idna.encode(text, uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError) as error:
        raise FetchError(Failure.PERMANENT, "a malformed international host") from error


def _parse_ipv6(text: str) -> str:
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


def _escape_illegal(text: str) -> str:
    """Percent-encodes the characters that no URL may hold; bytes that are no UTF-8 become themselves."""
    return _ILLEGAL.sub(_percent_encode, text) if _ILLEGAL.search(text) else text


def _escape_query(query: str | None) -> str | None:
    return None if query is None else _escape_illegal(query)


def _percent_encode(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogateescape"))


REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})


@frozen_record
class FetchRoute:
    """The current step of a fetch. `at_home` as long as it has never left its first origin.

    Headers of the task are sent only at home: a foreign host may redirect to any address of home.
    `visited` are the methods and addresses of the earlier steps.
    """

    fetch: FetchRequest
    target: Target
    method: str
    body: bytes
    at_home: bool = True
    visited: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def begin(cls, fetch: FetchRequest) -> "FetchRoute":
        """Returns the first step. Raises FetchError for an address that is not fetched."""
        return cls(fetch, parse_target(fetch.url), fetch.method, fetch.body)

    def after(self, status: int, location: str | None, *, allow_downgrade: bool) -> "FetchRoute":
        """Returns the next step after an answer that redirects (RFC 9110, 15.4). Raises FetchError.

        A body may hold a secret: one sent over TLS never goes on without TLS.
        """
        method, body = self.method, self.body
        if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
            method, body = "GET", b""
        target = next_redirect_target(self.target, location, allow_downgrade=allow_downgrade and not body)
        visited = self.visited | {(self.method, self.target.url)}
        if (method, target.url) in visited:
            raise FetchError(Failure.PERMANENT, "redirects in a circle")
        if len(visited) > self.fetch.limits.max_redirects:
            raise FetchError(Failure.PERMANENT, f"more than {self.fetch.limits.max_redirects} redirects")
        at_home = self.at_home and target.origin == self.target.origin
        return replace(self, target=target, method=method, body=body, at_home=at_home, visited=visited)

    def headers(self) -> CIMultiDict[str]:
        """Returns the header fields of this step's request, without those of every request."""
        given = self.fetch.headers
        if not self.at_home:  # the type of a body goes with the body
            given = {name: value for name, value in given.items() if self.body and name.lower() == "content-type"}
        fields = CIMultiDict(given)
        if self.at_home and self.target.scheme == "https":
            fields.update(self.fetch.secrets)
        if self.sends_validators:
            if self.fetch.etag is not None:
                fields["If-None-Match"] = self.fetch.etag
            if self.fetch.last_modified is not None:
                fields["If-Modified-Since"] = self.fetch.last_modified
        return fields

    @property
    def sends_validators(self) -> bool:
        """True if this step goes to the origin that gave the validators: at others they mean something else."""
        if not self.fetch.is_conditional or self.method == "POST":
            return False
        if self.fetch.validated_url is None:
            return self.at_home
        try:
            return parse_target(self.fetch.validated_url, max_bytes=MAX_REDIRECT_URL_BYTES).origin == self.target.origin
        except FetchError:
            return False

    @property
    def wants_part(self) -> bool:
        return any(name.lower() == "range" for name in self.fetch.headers)


MAX_QUERY_FIELDS = 200

_UNIX_SECONDS = re.compile(r"[0-9]{9,11}", re.ASCII)
_LIFETIME_SECONDS = re.compile(r"[0-9]{1,7}", re.ASCII)
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{8}", re.ASCII)
_BASIC_DATE = re.compile(r"[0-9]{8}T[0-9]{6}Z", re.ASCII)
_EXTENDED_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,7})?)?Z)?", re.ASCII)


def find_url_expiry(url: str) -> float | None:
    """Returns the moment in Unix seconds; None for a URL without expiry, or with one of an unknown form."""
    query = cut_fragment(url).partition("?")[2]
    if "=" not in query:
        return None
    try:
        given = dict(parse_qsl(query, max_num_fields=MAX_QUERY_FIELDS))
    except ValueError:
        return None
    found = [moment for read in _EXPIRY_READERS if (moment := read(given)) is not None]
    return min(found, default=None)


def _dated_expiry(prefix: str, given: Mapping[str, str]) -> float | None:
    """Reads a date and a lifetime: signatures of version 4, of S3 and similar services."""
    date, lifetime = given.get(f"{prefix}-Date", ""), given.get(f"{prefix}-Expires", "")
    if f"{prefix}-Signature" not in given or not (
        _BASIC_DATE.fullmatch(date) and _LIFETIME_SECONDS.fullmatch(lifetime)
    ):
        return None
    begun = _parse_date(date)
    return None if begun is None else begun + int(lifetime)


def _expires_parameter(given: Mapping[str, str]) -> float | None:
    """Reads `Expires` in Unix seconds: S3 of version 2, CloudFront, Google's of version 2."""
    value = given.get("Expires", "")
    return float(value) if "Signature" in given and _UNIX_SECONDS.fullmatch(value) else None


def _azure_expiry(given: Mapping[str, str]) -> float | None:
    """Reads `se` beside `sig`: a shared access signature, a date alone or with a time."""
    value = given.get("se", "")
    if "sig" not in given or not _EXTENDED_DATE.fullmatch(value):
        return None
    return _parse_date(re.sub(r"\.[0-9]+", "", value))


def _hexadecimal_expiry(name: str, signature: str, given: Mapping[str, str]) -> float | None:
    """Reads seconds in hexadecimals, beside a signature."""
    value = given.get(name, "")
    return float(int(value, 16)) if signature in given and _HEXADECIMAL.fullmatch(value) else None


def _parse_date(value: str) -> float | None:
    try:
        return datetime.fromisoformat(value).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


_EXPIRY_READERS: tuple[Callable[[Mapping[str, str]], float | None], ...] = (
    partial(_dated_expiry, "X-Amz"),
    partial(_dated_expiry, "X-Goog"),
    _expires_parameter,
    _azure_expiry,
    partial(_hexadecimal_expiry, "oe", "oh"),  # Facebook's and Instagram's files
    partial(_hexadecimal_expiry, "ex", "hm"),  # Discord's files
)
