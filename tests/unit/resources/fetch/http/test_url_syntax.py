"""Addresses: what is sent, what is refused, and where redirects lead."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.fetching.addressing import targets
from resources.fetching.errors import FetchError
from resources.fetching.outcomes import Failure

BASE = targets.parse("http://a/b/c/d;p?q")

SENT_AS = {
    "plain": ("http://a.example/x?y=1", "http://a.example/x?y=1"),
    "no path": ("http://a.example", "http://a.example/"),
    "a query alone": ("http://a.example?x", "http://a.example/?x"),
    "an empty query": ("http://a.example/x?", "http://a.example/x?"),
    "a default port": ("https://a.example:443/", "https://a.example/"),
    "no port after the colon": ("https://a.example:/", "https://a.example/"),
    "another port": ("http://a.example:8080/", "http://a.example:8080/"),
    "capitals": ("HTTP://A.Example/X", "http://a.example/X"),
    "a trailing dot": ("http://a.example./x", "http://a.example/x"),
    "a fragment": ("http://a.example/x#y?z", "http://a.example/x"),
    "userinfo": ("http://user:secret@a.example/", "http://a.example/"),
    "userinfo with another host": ("http://good.example@a.example/", "http://a.example/"),
    "order, escapes and dots are the origin's": (
        "http://a.example/b/../%7e%2F?b=2&a=%31&&",
        "http://a.example/b/../%7e%2F?b=2&a=%31&&",
    ),
    "what signatures cover": ("http://a.example/(x)'!*|~:@?a[]=1;b", "http://a.example/(x)'!*|~:@?a[]=1;b"),
    "spaces": ("http://a.example/x y?z w", "http://a.example/x%20y?z%20w"),
    "letters beyond ASCII": ("http://a.example/ö?ü", "http://a.example/%C3%B6?%C3%BC"),
    "bytes that are no UTF-8": ("http://a.example/\udcf6", "http://a.example/%F6"),
    "backslashes in a path": ("http://a.example/a\\b", "http://a.example/a%5Cb"),
    "an international host": ("http://bücher.example/", "http://xn--bcher-kva.example/"),
    "IPv6": ("http://[2001:DB8:0::1]:8080/", "http://[2001:db8::1]:8080/"),
    "IPv4": ("http://93.184.216.34/", "http://93.184.216.34/"),
    "underscores in a host": ("http://a_b.example/", "http://a_b.example/"),
    "digits in the last label, with letters": ("http://a.1b/", "http://a.1b/"),
}
REFUSED = {
    "a file": "file:///etc/passwd",
    "gopher": "gopher://a.example/",
    "ftp": "ftp://a.example/",
    "a short IPv4 address": "http://127.1/",
    "IPv4 as one number": "http://2130706433/",
    "IPv4 in hexadecimals": "http://0x7f.1/",
    "IPv4 in one hexadecimal": "http://0x7f000001/",
    "IPv4 in octals": "http://0177.0.0.1/",
    "nothing but 0": "http://0/",
    "five numbers": "http://1.2.3.4.5/",
    "too large a number": "http://1.2.3.256/",
    "a name that ends in a number": "http://a.example.1/",
    "digits in circles": "http://①②⑦.①/",
    "a zone": "http://[fe80::1%25eth0]/",
}
MALFORMED = {
    "nothing": "",
    "no scheme": "a.example/x",
    "a path": "/x",
    "no slashes": "http:a.example",
    "no host": "http:///x",
    "a port alone": "http://:80/",
    "port 0": "http://a.example:0/",
    "a port too large": "http://a.example:65536/",
    "a port of words": "http://a.example:http/",
    "Arabic digits in a port": "http://a.example:٨٠/",
    "two colons": "http://a.example:80:80/",
    "a backslash in front of the host": "http://good.example\\@a.example/",
    "a line's end": "http://a.example/\r\nX: y",
    "a tab": "http://a.exa\tmple/",
    "a zero byte": "http://a.example/\0",
    "half a surrogate": "http://a.example/\ud800",
    "a space in the host": "http://a .example/",
    "an escape in the host": "http://a%2eexample/",
    "an empty label": "http://a..example/",
    "a long label": f"http://{'a' * 64}.example/",
    "a long host": f"http://{'a.' * 130}example/",
    "brackets without IPv6": "http://[a.example]/",
    "half a bracket": "http://[::1/",
    "more than 2,000 bytes": "http://a.example/" + "x" * 2000,
    "more than 2,000 bytes in fewer letters": "http://a.example/" + "ö" * 1000,
}


@pytest.mark.parametrize(("url", "sent"), SENT_AS.values(), ids=SENT_AS)
def test_an_address_is_sent_as_it_is_but_for_what_no_url_may_hold(url: str, sent: str) -> None:
    assert targets.parse(url).url == sent


@pytest.mark.parametrize("url", REFUSED.values(), ids=REFUSED)
def test_what_is_not_fetched_is_refused(url: str) -> None:
    with pytest.raises(FetchError) as refusal:
        targets.parse(url)
    assert refusal.value.failure is Failure.REFUSED


def test_digits_in_circles_that_make_an_address_are_that_address() -> None:
    assert targets.parse("http://①②⑦.⓪.⓪.①/").host == "127.0.0.1"


@pytest.mark.parametrize("url", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_address_will_never_work(url: str) -> None:
    with pytest.raises(FetchError) as refusal:
        targets.parse(url)
    assert refusal.value.failure is Failure.PERMANENT


# RFC 3986, 5.4; fragments are not sent, and a query of another scheme is not fetched.
REFERENCES = {
    "g": "http://a/b/c/g",
    "./g": "http://a/b/c/g",
    "g/": "http://a/b/c/g/",
    "/g": "http://a/g",
    "//g": "http://g/",
    "?y": "http://a/b/c/d;p?y",
    "g?y": "http://a/b/c/g?y",
    "#s": "http://a/b/c/d;p?q",
    "g#s": "http://a/b/c/g",
    "g?y#s": "http://a/b/c/g?y",
    ";x": "http://a/b/c/;x",
    "g;x?y#s": "http://a/b/c/g;x?y",
    ".": "http://a/b/c/",
    "./": "http://a/b/c/",
    "..": "http://a/b/",
    "../": "http://a/b/",
    "../g": "http://a/b/g",
    "../..": "http://a/",
    "../../": "http://a/",
    "../../g": "http://a/g",
    "../../../g": "http://a/g",
    "../../../../g": "http://a/g",
    "/./g": "http://a/g",
    "/../g": "http://a/g",
    "g.": "http://a/b/c/g.",
    ".g": "http://a/b/c/.g",
    "g..": "http://a/b/c/g..",
    "..g": "http://a/b/c/..g",
    "./../g": "http://a/b/g",
    "./g/.": "http://a/b/c/g/",
    "g/./h": "http://a/b/c/g/h",
    "g/../h": "http://a/b/c/h",
    "g;x=1/./y": "http://a/b/c/g;x=1/y",
    "g;x=1/../y": "http://a/b/c/y",
    "g?y/./x": "http://a/b/c/g?y/./x",
    "g?y/../x": "http://a/b/c/g?y/../x",
    "https://g/./x": "https://g/x",
    "?": "http://a/b/c/d;p?",
    " g\t": "http://a/b/c/g",
    "/ö": "http://a/%C3%B6",
    "//user:secret@g/x": "http://g/x",
}


@pytest.mark.parametrize(("reference", "expected"), REFERENCES.items())
def test_a_relative_location_is_resolved_as_rfc_3986_has_it(reference: str, expected: str) -> None:
    assert targets.resolve(BASE, reference).url == expected


@pytest.mark.parametrize("location", [None, "", " ", "http:", "http:g", "http:/g", "http://", "//", "http://[/"])
def test_a_redirect_to_nowhere_will_never_work(location: str | None) -> None:
    with pytest.raises(FetchError) as refusal:
        targets.next_target(BASE, location, allow_downgrade=False)
    assert refusal.value.failure is Failure.PERMANENT


@pytest.mark.parametrize("location", ["javascript:alert(1)", "data:,x", "file:///etc/passwd", "mailto:x", "//127.1/"])
def test_a_redirect_to_what_is_not_fetched_is_refused(location: str) -> None:
    with pytest.raises(FetchError) as refusal:
        targets.next_target(BASE, location, allow_downgrade=False)
    assert refusal.value.failure is Failure.REFUSED


def test_a_redirect_from_https_to_http_is_refused_unless_it_is_allowed() -> None:
    secure = targets.parse("https://a.example/")
    with pytest.raises(FetchError) as refusal:
        targets.next_target(secure, "http://a.example/", allow_downgrade=False)
    assert refusal.value.failure is Failure.REFUSED
    assert targets.next_target(secure, "http://a.example/", allow_downgrade=True).scheme == "http"


def test_an_address_in_a_redirect_may_be_longer_than_one_that_is_asked_for() -> None:
    assert targets.next_target(BASE, "/" + "x" * 5000, allow_downgrade=False)
    with pytest.raises(FetchError):
        targets.next_target(BASE, "/" + "x" * 8000, allow_downgrade=False)


@given(st.text(max_size=60))
def test_any_text_is_a_target_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"http://a.example/{text}"):
        try:
            target = targets.parse(url)
        except FetchError:
            continue
        assert target.url.isascii()
        assert targets.parse(target.url, max_bytes=9000) == target


@given(st.text(max_size=60))
def test_any_location_is_a_target_or_refused(text: str) -> None:
    with contextlib.suppress(FetchError):
        assert targets.resolve(BASE, text).url.isascii()
