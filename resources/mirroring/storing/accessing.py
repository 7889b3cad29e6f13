"""When somebody last asked for a blob, to the day. What nginx answers by itself counts too: its log tells.

A statement for each portion of blobs that are asked for the first time in a day, and none for those that are hot.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice

from ..canonical.urls import known_as
from ..errors import UrlError
from ..knowing import ordering
from ..knowing.models import Blob, Resource
from ..knowing.rules import current_rules

EVERY = timedelta(days=1)
PORTION = 500
REMEMBERED = 50_000

_noted: dict[str, datetime] = {}
"""What this process has noted, and when. Emptied when it has grown too large: a statement more each is all it costs."""


def note_blobs(digests: Collection[str], now: datetime) -> None:
    """Somebody asked for these blobs. Raises DatabaseError."""
    for some in _new(digests, now):
        ordering.update(Blob.objects.filter(digest__in=some, accessed_at__lt=now - EVERY), accessed_at=now)
        _remember(some, now)


def note_urls(urls: Collection[str], now: datetime) -> None:
    """Somebody asked for what these URLs gave, as their signed addresses have them. Raises DatabaseError."""
    for some in _new(urls, now):
        digests = Resource.objects.filter(url_digest__in=list(_url_digests(some))).exclude(blob_digest="")
        note_blobs(set(digests.values_list("blob_digest", flat=True)), now)
        _remember(some, now)


def forget_all_here() -> None:
    """What this process remembers: for tests."""
    _noted.clear()


def _new(names: Iterable[str], now: datetime) -> Iterator[list[str]]:
    """Those that were not noted within a day."""
    left = (name for name in names if name not in _noted or _noted[name] <= now - EVERY)
    while some := list(islice(left, PORTION)):
        yield some


def _remember(names: Iterable[str], now: datetime) -> None:
    if len(_noted) > REMEMBERED:
        _noted.clear()
    _noted.update(dict.fromkeys(names, now))


def _url_digests(urls: Iterable[str]) -> Iterator[str]:
    rules = current_rules()
    for url in urls:
        try:
            yield from known_as(url, rules)
        except UrlError:  # what was signed under other rules
            continue
