"""The guard's table: addresses that are refused in every disguise, and the neighbours that pass."""

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.fetch.http.allowed_ips import AddressGuard, ExemptNetwork, build_guard, why_not_global
from resources.fetch.http.messages import MalformedExceptionError

STRICT = AddressGuard(frozenset({80, 443}))

# The first and last address of each net, and both neighbours: None where the neighbour is itself refused.
NETS_V4 = {
    "this host": ("0.0.0.0", "0.255.255.255", None, "1.0.0.0"),
    "private, 10": ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
    "shared": ("100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"),
    "loopback": ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
    "a cloud's services": ("168.63.129.16", "168.63.129.16", "168.63.129.15", "168.63.129.17"),
    "link-local": ("169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"),
    "private, 172": ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
    "protocol assignments": ("192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"),
    "documentation 1": ("192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"),
    "6to4 relays": ("192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"),
    "private, 192": ("192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"),
    "benchmarks": ("198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"),
    "documentation 2": ("198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"),
    "documentation 3": ("203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"),
    "multicast": ("224.0.0.0", "239.255.255.255", "223.255.255.255", None),
    "reserved": ("240.0.0.0", "255.255.255.255", None, None),
}
NETS_V6 = {
    "below global unicast": ("::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None, "2000::"),
    "above global unicast": ("4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:ffff::", None),
    "protocol assignments": ("2001:1::", "2001:1ff:ffff::", "2000:ffff::1", "2001:200::"),
    "documentation": ("2001:db8::", "2001:db8:ffff::", "2001:db7:ffff::", "2001:db9::"),
    "documentation, new": ("3fff::", "3fff:fff:ffff::", "3ffe:ffff::", "3fff:1000::"),
}
NETS = {**NETS_V4, **NETS_V6}

PRIVATE_IN_DISGUISE = {
    "compatible with a global address": "::8.8.8.8",
    "translated": "::ffff:0:127.0.0.1",
    "NAT64 of a local prefix": "64:ff9b:1::7f00:1",
    "NAT64 of a local prefix, global": "64:ff9b:1::808:808",
    "ISATAP, marked as global": "2a00:1450::200:5efe:10.0.0.1",
}
ALSO_REFUSED = {"link-local on an interface": "fe80::1%eth0", "a cloud's metadata": "fd00:ec2::254"}
PASSING = {
    "a server": "93.184.216.34",
    "a server over IPv6": "2606:2800:220:1:248:1893:25c8:1946",
    "mapped": "::ffff:8.8.8.8",
    "NAT64": "64:ff9b::8.8.8.8",
    "6to4": "2002:808:808::1",
    "Teredo": "2001:0:808:808::f7f7:f7f7",
    "ISATAP": "2a00:1450::5efe:8.8.8.8",
    "not quite ISATAP": "2a00:1450::100:5efe:7f00:1",
    "not quite NAT64, by one before its last bits": "2a64:ff9b::7f00:1",
    "beside 6to4, with what would be loopback inside": "2003:7f00:1::",
    "beside 6to4, below": "2001:ffff:7f00:1::",
}


def edges(place: int) -> list[tuple[str, str]]:
    return [(f"{name}: {found}", found) for name, net in NETS.items() if (found := net[place])]


REFUSED = [*edges(0), *edges(1), *PRIVATE_IN_DISGUISE.items(), *ALSO_REFUSED.items()]
ALLOWED = [*edges(2), *edges(3), *PASSING.items()]


@pytest.mark.parametrize(("name", "address"), REFUSED)
def test_what_is_not_global_is_refused(name: str, address: str) -> None:
    assert STRICT.refusal(address, 80)


@pytest.mark.parametrize(("name", "address"), ALLOWED)
def test_what_is_global_passes(name: str, address: str) -> None:
    assert STRICT.refusal(address, 80) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "①②⑦.⓪.⓪.①", "0", "localhost", "127.0.0.1."),
        *("1.2.3.4:80", "٨.٨.٨.٨"),
    ],
)
def test_what_a_socket_never_says_is_refused(text: str) -> None:
    assert STRICT.refusal(text, 80)


@settings(max_examples=50)
@given(st.ip_addresses(v=4).filter(lambda address: why_not_global(address) is not None))
def test_no_disguise_makes_an_ipv4_address_pass(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    disguises = [
        0xFFFF << 32 | number,
        number,
        0x64FF9B << 96 | number,
        0x2002 << 112 | number << 80 | 1,
        0x20010000 << 96 | number << 64 | 0xF7F7F7F7,
        0x20010000 << 96 | 0x08080808 << 64 | (~number & 0xFFFFFFFF),
        0x2A001450 << 96 | 0x5EFE << 32 | number,
    ]
    assert all(STRICT.refusal(str(ipaddress.IPv6Address(disguise)), 80) for disguise in disguises)


@pytest.mark.parametrize("port", [1, 22, 25, 79, 81, 6379, 65535])
def test_ports_that_are_not_named_are_refused(port: int) -> None:
    assert STRICT.refusal("93.184.216.34", port)
    assert not STRICT.may_use(port)


EXCEPTIONS = build_guard(
    [80, 443], ["10.1.0.0/16", "127.0.0.1:9000", "[fd00::/8]:8080", "fd01::1", "fd02::/16", "[fd03::/16]"]
)


@pytest.mark.parametrize(
    ("address", "port"),
    [
        *(("10.1.0.0", 80), ("10.1.255.255", 6000), ("::ffff:10.1.2.3", 80), ("127.0.0.1", 9000)),
        *(("::ffff:127.0.0.1", 9000), ("fdff::1", 8080), ("fd01::1", 1234), ("fd02::1", 1234), ("fd03::1", 1234)),
    ],
)
def test_an_exception_lets_its_network_and_port_pass(address: str, port: int) -> None:
    assert EXCEPTIONS.refusal(address, port) is None
    assert EXCEPTIONS.may_use(port)


@pytest.mark.parametrize(
    ("address", "port"),
    [
        *(("10.0.255.255", 80), ("10.2.0.0", 80), ("127.0.0.1", 80), ("127.0.0.1", 9001), ("127.0.0.2", 9000)),
        *(("64:ff9b::10.1.0.1", 80), ("2002:a01:1::1", 80), ("::1", 9000), ("fdff::1", 80), ("fd01::2", 1234)),
        ("93.184.216.34", 9000),
    ],
)
def test_an_exception_lets_nothing_else_pass(address: str, port: int) -> None:
    assert EXCEPTIONS.refusal(address, port)


@pytest.mark.parametrize(
    "text",
    [
        *("", "localhost", "10.1.0.0/33", "10.1.0.1/16", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:70000", "127.1"),
        *("[::1", "*"),
    ],
)
def test_a_malformed_exception_is_an_error(text: str) -> None:
    with pytest.raises(MalformedExceptionError):
        ExemptNetwork.parse(text)
