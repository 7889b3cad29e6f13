"""Link header fields (RFC 8288): the addresses of a relation. PURE."""

import re
from collections.abc import Iterable

from feeds.parsing import addresses

MOST_CHARACTERS = 2000
"""Of an address."""
MOST_FIELD_CHARACTERS = 20_000
"""Of a field's value: what follows is not read."""
MOST_ADDRESSES = 10

_LINK = re.compile(r'<([^<>]*)>((?:[^"<,]|"(?:[^"\\]|\\.)*+")*+)')
_PARAMETER = re.compile(r';\s*([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*+)"|([^\s;,"]+))')


def addresses_of(relation: str, values: Iterable[str], base: str) -> tuple[str, ...]:
    """The absolute addresses that the values of an answer's Link fields give for a relation, each once, in their order.

    `base` is where the answer came from. Links of something else (`anchor`) do not count.
    """
    found: dict[str, None] = {}
    for value in values:
        for target, parameters in _LINK.findall(value[:MOST_FIELD_CHARACTERS]):
            address = addresses.absolute(base, target, MOST_CHARACTERS)
            if address and relation in _relations(parameters):
                found[address] = None
    return tuple(found)[:MOST_ADDRESSES]


def _relations(parameters: str) -> list[str]:
    """The first `rel` counts alone (RFC 8288, 3.3)."""
    named: dict[str, str] = {}
    for name, quoted, bare in _PARAMETER.findall(parameters):
        named.setdefault(name.lower(), quoted or bare)
    return [] if "anchor" in named else named.get("rel", "").lower().split()
