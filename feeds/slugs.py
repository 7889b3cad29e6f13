"""Slugs of feeds and categories, as they stand in the addresses of their output.

Former slugs of feeds: addresses with them still lead to the feed.
"""

import re
import unicodedata
from collections.abc import Collection
from urllib.parse import urlsplit

from .models import Feed, FormerSlug

MAX_SLUG_WORDS_CHARACTERS = 60
"""The length of a slug's words. A number or digest that makes it unique comes after them."""

_NOT_A_WORD = re.compile(r"[^a-z0-9]+")
_LAST_SLUG_NUMBER = 9


def make_slug(text: str) -> str:
    """The text in lower-case Latin letters and digits, with hyphens between; empty if it has none of them."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = _NOT_A_WORD.sub("-", plain)[: MAX_SLUG_WORDS_CHARACTERS + 1].strip("-")
    if len(words) <= MAX_SLUG_WORDS_CHARACTERS:
        return words
    return words.rpartition("-")[0] or words[:MAX_SLUG_WORDS_CHARACTERS]


def make_feed_slug(title: str, url: str) -> str:
    """Makes a slug of the title, else of the host: a path may hold secrets. Empty only for odd hosts."""
    return make_slug(title) or make_slug((urlsplit(url).hostname or "").removeprefix("www."))


def candidate_slugs(slug: str, kind: str, digest: str) -> tuple[str, ...]:
    """The slugs to try one after the other: itself, with numbers, with a digest (hexadecimal).

    `kind` takes the place of an empty slug.
    """
    short = f"{slug or kind}-{digest[:8]}"
    if not slug:
        return short, f"{kind}-{digest}"
    return slug, *(f"{slug}-{number}" for number in range(2, _LAST_SLUG_NUMBER + 1)), short, f"{slug[:30]}-{digest}"


def remember_slugs(slugs: Collection[str], feed_id: int) -> None:
    """Makes these slugs lead to the feed, wherever they led before. Call it in a transaction."""
    FormerSlug.objects.filter(slug__in=slugs).delete()
    FormerSlug.objects.bulk_create([FormerSlug(slug=slug, feed_id=feed_id) for slug in slugs])


def take_over_slugs(kept_id: int, other_id: int) -> None:
    """Makes all slugs of the other feed lead to the kept one. Call it before the other feed is deleted."""
    FormerSlug.objects.filter(feed_id=other_id).update(feed_id=kept_id)
    remember_slugs(list(Feed.objects.filter(pk=other_id).values_list("slug", flat=True)), kept_id)


def current_slug(slug: str, *, also_hidden: bool = False) -> str | None:
    """Returns the present slug of the feed that once had this one, or None. Raises DatabaseError."""
    found = FormerSlug.objects.filter(slug=slug)
    found = found if also_hidden else found.filter(feed__is_hidden=False)
    return found.values_list("feed__slug", flat=True).first()
