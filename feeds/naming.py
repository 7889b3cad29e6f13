"""Slugs that feeds and categories can have: what stands in the addresses of their output. PURE."""

import re
import unicodedata
from urllib.parse import urlsplit

MOST_CHARACTERS = 60
"""Of a slug's words. What tells it from others comes after them."""

_NO_WORD = re.compile(r"[^a-z0-9]+")
_LAST_NUMBER = 9


def slug_of(text: str) -> str:
    """The text in lower-case Latin letters and digits, with hyphens between; empty if it has none of them."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = _NO_WORD.sub("-", plain)[: MOST_CHARACTERS + 1].strip("-")
    if len(words) <= MOST_CHARACTERS:
        return words
    return words.rpartition("-")[0] or words[:MOST_CHARACTERS]


def feed_slug(title: str, url: str) -> str:
    """By its title; where that gives nothing, by its host: a path may hold secrets. Empty only for odd hosts."""
    return slug_of(title) or slug_of((urlsplit(url).hostname or "").removeprefix("www."))


def candidates(slug: str, kind: str, digest: str) -> tuple[str, ...]:
    """The slugs to try one after the other: itself, with numbers, with a digest, which is hexadecimal.

    `kind` stands where there is no slug.
    """
    short = f"{slug or kind}-{digest[:8]}"
    if not slug:
        return short, f"{kind}-{digest}"
    return slug, *(f"{slug}-{number}" for number in range(2, _LAST_NUMBER + 1)), short, f"{slug[:30]}-{digest}"
