"""Decides on the IP addresses that may be connected to: global ones, and exceptions that the operator names.

An address is judged by the destination of its packets: of an IPv4 address inside an IPv6 address, the IPv4
address counts. The nets are those of IANA's special-purpose registries. `ipaddress.is_global` is not used: it lets
multicast and several translations to loopback pass, and its tables change from one Python to the next.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from .messages import MalformedExceptionError

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network

_REFUSED_V4: tuple[tuple[IPv4Network, str], ...] = tuple(
    (IPv4Network(network), why)
    for network, why in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared between a provider and its customers"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's own services"),  # Azure's, though the address is a public one
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relays"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarks"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")
"""All of IPv6 that is given out; the rest is local, multicast or reserved (RFC 4291, 2.4)."""
_REFUSED_V6: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(network), why)
    for network, why in (
        ("2001::/23", "protocol assignments"),
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
    )
)
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_TEREDO = IPv6Network("2001::/32")
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})  # the first half of the interface's identifier (RFC 5214, 6.1)
_LAST_32 = 0xFFFFFFFF

_EXCEPTION = re.compile(r"\[(?P<v6>[^\[\]]+)\](?::(?P<port6>[0-9]{1,5}))?|(?P<v4>[0-9./]+)(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class ExemptNetwork:
    """A network that is allowed although it is not global: on one port, or on any if the port is None."""

    network: IpNetwork
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> "ExemptNetwork":
        """Parses `10.1.0.0/16`, `127.0.0.1:9000`, `fd00::/8` or `[fd00::/8]:9000`. Raises MalformedExceptionError."""
        match = _EXCEPTION.fullmatch(text)
        parts = match.groupdict() if match else {}
        network, port = parts.get("v6") or parts.get("v4") or text, parts.get("port6") or parts.get("port")
        try:
            found = cls(ip_network(network), None if port is None else int(port))
        except ValueError as error:
            raise MalformedExceptionError(f"{text!r}: {error}") from error
        if found.port is not None and not 0 < found.port < 65536:
            raise MalformedExceptionError(f"{text!r} has no possible port")
        return found

    def covers(self, address: IpAddress, port: int) -> bool:
        return (self.port is None or self.port == port) and address in self.network


@dataclass(frozen=True, slots=True)
class AddressGuard:
    """Decides on addresses and ports. Resolves and connects nothing.

    Global addresses are allowed on `ports`, those of `exempt` networks on the ports of their entries.
    """

    ports: frozenset[int] = frozenset({80, 443})
    exempt: tuple[ExemptNetwork, ...] = ()

    def refusal(self, address: str, port: int) -> str | None:
        """Says why an address, in the form of a socket, is refused; None if it is allowed."""
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return f"{address!r} is no IP address"
        meant = connected_address(found)
        if any(exempt.covers(each, port) for exempt in self.exempt for each in (found, meant)):
            return None
        why = why_not_global(found)
        if why is not None:
            return f"{address} is not global ({why})"
        return None if port in self.ports else f"port {port} is not fetched from"

    def may_use(self, port: int) -> bool:
        """Tells whether the port is allowed at any address."""
        return port in self.ports or any(exempt.port in (None, port) for exempt in self.exempt)


def build_guard(ports: Iterable[int], exceptions: Iterable[str]) -> AddressGuard:
    """Builds the guard from settings. Raises MalformedExceptionError."""
    return AddressGuard(frozenset(ports), tuple(ExemptNetwork.parse(text.strip()) for text in exceptions))


def connected_address(address: IpAddress) -> IpAddress:
    """Returns the IPv4 address that the system connects to for one mapped into IPv6; any other address unchanged."""
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def why_not_global(address: IpAddress) -> str | None:
    """Returns the kind of an address that is not global; None for a global one."""
    if isinstance(address, IPv4Address):
        return next((why for network, why in _REFUSED_V4 if address in network), None)
    inner = list(embedded_addresses(address))
    if why := next((why for each in inner if (why := why_not_global(each))), None):
        return f"{why}, inside IPv6"
    if address in _MAPPED or address in _NAT64 or address in _TEREDO:
        return None
    if address not in _GLOBAL_V6:
        return "outside of global unicast"
    return next((why for network, why in _REFUSED_V6 if address in network), None)


def embedded_addresses(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yields the IPv4 addresses that an IPv6 address holds: mapped, NAT64, 6to4, Teredo (both), ISATAP.

    IPv4-compatible addresses and the other translations are no global unicast: they are refused whole.
    """
    number = int(address)
    if address in _MAPPED or address in _NAT64:
        yield IPv4Address(number & _LAST_32)
    elif address.sixtofour:
        yield address.sixtofour
    elif address.teredo:
        yield from address.teredo
    if number >> 32 & _LAST_32 in _ISATAP:
        yield IPv4Address(number & _LAST_32)
