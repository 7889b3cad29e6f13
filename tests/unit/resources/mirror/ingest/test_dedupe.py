"""What heads say of the content behind them, and how far it is believed."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from resources.fetching.outcomes import Head
from resources.mirroring.gathering import validators
from resources.mirroring.gathering.validators import Strength

MD5 = "9e107d9d372bb6826bd81d3542a419d6"
MD5_BASE64 = "nhB9nTcrtoJr2B01QqQZ1g=="
SHA256_BASE64 = "1qb4nTcrtoJr2B01QqQZ1nhB9nTcrtoJr2B01QqQZ1g="


def head(*fields: tuple[str, str], url: str = "https://example.org/a", size: int | None = 5, status: int = 200) -> Head:
    headers = CIMultiDictProxy(CIMultiDict(fields))
    return Head(status, url, headers, content_length=size, etag=headers.get("ETag"))


def strengths(*fields: tuple[str, str], size: int | None = 5) -> list[Strength]:
    return [one.strength for one in validators.read(head(*fields, size=size))]


@pytest.mark.parametrize(
    "field",
    [
        ("ETag", f'"{MD5}"'),
        ("ETag", f'"{MD5}-38"'),
        ("ETag", f'"{MD5.upper()}"'),
        ("ETag", '"nhB9nTcrtoJr2B01QqQZ1g"'),
        ("Content-MD5", MD5_BASE64),
        ("Repr-Digest", f"sha-256=:{SHA256_BASE64}:"),
        ("Digest", f"SHA-256={SHA256_BASE64}, unixsum=30637"),
        ("X-Goog-Hash", f"crc32c=n03x6A==, md5={MD5_BASE64}"),
        ("x-amz-checksum-sha256", SHA256_BASE64),
        ("x-amz-checksum-sha256", f"{SHA256_BASE64}-3"),
    ],
)
def test_digests_are_believed_by_themselves(field: tuple[str, str]) -> None:
    assert strengths(field) == [Strength.DIGEST]


@pytest.mark.parametrize(
    "field",
    [
        ("ETag", '"version-of-tuesday-or-so"'),
        ("ETag", '"AbCdEfGhIjKlMnOpQrStUv.!"'),
        ("X-Needle-Checksum", "3446049813"),
    ],
)
def test_what_nobody_knows_the_making_of_has_to_be_confirmed(field: tuple[str, str]) -> None:
    assert strengths(field) == [Strength.OPAQUE]


@pytest.mark.parametrize(
    "field",
    [
        ("ETag", f'W/"{MD5}"'),
        ("ETag", '"5f3a1b2c-4d2"'),  # nginx: time and size
        ("ETag", '"2d-432a5e4a73a80"'),  # Apache: size and time
        ("ETag", '"1a2b3c-2d-432a5e4a73a80"'),  # Apache: inode, size and time
        ("ETag", '"80f5d8a3c1d2d51:0"'),  # IIS: time and changes
        ("ETag", '"1718000000000000000"'),  # a time
        ("ETag", '"short"'),
        ("ETag", MD5),  # no ETag at all
        ("X-Goog-Hash", "crc32c=n03x6A=="),
        ("Repr-Digest", "unixsum=:30637:"),
        ("Content-MD5", "nonsense"),
        ("X-Needle-Checksum", "a b"),
    ],
)
def test_what_different_files_may_share_says_nothing(field: tuple[str, str]) -> None:
    assert strengths(field) == []


def test_etags_count_with_the_size_only() -> None:
    assert strengths(("ETag", f'"{MD5}"'), size=None) == []
    assert strengths(("Content-MD5", MD5_BASE64), size=None) == [Strength.DIGEST]


@pytest.mark.parametrize(
    "other",
    [
        head(("ETag", f'"{MD5}"'), url="https://other.example.org/a"),
        head(("ETag", f'"{MD5}"'), url="https://example.org:8443/a"),
        head(("ETag", f'"{MD5}"'), size=6),
        head(("ETag", f'"{MD5}"'), ("Content-Encoding", "gzip")),
        head(("ETag", f'"{MD5[::-1]}"')),
        head(("Repr-Digest", f"md5=:{MD5_BASE64}:")),
    ],
)
def test_it_is_the_word_of_its_origin_about_that_size_and_coding(other: Head) -> None:
    same = validators.read(head(("ETag", f'"{MD5}"'), url="https://example.org/b"))
    assert validators.read(head(("ETag", f'"{MD5}"'))) == same
    assert validators.read(other) != same
