"""Equal URLs; signed URLs of one file are equal as long as their signatures are recognised."""

import re
from contextlib import suppress
from hashlib import sha256

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from resources.mirror.canonical.urls import canonicalise_url, strip_secrets
from resources.mirror.errors import UrlError
from tests.support.url_outcomes import NONE_LEARNT as RULES

PHOTO = "https://a.example/photo.jpg"

ONE = {
    "scheme": ("http://a.example/x", "https://a.example/x"),
    "case of scheme and host": ("HTTPS://A.Example/x", "https://a.example/x"),
    "a port that goes without saying": ("https://a.example:443/x", "https://a.example/x"),
    "http's own port": ("http://a.example:80/x", "https://a.example/x"),
    "an empty query": ("https://a.example/x?", "https://a.example/x"),
    "small hexadecimals": ("https://a.example/%c3%bc?q=%2f", "https://a.example/%C3%BC?q=%2F"),
    "escapes that none needs": ("https://a.example/%7Eme/%61?q=%2D", "https://a.example/~me/a?q=-"),
    "an escaped dot in a name": ("https://a.example/a%2Ejpg", "https://a.example/a.jpg"),
    "an address of IPv6": ("http://[2001:DB8:0::1]/x", "https://[2001:db8::1]/x"),
    "campaigns": (f"{PHOTO}?utm_source=a&utm_medium=b&utm_anything=c", PHOTO),
    "clicks": (f"{PHOTO}?fbclid=1&gclid=2&msclkid=3&yclid=4&mc_eid=5&igshid=6&_ga=7", PHOTO),
    "tracking between what counts": (f"{PHOTO}?b=2&utm_source=x&a=1", f"{PHOTO}?b=2&a=1"),
    "tracking without a value": (f"{PHOTO}?fbclid", PHOTO),
    "tracking twice": (f"{PHOTO}?gclid=1&a=1&gclid=2", f"{PHOTO}?a=1"),
    "tracking, escaped": (f"{PHOTO}?utm%5Fsource=x", PHOTO),
    "shards of WordPress": ("https://i2.wp.com/a.example/x.jpg?w=3", "https://i0.wp.com/a.example/x.jpg?w=3"),
    "shards of Gravatar": ("https://secure.gravatar.com/avatar/1", "https://0.gravatar.com/avatar/1"),
    "Facebook's nearest machine": (
        "https://scontent-fra3-1.xx.fbcdn.net/v/1_n.jpg",
        "https://scontent-ams4-1.xx.fbcdn.net/v/1_n.jpg",
    ),
}

TWO = {
    "a service at another port": ("http://a.example:8080/x", "http://a.example/x"),
    "schemes at another port": ("http://a.example:8080/x", "https://a.example:8080/x"),
    "http at the port of https": ("http://a.example:443/x", "https://a.example/x"),
    "case of the path": ("https://a.example/X", "https://a.example/x"),
    "case of a value": ("https://a.example/?a=X", "https://a.example/?a=x"),
    "order of parameters": ("https://a.example/?a=1&b=2", "https://a.example/?b=2&a=1"),
    "order of one parameter's values": ("https://a.example/?a=1&a=2", "https://a.example/?a=2&a=1"),
    "a slash at the end": ("https://a.example/x/", "https://a.example/x"),
    "two slashes": ("https://a.example//x", "https://a.example/x"),
    "an escaped slash": ("https://a.example/a%2Fb", "https://a.example/a/b"),
    "an escaped question": ("https://a.example/a%3Fb", "https://a.example/a?b"),
    "an escaped percent": ("https://a.example/a%2541", "https://a.example/a%41"),
    "segments of dots": ("https://a.example/a/../b", "https://a.example/b"),
    "escaped segments of dots": ("https://a.example/a/%2E%2E/b", "https://a.example/a/../b"),
    "a plus and a space": ("https://a.example/?q=a+b", "https://a.example/?q=a%20b"),
    "no value and an empty one": ("https://a.example/?a", "https://a.example/?a="),
    "an empty parameter": ("https://a.example/?a=1&", "https://a.example/?a=1"),
    "a percent sign that begins nothing": ("https://a.example/%%34%31", "https://a.example/%41"),
    "hosts": ("https://www.a.example/x", "https://a.example/x"),
    "names that only begin like tracking": (f"{PHOTO}?gclids=1", PHOTO),
    "names in capitals": (f"{PHOTO}?UTM_SOURCE=1", PHOTO),
    "tracking in a value": (f"{PHOTO}?a=utm_source", PHOTO),
    "tracking behind a semicolon": (f"{PHOTO}?a=1;utm_source=2", f"{PHOTO}?a=1"),
    "tracking in the path": ("https://a.example/utm_source=x", "https://a.example/"),
    "what might be a source": (f"{PHOTO}?source=1", PHOTO),
    "hosts like shards": ("https://i4.wp.com/x", "https://i0.wp.com/x"),
    "hosts that end like shards": ("https://i1.wp.com.a.example/x", "https://i0.wp.com.a.example/x"),
    "hosts below a star": ("https://scontent-a.b.xx.fbcdn.net/x", "https://scontent-c.b.xx.fbcdn.net/x"),
}

REFUSED = {
    "nothing": ("", "not an absolute URL"),
    "a file": ("file:///etc/passwd", "only http and https"),
    "no host": ("https:///x", "without a host"),
    "no possible port": ("https://a.example:99999/", "an impossible port"),
    "letters for a port": ("https://a.example:http/", "a malformed host"),
    "a line break": ("https://a.example/\nx", "control characters"),
    "a number for an address": ("https://2130706433/", "stands for an IP address"),
    "too long": ("https://a.example/" + "x" * 2000, "more than 2,000"),
    "too long in bytes": ("https://a.example/" + "ü" * 1000, "more than 2,000"),
}

hosts = st.sampled_from(["a.example", "A.example", "b.a.example", "i1.wp.com", "127.0.0.1:9000", "[::1]"])
words = st.text("abcXY09%2eE7F-._~!$'()*,;:@ü +\"|[]", max_size=8)
names = st.sampled_from(["a", "b", "utm_source", "fbclid", "Expires", "Signature", "Key-Pair-Id", "X-Amz-Date", "%61"])
pieces = st.tuples(names, words).map("=".join) | words
urls = st.builds(
    lambda scheme, host, path, query: f"{scheme}://{host}/{path}?{'&'.join(query)}",
    st.sampled_from(["http", "https", "HTTP"]),
    hosts,
    st.lists(words, max_size=4).map("/".join),
    st.lists(pieces, max_size=5),
)


def key(url: str) -> str:
    return canonicalise_url(url, RULES).digest


@pytest.mark.parametrize(("first", "second"), ONE.values(), ids=ONE)
def test_one_key(first: str, second: str) -> None:
    assert key(first) == key(second)


@pytest.mark.parametrize(("first", "second"), TWO.values(), ids=TWO)
def test_two_keys(first: str, second: str) -> None:
    assert key(first) != key(second)


@pytest.mark.parametrize(("url", "why"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_mirrored_is_refused_with_a_sentence(url: str, why: str) -> None:
    with pytest.raises(UrlError, match=rf"\AIt cannot be mirrored: .*{re.escape(why)}.*\.\Z"):
        canonicalise_url(url, RULES)


def test_the_key_is_the_digest_of_a_text_and_the_host_is_the_one_that_is_asked() -> None:
    found = canonicalise_url("http://I2.wp.com:80/x?utm_source=a", RULES)
    assert found.text == "https://i0.wp.com/x"
    assert found.digest == sha256(b"https://i0.wp.com/x").hexdigest()
    assert found.host == "i2.wp.com"


@settings(max_examples=50)
@given(urls)
@example("https://a.example/%%34%31")
@example("https://a.example/%25%34%31/.%2E/%2e?%&utm_source=%")
@example("http://a.example/?utm_source=%&%61=")
@example("http://a.example/?%75tm_source=%&%61=%&b=%2e")
def test_the_canonical_url_has_itself_for_its_key(url: str) -> None:
    found = canonicalise_url(url, RULES)
    assert canonicalise_url(found.text, RULES).text == found.text
    assert found.text.isascii()


@settings(max_examples=50)
@given(st.text(max_size=60) | urls | st.text("htps:/.@[]%#?&=-0x\\ é\n\ud800", max_size=40).map("http://".__add__))
def test_nothing_but_url_errors_are_raised(url: str) -> None:
    with suppress(UrlError):
        canonicalise_url(url, RULES)


@settings(max_examples=50)
@given(urls, st.sampled_from(["v", "id", "width", "page", "ref", "s"]), words, words)
def test_urls_that_differ_in_a_parameter_of_no_list_stay_two(url: str, name: str, first: str, second: str) -> None:
    spelt = [canonicalise_url(f"https://a.example/?{name}={value}", RULES).text for value in (first, second)]
    assume(spelt[0] != spelt[1])  # the same value in two spellings
    assume("&" not in first + second)
    assert key(f"{url}&{name}={first}") != key(f"{url}&{name}={second}")
    assert key(f"{url}&{name}={first}") != key(url)


@settings(max_examples=50)
@given(st.from_regex(r"\A/[!-~]{0,30}\Z"), st.from_regex(r"\A/[!-~]{0,30}\Z"))
def test_only_spellings_of_one_path_share_a_key(first: str, second: str) -> None:
    """The oracle resolves every escape: paths that differ then are never one."""
    assume("#" not in first + second and "?" not in first + second)
    if _resolved(first) != _resolved(second):
        assert key(f"https://a.example{first}") != key(f"https://a.example{second}")


def _resolved(path: str) -> bytes:
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes([int(found[1], 16)]), path.encode())


FILE = "https://f.example/x.mp4"
AMAZON = "X-Amz-Algorithm=A&X-Amz-Credential=K%2F20261121&X-Amz-Date=20261121T110000Z&X-Amz-Expires=3600"
SAS = "sv=2025-01-05&se=2026-11-21T12%3A00%3A00Z&sp=r"

SIGNED = {
    "S3": f"?{AMAZON}&X-Amz-SignedHeaders=host&X-Amz-Signature=ab&X-Amz-Security-Token=t",
    "S3, escaped": "?X%2DAmz-Date=20261121T110000Z&X-Amz-Expires=3600&X-Amz-Signature=ab",
    "Google": "?X-Goog-Algorithm=G&X-Goog-Date=20261121T110000Z&X-Goog-Expires=3600&X-Goog-Signature=ab",
    "S3 of version 2": "?AWSAccessKeyId=k&Expires=1795262400&Signature=a%2Bb%3D",
    "Google of version 2": "?GoogleAccessId=me%40x&Expires=1795262400&Signature=ab",
    "Alibaba": "?OSSAccessKeyId=k&Expires=1795262400&Signature=ab",
    "CloudFront": "?Expires=1795262400&Signature=ab__&Key-Pair-Id=K",
    "CloudFront with a policy": "?Policy=eyJ_&Signature=ab&Key-Pair-Id=K&Hash-Algorithm=SHA256",
    "Azure": f"?{SAS}&sr=b&st=2026-11-21T11:00:00Z&spr=https&sig=a%2Bb%3D",
    "Azure, of an account": f"?{SAS}&ss=b&srt=o&sig=ab",
    "Facebook": "?oh=00_AfDq9mJ2l3cQv1b2k&oe=6B0187C0",
    "Discord": f"?ex=6b0187c0&is=6b003dc0&hm={'ab' * 32}&",
}
UNSIGNED = {
    "no signature": "?Expires=1795262400&Key-Pair-Id=K",
    "no key": "?Expires=1795262400&Signature=ab",
    "no date": "?X-Amz-Expires=3600&X-Amz-Signature=ab",
    "a date of another form": "?X-Amz-Date=yesterday&X-Amz-Expires=3600&X-Amz-Signature=ab",
    "words for seconds": "?Expires=never&Signature=ab&Key-Pair-Id=K",
    "two dates": "?X-Amz-Date=20261121T110000Z&X-Amz-Date=20261121T110000Z&X-Amz-Expires=3600&X-Amz-Signature=ab",
    "se, sp and sv of something else": "?se=1&sp=2&sv=3&sr=b&sig=x",
    "no sr": f"?{SAS}&sig=ab",
    "oe and oh of something else": "?oh=100&oe=6B0187C0",
    "oe of another form": "?oh=00_AfDq9mJ2l3cQv1b2k&oe=late",
    "small letters": "?x-amz-date=20261121T110000Z&x-amz-expires=3600&x-amz-signature=ab",
}
SELECTING = ("response-content-disposition=attachment", "versionId=3", "snapshot=2026-01-01", "stp=s640x640", "rsct=a")


def text(url: str) -> str:
    return canonicalise_url(url, RULES).text


@pytest.mark.parametrize("query", SIGNED.values(), ids=SIGNED)
def test_a_signature_does_not_count(query: str) -> None:
    assert text(FILE + query).rstrip("?&") == FILE


@pytest.mark.parametrize("query", UNSIGNED.values(), ids=UNSIGNED)
def test_what_is_no_whole_signature_counts(query: str) -> None:
    assert text(FILE + query).count("=") == query.count("=")


@pytest.mark.parametrize("query", SIGNED.values(), ids=SIGNED)
def test_what_selects_content_beside_a_signature_counts(query: str) -> None:
    for kept in SELECTING:
        assert text(f"{FILE}{query}&{kept}").endswith(kept)
        assert text(f"{FILE}?{kept}&{query[1:]}").startswith(f"{FILE}?{kept}")


@pytest.mark.parametrize("query", SIGNED.values(), ids=SIGNED.keys())
def test_a_signature_is_not_shown_with_its_url(query: str) -> None:
    assert strip_secrets(f"{FILE}{query}") == FILE
    assert strip_secrets(f"{FILE}{query}&a=b#part") == FILE


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:password@f.example/x?a=b@c", "https://f.example/x?a=b@c"),
        ("https://f.example/x@y?a=b", "https://f.example/x@y?a=b"),
        ("https://f.example", "https://f.example"),
        ("https://f.example/?", "https://f.example/"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_user_and_password(url: str, shown: str) -> None:
    assert strip_secrets(url) == shown
