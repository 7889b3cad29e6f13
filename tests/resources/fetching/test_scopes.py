"""What the limits of an origin count for."""

import pytest

from resources.fetching import frontier
from resources.fetching.jobs import Enqueued
from resources.fetching.scopes import Scopes, address, scopes
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
    connections.run(frontier.set_scope("x.example.com", "host"))
    assert scope_of("a/5", "x.example.com") == "example.com"  # the host has no rule of its own any more


def test_hosts_of_one_scope_wait_for_each_other(clock: Clock) -> None:
    connections.run(frontier.set_scope("example.com", "registrable"))
    enqueue(job("1", "x.example.com"), job("1", "y.example.com"))
    claimed()
    assert idle() > 0.4
