"""Addresses of mirrored files in the count of traffic."""

import pytest

from resources.mirror.file_paths import classify_address
from resources.traffic.asked import Asked

DIGEST = "ab" * 32


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (f"/resources/{DIGEST}", Asked("blob", noted=DIGEST)),
        (
            f"/resources/{DIGEST}/100x90.webp",
            Asked("thumbnail", content_key=f"thumbnail:{DIGEST}:100x90:contain:webp", noted=DIGEST),
        ),
        (f"/resources/{DIGEST}/100x90.gif", Asked("thumbnail", noted=DIGEST)),
        ("/resources/sig/aHR0cDovL2EuZXhhbXBsZS8", Asked("resource", noted="http://a.example/")),
        ("/resources/sig/!", None),
        (f"/resources/{DIGEST.upper()}", None),
        ("/resources/", None),
        (f"/resources/{DIGEST}/a/b", None),
    ],
)
def test_an_address_is_counted_by_its_kind(address: str, expected: Asked | None) -> None:
    assert classify_address(address) == expected
