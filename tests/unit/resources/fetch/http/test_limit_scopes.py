"""Scopes of an origin's limits, egresses by name, and the egress of a domain."""

from collections import Counter

import pytest

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import JobEnqueued
from resources.fetch.http import limit_scopes, url_syntax
from resources.fetch.http.messages import MalformedEgressError
from retry import stores
from tests.support.frontier import claimed, enqueue, idle, job
from tests.support.frontier_clock import Clock


@pytest.mark.parametrize(
    ("url", "path", "host", "registrable"),
    [
        ("https://a.b.example.co.uk/x/y?z", "a.b.example.co.uk/x", "a.b.example.co.uk", "example.co.uk"),
        ("http://A.Example.COM:80", "a.example.com/", "a.example.com", "example.com"),
        ("https://a.example.com:443/", "a.example.com/", "a.example.com", "example.com"),
        ("http://a.example.com:8080/x", "a.example.com:8080/x", "a.example.com:8080", "example.com"),
        ("https://one.tumblr.com/", "one.tumblr.com/", "one.tumblr.com", "tumblr.com"),
        ("https://one.github.io/", "one.github.io/", "one.github.io", "one.github.io"),
        ("https://bücher.example.com./", "xn--bcher-kva.example.com/", "xn--bcher-kva.example.com", "example.com"),
        ("http://127.0.0.1:9000/a", "127.0.0.1:9000/a", "127.0.0.1:9000", "127.0.0.1:9000"),
        ("http://[2001:db8::1]/a", "[2001:db8::1]/a", "[2001:db8::1]", "[2001:db8::1]"),
        ("http://localhost/a", "localhost/a", "localhost", "localhost"),
    ],
)
def test_a_url_has_its_scopes(url: str, path: str, host: str, registrable: str) -> None:
    assert limit_scopes.url_scopes(url) == limit_scopes.UrlScopes(path, host, registrable)


@pytest.mark.parametrize("url", ["https:///x", "mailto:a@example.com", "/tiles/1", "http://a:99999/"])
def test_a_url_without_a_sound_host_has_none(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # urlsplit has texts of its own
        limit_scopes.url_scopes(url)


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        (" Tiles.Example.ORG. ", "tiles.example.org"),
        ("https://tiles.example.org/", "tiles.example.org"),
        ("http://tiles.example.org:80", "tiles.example.org"),
        ("tiles.example.org:8080", "tiles.example.org:8080"),
        ("tiles.example.org/a/b", "tiles.example.org/a"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("127.0.0.1:9000", "127.0.0.1:9000"),
        ("[2001:db8::1]:8080", "[2001:db8::1]:8080"),
        ("localhost", "localhost"),
        ("Address: 192.0.2.1", "address:192.0.2.1"),
        ("address:2001:DB8:0::1", "address:2001:db8::1"),
    ],
)
def test_people_may_write_a_scope_as_they_like(text: str, scope: str) -> None:
    assert limit_scopes.parse_scope(text) == scope
    assert limit_scopes.parse_scope(scope) == scope


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "/", "https://", "a b", "a@b.example", "a.example?x", "a.example#x", "address:", "address:a.b"),
        *("a:99999", "a:x", "a..example", "[::1", "a\\b", "a\0b", "a" * 401, "http:///x", "ftp//x y"),
    ],
)
def test_what_is_no_scope_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # urlsplit and ipaddress have texts of their own
        limit_scopes.parse_scope(text)


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ("a.b.example.org:8080", "example.org"),
        ("a.example.org/tiles", "example.org"),
        ("localhost", "localhost"),
        ("127.0.0.1:9000", "127.0.0.1:9000"),
        ("address:192.0.2.1", ""),
        ("a.example.org:8080 via proxy", "example.org"),
    ],
)
def test_a_scope_belongs_to_a_site(scope: str, found: str) -> None:
    assert limit_scopes.scope_domain(scope) == found


def scope_of(name: str, host: str) -> str:
    found = enqueue(job(name, host))
    assert isinstance(found, JobEnqueued)
    return found.scope


def test_limits_count_for_what_an_admin_says(clock: Clock) -> None:
    assert scope_of("a/1", "x.example.com") == "x.example.com"
    stores.run_steps(queue.set_scope_rule("example.com", "registrable"))
    assert scope_of("a/2", "x.example.com") == "example.com"
    stores.run_steps(queue.set_scope_rule("x.example.com", "path"))
    assert scope_of("a/3", "x.example.com") == "x.example.com/a"
    assert scope_of("b/3", "x.example.com") == "x.example.com/b"
    for host in ("x.example.com", "y.example.net"):
        stores.run_steps(queue.set_scope_rule(host, limit_scopes.address_scope("192.0.2.1")))
        assert scope_of("a/4", host) == "address:192.0.2.1"
    stores.run_steps(queue.set_scope_rule("x.example.com", ""))
    assert scope_of("a/5", "x.example.com") == "example.com"  # the host no longer has a rule of its own


def test_a_host_can_be_an_exception_from_the_rule_of_its_domain(clock: Clock) -> None:
    stores.run_steps(queue.set_scope_rule("example.com", "registrable"))
    stores.run_steps(queue.set_scope_rule("x.example.com", "host"))
    assert scope_of("a", "x.example.com") == "x.example.com"
    assert scope_of("a", "y.example.com") == "example.com"


def test_hosts_of_one_scope_wait_for_each_other(clock: Clock) -> None:
    stores.run_steps(queue.set_scope_rule("example.com", "registrable"))
    enqueue(job("1", "x.example.com"), job("1", "y.example.com"))
    claimed()
    assert idle() > 0.4


@pytest.mark.parametrize(
    ("url", "host"), [("https://straße.de/", "xn--strae-oqa.de"), ("https://example.org。/", "example.org")]
)
def test_a_host_is_named_as_it_is_connected_to(url: str, host: str) -> None:
    assert limit_scopes.url_scopes(url).host == url_syntax.parse_target(url).host == host


DOMAINS = [f"site-{number}.example" for number in range(2000)]


def test_addresses_and_proxies_are_read() -> None:
    found = limit_scopes.parse_egresses(["a=192.0.2.1", " b=[2001:DB8::1]", "c=http://user:p%40ss@proxy.example:3128/"])
    assert found == (
        limit_scopes.Egress("a", source_address="192.0.2.1"),
        limit_scopes.Egress("b", source_address="2001:db8::1"),
        limit_scopes.Egress("c", proxy="http://user:p%40ss@proxy.example:3128"),
    )


BAD = [
    *("192.0.2.1", "a b=192.0.2.1", f"{'a' * 33}=192.0.2.1", "a=", "a=host.example", "a=192.0.2.256"),
    *("a=2001:db8::1", "a=[192.0.2.1]", "a=https://proxy:secret@proxy.example:3128"),
    *("a=socks5://u:secret@proxy.example:1080", "a=http://u:secret@proxy.example", "a=http://u:secret@:3128"),
    *("a=http://u:secret@proxy.example:99999", "a=http://u:secret@proxy.example:3128/x"),
    *("a=http://u:secret@proxy.example:3128?x", "a=http://u:secret @proxy.example:3128"),
    "a=http://u%3Av:secret@proxy.example:3128",
]


@pytest.mark.parametrize("entries", [*([entry] for entry in BAD), ["a=192.0.2.1", "a=192.0.2.2"]], ids=str)
def test_a_malformed_egress_is_an_error_that_tells_no_password(entries: list[str]) -> None:
    with pytest.raises(MalformedEgressError) as error:
        limit_scopes.parse_egresses(entries)
    assert "secret" not in str(error.value)


def test_a_way_out_does_not_show_its_password() -> None:
    assert "secret" not in repr(limit_scopes.parse_egresses(["a=http://u:secret@proxy.example:3128"]))


def test_without_ways_out_there_is_but_the_machines_own() -> None:
    assert limit_scopes.choose_egress((), "a.example") is None
    assert limit_scopes.find_egress((), "gone", "a.example") is None


def ways(names: str) -> tuple[limit_scopes.Egress, ...]:
    return tuple(limit_scopes.Egress(name, source_address="192.0.2.1") for name in names)


def chosen(names: str) -> dict[str, str]:
    found = {domain: limit_scopes.choose_egress(ways(names), domain) for domain in DOMAINS}
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
    assert limit_scopes.find_egress(ways("ab"), "b", "a.example") == ways("b")[0]
    assert limit_scopes.find_egress(ways("a"), "b", "a.example") == ways("a")[0]
    assert limit_scopes.find_egress(ways("ab"), "", "a.example") is None
