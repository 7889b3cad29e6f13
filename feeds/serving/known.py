"""What a process of main knows of feeds and categories: it reads a row twice a second at the most.

While the database is away it goes by what it knew.
"""

import time
from dataclasses import dataclass

from django.conf import settings
from django.db import Error as DatabaseError

from feeds.composing import subjects
from feeds.composing.asking import Asked
from feeds.composing.errors import UnknownError
from feeds.models import Category, Feed

REMEMBERED = 10_000
"""Rows. Emptied when there are more: a query more each is all it costs."""


@dataclass(frozen=True, slots=True)
class _Known:
    subject: Feed | Category
    read_at: float


_known: dict[tuple[bool, str], _Known] = {}


def subject(asked: Asked) -> Feed | Category:
    """What the page is of, as it was a moment ago. Raises UnknownError, and DatabaseError where nothing is known."""
    key = (asked.is_combined, asked.slug)
    held = _known.get(key)
    if held is not None and time.monotonic() - held.read_at < settings.FEEDS_KNOWN_SECONDS:
        return held.subject
    try:
        found = subjects.find_standing(asked)
    except DatabaseError:
        if held is None:
            raise
        return held.subject
    except UnknownError:
        _known.pop(key, None)
        raise
    if len(_known) >= REMEMBERED:
        _known.clear()
    _known[key] = _Known(found, time.monotonic())
    return found


def forget_all_here() -> None:
    """What this process remembers: for tests."""
    _known.clear()
