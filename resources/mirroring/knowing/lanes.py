"""Which lane a URL waits in: by its name, else by the size of what its host has sent before."""

import time
from collections.abc import Iterable
from threading import Lock
from urllib.parse import urlsplit

from resources.fetching.addressing import egress
from resources.fetching.addressing.scopes import scopes, via
from resources.fetching.keeping.models import FetchTiming
from resources.fetching.queues import tuning

from .models import Lane

_SUFFIXES = """
    3gp 7z apk avi bin bz2 deb dmg exe flac flv gz img iso m2ts m4v mkv mov mp4 mpeg mpg mts ogv rar rpm tar tgz ts vob
    wav webm wmv xz zip zst
"""
LARGE_SUFFIXES = frozenset(_SUFFIXES.split())
LARGE_BYTES = 5_000_000
"""A file of this size is a large one, and a host whose last files were of this size on average has large ones."""
LAST_FILES = 20
MOST_HOSTS_AT_ONCE = 20
"""Hosts that are looked up for one report. The fetchers see soon enough which of the others are slow."""
KNOWN_SECONDS = 300.0
MOST_KNOWN = 10_000

_known: dict[str, tuple[float, bool]] = {}
_lock = Lock()


def suffix_of(url: str) -> str:
    """The ending of the file's name in small letters; empty where it has none."""
    name = urlsplit(url).path.rpartition("/")[2].lower()
    return name.rpartition(".")[2] if "." in name else ""


def lane_of_contents(media_type: str, size: int) -> Lane:
    """The lane in which a URL that gave this had better waited."""
    return Lane.LARGE if size >= LARGE_BYTES or media_type.startswith("video/") else Lane.FAST


def lanes_of(urls: Iterable[tuple[str, str]]) -> list[Lane]:
    """Those of URLs, each with its host, in their order. Raises DatabaseError."""
    asked, left = dict[str, bool](), MOST_HOSTS_AT_ONCE
    lanes = []
    for url, host in urls:
        suffix = suffix_of(url)
        if not suffix and host not in asked and left:
            asked[host] = _has_large_files(_scope_of(url))
            left -= 1
        lanes.append(Lane.LARGE if suffix in LARGE_SUFFIXES or (not suffix and asked.get(host)) else Lane.FAST)
    return lanes


def forget_all_here() -> None:
    """What this process remembers: for tests."""
    with _lock:
        _known.clear()


def _scope_of(url: str) -> str:
    """The name under which its host's files are on record: that of the host, by its way out."""
    found = scopes(url)
    chosen = egress.choose(tuning.egresses(), found.registrable)
    return via(found.host, chosen.name if chosen else "")


def _has_large_files(scope: str) -> bool:
    now = time.monotonic()
    until, found = _known.get(scope, (0.0, False))
    if until < now:
        last = FetchTiming.objects.filter(scope=scope, kind=FetchTiming.Kind.FILE, outcome=FetchTiming.FETCHED)
        sizes = list(last.order_by("-started_at").values_list("wire_bytes", flat=True)[:LAST_FILES])
        found = bool(sizes) and sum(sizes) / len(sizes) >= LARGE_BYTES
        with _lock:
            if len(_known) >= MOST_KNOWN:
                _known.clear()
            _known[scope] = (now + KNOWN_SECONDS, found)
    return found
