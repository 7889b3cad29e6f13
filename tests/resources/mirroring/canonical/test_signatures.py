"""Signed URLs of one file are one, as long as it is plain that they are signed."""

import pytest

from resources.mirroring.canonical.rules import built_in
from resources.mirroring.canonical.signatures import without_secrets
from resources.mirroring.canonical.urls import canonical

RULES = built_in()
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
    return canonical(url, RULES).text


@pytest.mark.parametrize("query", SIGNED.values(), ids=SIGNED)
def test_a_signature_does_not_count(query: str) -> None:
    assert text(FILE + query).rstrip("?&") == FILE


@pytest.mark.parametrize("query", UNSIGNED.values(), ids=UNSIGNED)
def test_what_is_no_whole_signature_counts(query: str) -> None:
    assert text(FILE + query).count("=") == query.count("=")


@pytest.mark.parametrize("kept", SELECTING)
@pytest.mark.parametrize("query", SIGNED.values(), ids=SIGNED)
def test_what_selects_content_beside_a_signature_counts(query: str, kept: str) -> None:
    assert text(f"{FILE}{query}&{kept}").endswith(kept)
    assert text(f"{FILE}?{kept}&{query[1:]}").startswith(f"{FILE}?{kept}")


def test_two_signatures_of_one_file_are_one() -> None:
    first = f"{FILE}?response-content-type=a&{AMAZON}&X-Amz-Signature=ab"
    second = f"{FILE}?response-content-type=a&{AMAZON.replace('T11', 'T12')}&X-Amz-Signature=cd"
    assert text(first) == text(second) == f"{FILE}?response-content-type=a"


@pytest.mark.parametrize("query", SIGNED.values(), ids=SIGNED.keys())
def test_a_signature_is_not_shown_with_its_url(query: str) -> None:
    assert without_secrets(f"{FILE}{query}") == FILE
    assert without_secrets(f"{FILE}{query}&a=b#part") == FILE


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
    assert without_secrets(url) == shown
