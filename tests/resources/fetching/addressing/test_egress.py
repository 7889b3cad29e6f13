"""Ways out by name, and which of them a domain is asked by."""

from collections import Counter

import pytest

from resources.fetching.addressing import egress
from resources.fetching.addressing.egress import Egress
from resources.fetching.errors import MalformedEgressError

DOMAINS = [f"site-{number}.example" for number in range(2000)]


def test_addresses_and_proxies_are_read() -> None:
    found = egress.parse(["a=192.0.2.1", " b=[2001:DB8::1]", "c=http://user:p%40ss@proxy.example:3128/"])
    assert found == (
        Egress("a", source_address="192.0.2.1"),
        Egress("b", source_address="2001:db8::1"),
        Egress("c", proxy="http://user:p%40ss@proxy.example:3128"),
    )


BAD = {
    "no name": ["192.0.2.1"],
    "a name with a space": ["a b=192.0.2.1"],
    "a long name": [f"{'a' * 33}=192.0.2.1"],
    "nothing behind it": ["a="],
    "a name for an address": ["a=host.example"],
    "an impossible address": ["a=192.0.2.256"],
    "an IPv6 address without brackets": ["a=2001:db8::1"],
    "an IPv4 address in brackets": ["a=[192.0.2.1]"],
    "the same name twice": ["a=192.0.2.1", "a=192.0.2.2"],
    "a proxy by TLS": ["a=https://proxy:secret@proxy.example:3128"],
    "SOCKS": ["a=socks5://u:secret@proxy.example:1080"],
    "a proxy without a port": ["a=http://u:secret@proxy.example"],
    "a proxy without a host": ["a=http://u:secret@:3128"],
    "a proxy with an impossible port": ["a=http://u:secret@proxy.example:99999"],
    "a proxy with a path": ["a=http://u:secret@proxy.example:3128/x"],
    "a proxy with a query": ["a=http://u:secret@proxy.example:3128?x"],
    "a proxy with a space": ["a=http://u:secret @proxy.example:3128"],
    "a user with a colon": ["a=http://u%3Av:secret@proxy.example:3128"],
}


@pytest.mark.parametrize("entries", BAD.values(), ids=BAD)
def test_what_is_no_way_out_is_an_error_that_tells_no_password(entries: list[str]) -> None:
    with pytest.raises(MalformedEgressError) as error:
        egress.parse(entries)
    assert "secret" not in str(error.value)


def test_a_way_out_does_not_show_its_password() -> None:
    assert "secret" not in repr(egress.parse(["a=http://u:secret@proxy.example:3128"]))


def test_without_ways_out_there_is_but_the_machines_own() -> None:
    assert egress.choose((), "a.example") is None
    assert egress.of_name((), "gone", "a.example") is None


def ways(names: str) -> tuple[Egress, ...]:
    return tuple(Egress(name, source_address="192.0.2.1") for name in names)


def chosen(names: str) -> dict[str, str]:
    found = {domain: egress.choose(ways(names), domain) for domain in DOMAINS}
    return {domain: way.name for domain, way in found.items() if way}


def test_domains_are_spread_evenly_and_whatever_the_order() -> None:
    counts = Counter(chosen("abcd").values())
    assert all(400 < counts[name] < 600 for name in "abcd")
    assert chosen("abcd") == chosen("dcba")


def test_an_added_way_out_moves_only_its_share() -> None:
    before, after = chosen("abc"), chosen("abcd")
    moved = {after[domain] for domain in DOMAINS if before[domain] != after[domain]}
    assert moved == {"d"}


def test_a_way_out_that_is_gone_is_replaced() -> None:
    assert egress.of_name(ways("ab"), "b", "a.example") == ways("b")[0]
    assert egress.of_name(ways("a"), "b", "a.example") == ways("a")[0]
    assert egress.of_name(ways("ab"), "", "a.example") is None
