"""How much of a feed is read. PURE."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Limits:
    """What is beyond `bytes` is refused; the rest is cut off, with a note.

    feedparser, for what is not well-formed, takes a hundred times as long for an entry and is given less: so many
    characters, and so many entries from the document's start.
    """

    bytes: int = 25_000_000
    entries: int = 1_000
    loose_characters: int = 1_000_000
    loose_entries: int = 200
    content_characters: int = 500_000
    text_characters: int = 2_000
    url_characters: int = 4_000
    people: int = 20
    parts: int = 100
    """Categories, enclosures and hubs: of each."""
    part_characters: int = 200
    """Of a name, a category, the title of an enclosure."""
    future: timedelta = timedelta(days=1)
    """How far a date may be ahead, for clocks and time zones that are wrong. Later ones count as none."""


DEFAULT = Limits()
