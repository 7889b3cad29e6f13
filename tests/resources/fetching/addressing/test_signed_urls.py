"""When signed addresses stop working."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.fetching.addressing.signed_urls import expires_at

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
UNSIGNED = {
    "no query": "https://a.example/x",
    "no signature": "https://a.example/x?Expires=1795262400",
    "no signature beside se": "https://a.example/x?se=2026-11-21T12:00:00Z",
    "no oh": "https://a.example/x?oe=6B0187C0",
    "S3 without its date": "https://a.example/x?X-Amz-Expires=3600&X-Amz-Signature=ab",
    "a date of no calendar": "https://a.example/x?X-Amz-Date=20261341T110000Z&X-Amz-Expires=60&X-Amz-Signature=a",
    "words": "https://a.example/x?Expires=never&Signature=ab",
    "Arabic digits": "https://a.example/x?Expires=١٧٩٥٢٦٢٤٠٠&Signature=ab",
    "a date in Expires": "https://a.example/x?Expires=Sat,+21+Nov+2026&Signature=ab",
    "in the fragment": "https://a.example/x#?Expires=1795262400&Signature=ab",
    "too many fields": "https://a.example/x?Expires=1795262400&Signature=ab" + "&a=1" * 300,
}


@pytest.mark.parametrize("url", SIGNED.values(), ids=SIGNED)
def test_the_end_of_a_signature_is_read(url: str) -> None:
    assert expires_at(url) == NOON


@pytest.mark.parametrize("url", UNSIGNED.values(), ids=UNSIGNED)
def test_what_is_no_signature_has_no_end(url: str) -> None:
    assert expires_at(url) is None


def test_a_day_of_azures_begins_at_midnight() -> None:
    assert expires_at("https://a.example/x?se=2026-11-21&sig=ab") == NOON - 43_200


@given(st.text(max_size=80))
def test_no_query_raises(query: str) -> None:
    expires_at(f"https://a.example/x?{query}&Signature=a&sig=b&oh=c&hm=d")
