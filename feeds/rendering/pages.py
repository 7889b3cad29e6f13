"""What is rendered: a page of a feed. PURE."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from feeds.parsing.documents import Entry, Feed

_ILLEGAL = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000)))
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+")


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries of a feed, in the order in which they are to stand, and where the page is.

    `feed` gives title, texts, site, picture, authors and language; `updated` is when anything on the page last
    changed, and what stands in for an entry's date where it has none. `address` is that of the page itself;
    `first_address`, `previous_address` and `next_address` are those of other pages (RFC 5005, 3), empty for none.
    `hubs` are those of this site. What the publisher says of his own hubs, clouds and pauses is not repeated.
    """

    feed: Feed
    entries: Sequence[Entry]
    address: str
    updated: datetime
    first_address: str = ""
    previous_address: str = ""
    next_address: str = ""
    hubs: tuple[str, ...] = ()

    def moment(self, entry: Entry) -> datetime:
        """When the entry was last changed."""
        return entry.updated or entry.published or self.updated

    def unique_id(self, entry: Entry) -> str:
        """An absolute IRI (RFC 4287, 4.2.6). Ids that are only unique in their own feed get its address before them."""
        written = entry.id or entry.link
        if not written:
            written = f"{self.moment(entry).isoformat()} {entry.title or entry.content[:200]}"
        elif is_absolute(written):
            return written
        feed = entry.source.url if entry.source and entry.source.url else self.feed.self_link or self.address
        return f"{feed.partition('#')[0]}#{quote(written, safe='')}"


def is_absolute(text: str) -> bool:
    """Whether an id is an IRI with a scheme, and so may be unique everywhere."""
    return _ABSOLUTE.fullmatch(text) is not None


def timestamp(moment: datetime) -> str:
    """RFC 3339, in UTC, with a fraction only where there is one."""
    return moment.isoformat().replace("+00:00", "Z")


def legal(text: str) -> str:
    """Without characters that no XML document can have."""
    return text.translate(_ILLEGAL)
