"""Addresses: the sent form, refusals, targets of redirects, and ends of signatures."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.fetch.http import url_syntax
from resources.fetch.http.messages import Failure, FetchError
from resources.fetch.http.url_syntax import find_url_expiry

BASE = url_syntax.parse_target("http://a/b/c/d;p?q")

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
REFUSED = [
    *("file:///etc/passwd", "gopher://a.example/", "ftp://a.example/", "http://127.1/", "http://2130706433/"),
    *("http://0x7f.1/", "http://0x7f000001/", "http://0177.0.0.1/", "http://0/", "http://1.2.3.4.5/"),
    *("http://1.2.3.256/", "http://a.example.1/", "http://①②⑦.①/", "http://[fe80::1%25eth0]/"),
]
MALFORMED = [
    *("", "a.example/x", "/x", "http:a.example", "http:///x", "http://:80/", "http://a.example:0/"),
    *("http://a.example:65536/", "http://a.example:http/", "http://a.example:٨٠/", "http://a.example:80:80/"),
    *("http://good.example\\@a.example/", "http://a.example/\r\nX: y", "http://a.exa\tmple/"),
    *("http://a.example/\0", "http://a.example/\ud800", "http://a .example/", "http://a%2eexample/"),
    *("http://a..example/", f"http://{'a' * 64}.example/", f"http://{'a.' * 130}example/", "http://[a.example]/"),
    *("http://[::1/", "http://a.example/" + "x" * 2000, "http://a.example/" + "ö" * 1000),
]


@pytest.mark.parametrize(("url", "sent"), SENT_AS.values(), ids=SENT_AS)
def test_an_address_is_sent_as_it_is_but_for_what_no_url_may_hold(url: str, sent: str) -> None:
    assert url_syntax.parse_target(url).url == sent


@pytest.mark.parametrize("url", REFUSED)
def test_what_is_not_fetched_is_refused(url: str) -> None:
    with pytest.raises(FetchError) as refusal:
        url_syntax.parse_target(url)
    assert refusal.value.failure is Failure.REFUSED


@pytest.mark.parametrize("url", MALFORMED)
def test_a_malformed_address_will_never_work(url: str) -> None:
    with pytest.raises(FetchError) as refusal:
        url_syntax.parse_target(url)
    assert refusal.value.failure is Failure.PERMANENT


# RFC 3986, 5.4; fragments are not sent, and a query of another scheme is not fetched.
REFERENCES = [
    *(("g", "b/c/g"), ("./g", "b/c/g"), ("g/", "b/c/g/"), ("/g", "g"), ("?y", "b/c/d;p?y"), ("g?y", "b/c/g?y")),
    *(("#s", "b/c/d;p?q"), ("g#s", "b/c/g"), ("g?y#s", "b/c/g?y"), (";x", "b/c/;x"), ("g;x?y#s", "b/c/g;x?y")),
    *((".", "b/c/"), ("./", "b/c/"), ("..", "b/"), ("../", "b/"), ("../g", "b/g"), ("../..", ""), ("../../", "")),
    *(("../../g", "g"), ("../../../g", "g"), ("../../../../g", "g"), ("/./g", "g"), ("/../g", "g")),
    *(("g.", "b/c/g."), (".g", "b/c/.g"), ("g..", "b/c/g.."), ("..g", "b/c/..g"), ("./../g", "b/g")),
    *(("./g/.", "b/c/g/"), ("g/./h", "b/c/g/h"), ("g/../h", "b/c/h"), ("g;x=1/./y", "b/c/g;x=1/y")),
    *(("g;x=1/../y", "b/c/y"), ("g?y/./x", "b/c/g?y/./x"), ("g?y/../x", "b/c/g?y/../x"), ("?", "b/c/d;p?")),
    *((" g\t", "b/c/g"), ("/ö", "%C3%B6")),
]
ELSEWHERE = [("//g", "http://g/"), ("https://g/./x", "https://g/x"), ("//user:secret@g/x", "http://g/x")]


@pytest.mark.parametrize(
    ("reference", "expected"), [*((reference, f"http://a/{path}") for reference, path in REFERENCES), *ELSEWHERE]
)
def test_a_relative_location_is_resolved_as_rfc_3986_has_it(reference: str, expected: str) -> None:
    assert url_syntax.resolve_reference(BASE, reference).url == expected


@pytest.mark.parametrize("location", [None, "", " ", "http:", "http:g", "http:/g", "http://", "//", "http://[/"])
def test_a_redirect_to_nowhere_will_never_work(location: str | None) -> None:
    with pytest.raises(FetchError) as refusal:
        url_syntax.next_redirect_target(BASE, location, allow_downgrade=False)
    assert refusal.value.failure is Failure.PERMANENT


@pytest.mark.parametrize("location", ["javascript:alert(1)", "data:,x", "file:///etc/passwd", "mailto:x", "//127.1/"])
def test_a_redirect_to_what_is_not_fetched_is_refused(location: str) -> None:
    with pytest.raises(FetchError) as refusal:
        url_syntax.next_redirect_target(BASE, location, allow_downgrade=False)
    assert refusal.value.failure is Failure.REFUSED


def test_an_address_in_a_redirect_may_be_longer_than_one_that_is_asked_for() -> None:
    assert url_syntax.next_redirect_target(BASE, "/" + "x" * 5000, allow_downgrade=False)
    with pytest.raises(FetchError):
        url_syntax.next_redirect_target(BASE, "/" + "x" * 8000, allow_downgrade=False)


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_any_text_is_a_target_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"http://a.example/{text}"):
        try:
            target = url_syntax.parse_target(url)
        except FetchError:
            continue
        assert target.url.isascii()
        assert url_syntax.parse_target(target.url, max_bytes=9000) == target


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_any_location_is_a_target_or_refused(text: str) -> None:
    with contextlib.suppress(FetchError):
        assert url_syntax.resolve_reference(BASE, text).url.isascii()


NOON = 1_795_262_400.0  # 21 November 2026, 12:00 UTC

SIGNED = {
    "S3": "https://b.example/x?X-Amz-Date=20261121T110000Z&X-Amz-Expires=3600&X-Amz-Signature=ab",
    "S3, encoded": "https://b.example/x?X%2DAmz-Date=20261121T110000Z&X-Amz-Expires=3600&X-Amz-Signature=ab",
    "Google": "https://s.example/x?X-Goog-Date=20261121T110000Z&X-Goog-Expires=3600&X-Goog-Signature=ab",
    "S3 of version 2": "https://b.example/x?AWSAccessKeyId=k&Expires=1795262400&Signature=ab",
    "CloudFront": "https://d.example/x?Expires=1795262400&Signature=ab&Key-Pair-Id=k",
    "Azure": "https://a.example/x?se=2026-11-21T12%3A00%3A00Z&sig=ab",
    "Azure, to the minute": "https://a.example/x?se=2026-11-21T12:00Z&sig=ab",
    "Azure, to less than a second": "https://a.example/x?se=2026-11-21T12:00:00.0000000Z&sig=ab",
    "Facebook": "https://f.example/x?oh=ab&oe=6B0187C0",
    "Discord": "https://c.example/x?ex=6b0187c0&is=6b003dc0&hm=ab",
    "the soonest of two": "https://x.example/x?Expires=1795262400&Signature=ab&se=2027-01-01&sig=cd",
}
UNSIGNED = [
    *("https://a.example/x", "https://a.example/x?Expires=1795262400"),
    *("https://a.example/x?se=2026-11-21T12:00:00Z", "https://a.example/x?oe=6B0187C0"),
    "https://a.example/x?X-Amz-Expires=3600&X-Amz-Signature=ab",
    "https://a.example/x?X-Amz-Date=20261341T110000Z&X-Amz-Expires=60&X-Amz-Signature=a",
    *("https://a.example/x?Expires=never&Signature=ab", "https://a.example/x?Expires=١٧٩٥٢٦٢٤٠٠&Signature=ab"),
    "https://a.example/x?Expires=Sat,+21+Nov+2026&Signature=ab",
    "https://a.example/x#?Expires=1795262400&Signature=ab",
    "https://a.example/x?Expires=1795262400&Signature=ab" + "&a=1" * 300,
]


@pytest.mark.parametrize("url", SIGNED.values(), ids=SIGNED)
def test_the_end_of_a_signature_is_read(url: str) -> None:
    assert find_url_expiry(url) == NOON


@pytest.mark.parametrize("url", UNSIGNED)
def test_what_is_no_signature_has_no_end(url: str) -> None:
    assert find_url_expiry(url) is None


def test_a_day_of_azures_begins_at_midnight() -> None:
    assert find_url_expiry("https://a.example/x?se=2026-11-21&sig=ab") == NOON - 43_200


@settings(max_examples=50)
@given(st.text(max_size=80))
def test_no_query_raises(query: str) -> None:
    find_url_expiry(f"https://a.example/x?{query}&Signature=a&sig=b&oh=c&hm=d")
