"""Persons, in the ways RSS writes them. PURE."""

import re

from .documents import Author

_MAX_CHARACTERS = 1_000
_ADDRESS = re.compile(r"[^\s<>()@,;:\"]{1,100}@[^\s<>()@,;:\"]{1,200}")
_NAMED = re.compile(
    r"""["']?(?P<name>[^<>()"]*?)["']?\s?[<(]\s?(?:mailto:)?(?P<email>[^<>()\s@]+@[^<>()\s@]+)\s?[>)]"""
)


def parse(text: str) -> Author:
    """The person of `a@b.org (Name)`, `Name <a@b.org>`, `a@b.org` or `Name`."""
    text = " ".join(text[:_MAX_CHARACTERS].split())
    if named := _NAMED.fullmatch(text):
        return Author(named["name"].strip(), named["email"])
    found = _ADDRESS.match(text)
    if found is None:
        return Author(text)
    rest = text[found.end() :].strip()
    if not rest:
        return Author("", found[0])
    if rest[0] == "(" and rest[-1] == ")":
        return Author(rest[1:-1].strip(), found[0])
    return Author(text)
