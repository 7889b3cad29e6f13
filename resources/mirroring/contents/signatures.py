"""Whether bytes have any of puremagic's signatures, looked up by place and length, where it tries all 1,400. PURE.

Says no more than that: what they are is puremagic's to say.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain

from puremagic.main import PureMagic, magic_footer_array, magic_header_array, multi_part_dict

SIGNATURE_BYTES = 3
"""So many bytes have to be right where a signature alone says what something is."""

Places = Mapping[tuple[int, int | None], frozenset[bytes]]


def may_be_known(data: bytes) -> bool:
    """False where `puremagic` would find nothing of SIGNATURE_BYTES or more. `data` is what it is given."""
    return any(data[start:end] in signatures for (start, end), signatures in _PLACES.items())


def _places(rows: Iterable[PureMagic]) -> Places:
    """The signatures by where they stand. Short ones count where a second one elsewhere makes them long."""
    found = defaultdict[tuple[int, int | None], set[bytes]](set)
    for row in rows:
        if len(row.byte_match) >= SIGNATURE_BYTES or row.byte_match in multi_part_dict:
            found[row.offset, row.offset + len(row.byte_match) or None].add(row.byte_match)
    return {place: frozenset(signatures) for place, signatures in found.items()}


_PLACES = _places(chain(magic_header_array, magic_footer_array))
