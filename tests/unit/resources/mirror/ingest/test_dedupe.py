"""Decisions on a URL from the knowledge of its host: validators in heads, and their credibility."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from resources.fetch.http.messages import Failure, FetchFailed, Head, OutcomeTiming
from resources.mirror.ingest import dedupe
from resources.mirror.ingest.dedupe import HeadValidator, LaneName, ValidatorStrength, ValidatorTrust

DIGEST, OPAQUE = HeadValidator("d", ValidatorStrength.DIGEST), HeadValidator("o", ValidatorStrength.OPAQUE)


@pytest.mark.parametrize(
    ("trust", "keys"),
    [
        (ValidatorTrust(), ["d"]),
        (ValidatorTrust(confirmed=100), ["d"]),
        (ValidatorTrust(confirmed_opaque=dedupe.MIN_CONFIRMED_OPAQUE), ["d", "o"]),
        (ValidatorTrust(100, 100, lies=1), []),
    ],
)
def test_opaque_validators_count_once_confirmed_and_none_of_a_liar(trust: ValidatorTrust, keys: list[str]) -> None:
    assert dedupe.select_trusted_keys([DIGEST, OPAQUE], trust) == keys


@pytest.mark.parametrize(
    ("known", "digest"), [({}, None), ({"d": "x"}, "x"), ({"d": "x", "o": "x"}, "x"), ({"d": "x", "o": "y"}, None)]
)
def test_a_content_is_known_when_all_that_is_known_agrees(known: dict[str, str], digest: str | None) -> None:
    assert dedupe.find_agreed_digest(["d", "o"], known) == digest


def test_the_first_of_a_host_are_downloaded_and_then_one_in_so_many() -> None:
    def sampled(confirmed: int, luck: float) -> bool:
        return dedupe.is_sampled(ValidatorTrust(confirmed), first=3, every=20, luck=luck)

    assert [sampled(confirmed, 0.99) for confirmed in range(5)] == [True, True, True, False, False]
    assert [sampled(3, luck) for luck in (0, 0.049, 0.05)] == [True, True, False]
    assert dedupe.is_sampled(ValidatorTrust(100), first=0, every=1, luck=0.999)


@pytest.mark.parametrize("lane", ["fast", "large"])
def test_the_rule_for_heads_is_the_cheaper_side_of_its_cost_model(lane: LaneName) -> None:
    for share in (number / 50 for number in range(51)):
        head_first, at_once = 1 + (1 - share), 1 + share * dedupe.ABANDONED_BODY_COST[lane]
        assert dedupe.asks_head_first(1000, 1000 * share, lane) is (head_first < at_once)
    assert not dedupe.asks_head_first(10, 10, lane)  # too few to know


@pytest.mark.parametrize(
    ("failure", "attempts", "final"),
    [
        (Failure.PERMANENT, 1, True),
        (Failure.REFUSED, 1, True),
        (Failure.TOO_BIG, 1, True),
        (Failure.EXPIRED, 1, True),
        (Failure.TRANSIENT, 2, False),
        (Failure.TRANSIENT, 3, True),
        (Failure.THROTTLED, 1, False),
        (Failure.OURS, 3, True),
    ],
)
def test_what_may_be_there_later_is_tried_so_often(failure: Failure, attempts: int, final: bool) -> None:
    assert dedupe.is_final_failure(FetchFailed(failure, "", OutcomeTiming(0, 0)), attempts, 3) is final


@pytest.mark.parametrize(
    ("status", "is_signed", "failure"),
    [
        (403, True, Failure.EXPIRED),
        (401, True, Failure.EXPIRED),
        (403, False, Failure.PERMANENT),
        (404, True, Failure.PERMANENT),
    ],
)
def test_a_signature_that_is_not_taken_is_as_good_as_expired(status: int, is_signed: bool, failure: Failure) -> None:
    failed = FetchFailed(Failure.PERMANENT, "", OutcomeTiming(0, 0), status)
    assert dedupe.choose_recorded_failure(failed, is_signed=is_signed) is failure


MD5 = "9e107d9d372bb6826bd81d3542a419d6"
MD5_BASE64 = "nhB9nTcrtoJr2B01QqQZ1g=="
SHA256_BASE64 = "1qb4nTcrtoJr2B01QqQZ1nhB9nTcrtoJr2B01QqQZ1g="


def head(*fields: tuple[str, str], url: str = "https://example.org/a", size: int | None = 5, status: int = 200) -> Head:
    headers = CIMultiDictProxy(CIMultiDict(fields))
    return Head(status, url, headers, content_length=size, etag=headers.get("ETag"))


def strengths(*fields: tuple[str, str], size: int | None = 5) -> list[ValidatorStrength]:
    return [one.strength for one in dedupe.read_validators(head(*fields, size=size))]


DIGESTS = [
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
]
OPAQUES = [
    ("ETag", '"version-of-tuesday-or-so"'),
    ("ETag", '"AbCdEfGhIjKlMnOpQrStUv.!"'),
    ("X-Needle-Checksum", "3446049813"),
]
SHARED = [
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
]
"""What different files may have as well."""


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        *((field, [ValidatorStrength.DIGEST]) for field in DIGESTS),
        *((field, [ValidatorStrength.OPAQUE]) for field in OPAQUES),
        *((field, []) for field in SHARED),
    ],
)
def test_digests_are_believed_and_others_confirmed(field: tuple[str, str], expected: list[ValidatorStrength]) -> None:
    assert strengths(field) == expected


def test_etags_count_with_the_size_only() -> None:
    assert strengths(("ETag", f'"{MD5}"'), size=None) == []
    assert strengths(("Content-MD5", MD5_BASE64), size=None) == [ValidatorStrength.DIGEST]


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
    same = dedupe.read_validators(head(("ETag", f'"{MD5}"'), url="https://example.org/b"))
    assert dedupe.read_validators(head(("ETag", f'"{MD5}"'))) == same
    assert dedupe.read_validators(other) != same
