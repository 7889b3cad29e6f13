"""Link header fields (RFC 8288): the addresses of relations. PURE."""

import re
from collections.abc import Collection, Iterable, Iterator

from feeds.parsing import addresses

MOST_CHARACTERS = 2000
"""Of an address."""
MOST_READ_CHARACTERS = 8192
"""Of all fields' values together: what follows is not read."""
MOST_ADDRESSES = 10
"""Of a relation."""

# What is matched is never tried otherwise (`++`, `*+`). Quotes that do not end go to the end of the field.
_LINK = re.compile(r'<([^<>]*+)>((?:[^"<,]|"(?:[^"\\]|\\.)*+")*+)(?:".*+)?+', re.DOTALL)
_PARAMETER = re.compile(r';\s*+([\w-]++)\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^\s;,"]++))', re.DOTALL)


def addresses_of(relations: Collection[str], values: Iterable[str], base: str) -> dict[str, tuple[str, ...]]:
    """The absolute addresses that the values of an answer's Link fields give for relations, each once, in their order.

    `base` is where the answer came from. Links of something else (`anchor`) do not count.
    """
    found: dict[str, dict[str, None]] = {relation: {} for relation in relations}
    for target, parameters in _links(values):
        wanted = found.keys() & _relations(parameters)
        address = addresses.absolute(base, target, MOST_CHARACTERS) if wanted else ""
        for relation in wanted if address else ():
            found[relation][address] = None
    return {relation: tuple(addressed)[:MOST_ADDRESSES] for relation, addressed in found.items()}


def _links(values: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Targets, as they are written, with their parameters."""
    left = MOST_READ_CHARACTERS
    for value in values:
        yield from _LINK.findall(value[:left])
        left = max(left - len(value), 0)


def _relations(parameters: str) -> list[str]:
    """The first `rel` counts alone (RFC 8288, 3.3)."""
    named: dict[str, str] = {}
    for name, quoted, bare in _PARAMETER.findall(parameters):
        named.setdefault(name.lower(), quoted or bare)
    return [] if "anchor" in named else named.get("rel", "").lower().split()
