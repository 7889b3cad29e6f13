"""Which bytes puremagic need not be asked about."""

import random

import puremagic
import pytest
from puremagic.main import magic_footer_array, magic_header_array, multi_part_dict

from resources.mirroring.contents.signatures import SIGNATURE_BYTES, may_be_known

LUCK = random.Random(1)
LONG = [row for row in magic_header_array if len(row.byte_match) >= SIGNATURE_BYTES]


def with_signature(start: int, signature: bytes) -> bytes:
    """Bytes that have it where it belongs: from their beginning, or from their end."""
    before = start if start >= 0 else 4000 + start
    return bytes(before) + signature + bytes(max(0, 4000 - before - len(signature)))


def test_whatever_has_a_signature_may_be_known() -> None:
    rows = [*LONG, *magic_footer_array]
    assert [row for row in rows if not may_be_known(with_signature(row.offset, row.byte_match))] == []


def test_a_short_signature_counts_where_a_second_one_makes_it_long() -> None:
    first = {row.byte_match: row.offset for row in magic_header_array if len(row.byte_match) < SIGNATURE_BYTES}
    parts = first.keys() & multi_part_dict.keys()
    assert parts
    assert all(may_be_known(with_signature(first[part], part)) for part in parts)


def test_signatures_elsewhere_do_not_count() -> None:
    assert not may_be_known(b"\x01\x02\x03" * 10 + b"%PDF-")


@pytest.mark.parametrize("size", [1, 2, 3, 100, 10_000])
def test_what_is_not_known_has_nothing_that_puremagic_would_find(size: int) -> None:
    samples = [LUCK.randbytes(size) for _ in range(20)]
    skipped = [sample for sample in samples if not may_be_known(sample)]
    assert [sample for sample in skipped if longest(sample) >= SIGNATURE_BYTES] == []


def longest(sample: bytes) -> int:
    """Of the signatures that puremagic finds."""
    try:
        return max(len(match.byte_match) for match in puremagic.magic_string(sample))
    except puremagic.PureError:
        return 0
