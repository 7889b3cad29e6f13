"""What the limits of an origin count for."""

import pytest

from resources.fetching.addressing import targets
from resources.fetching.addressing.scopes import Scopes, address, is_host, named, scopes, site
from resources.fetching.queues import frontier
from resources.fetching.queues.jobs import Enqueued
from retry import connections
from tests.resources.fetching.asking import claimed, enqueue, idle, job
from tests.resources.fetching.clock import Clock


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
    assert scopes(url) == Scopes(path, host, registrable)


@pytest.mark.parametrize("url", ["https:///x", "mailto:a@example.com", "/tiles/1", "http://a:99999/"])
def test_a_url_without_a_sound_host_has_none(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # urlsplit has texts of its own
        scopes(url)


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
    assert named(text) == scope
    assert named(scope) == scope


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "/", "https://", "a b", "a@b.example", "a.example?x", "a.example#x", "address:", "address:a.b"),
        *("a:99999", "a:x", "a..example", "[::1", "a\\b", "a\0b", "a" * 401, "http:///x", "ftp//x y"),
    ],
)
def test_what_is_no_scope_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # urlsplit and ipaddress have texts of their own
        named(text)


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
    assert site(scope) == found


SCOPES = ("a.example.org:1", "a.example.org/x", "address:::1", "a.example.org via proxy")


def test_only_hosts_and_domains_have_rules() -> None:
    assert [is_host(scope) for scope in SCOPES] == [True, False, False, False]


def scope_of(name: str, host: str) -> str:
    found = enqueue(job(name, host))
    assert isinstance(found, Enqueued)
    return found.scope


def test_limits_count_for_what_an_admin_says(clock: Clock) -> None:
    assert scope_of("a/1", "x.example.com") == "x.example.com"
    connections.run(frontier.set_scope("example.com", "registrable"))
    assert scope_of("a/2", "x.example.com") == "example.com"
    connections.run(frontier.set_scope("x.example.com", "path"))
    assert scope_of("a/3", "x.example.com") == "x.example.com/a"
    assert scope_of("b/3", "x.example.com") == "x.example.com/b"
    for host in ("x.example.com", "y.example.net"):
        connections.run(frontier.set_scope(host, address("192.0.2.1")))
        assert scope_of("a/4", host) == "address:192.0.2.1"
    connections.run(frontier.set_scope("x.example.com", ""))
    assert scope_of("a/5", "x.example.com") == "example.com"  # the host has no rule of its own any more


def test_a_host_can_be_an_exception_from_the_rule_of_its_domain(clock: Clock) -> None:
    connections.run(frontier.set_scope("example.com", "registrable"))
    connections.run(frontier.set_scope("x.example.com", "host"))
    assert scope_of("a", "x.example.com") == "x.example.com"
    assert scope_of("a", "y.example.com") == "example.com"


def test_hosts_of_one_scope_wait_for_each_other(clock: Clock) -> None:
    connections.run(frontier.set_scope("example.com", "registrable"))
    enqueue(job("1", "x.example.com"), job("1", "y.example.com"))
    claimed()
    assert idle() > 0.4


@pytest.mark.parametrize(
    ("url", "host"), [("https://straße.de/", "xn--strae-oqa.de"), ("https://example.org。/", "example.org")]
)
def test_a_host_is_named_as_it_is_connected_to(url: str, host: str) -> None:
    assert scopes(url).host == targets.parse(url).host == host
