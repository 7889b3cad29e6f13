"""What is said of a page's feed as a whole, and what its entries say of where they come from. PURE."""

from dataclasses import dataclass, replace

from feeds.parsing.documents import Author, Entry, Feed, Source


@dataclass(frozen=True, slots=True)
class Origin:
    """A feed, as its entries name it: where it is, what it is called here, and what it says of itself."""

    url: str
    title: str
    site: str
    said: Feed


def single(origin: Origin) -> Feed:
    """Of one feed: as it says of itself, under the title that it has here."""
    return replace(origin.said, title=origin.title, link=origin.said.link or origin.site, self_link=origin.url)


def combined(title: str, page: str, words: str) -> Feed:
    """Of a combination, whose page for people is at `page`."""
    return Feed(id=page, link=page, self_link=page, title=f"{title}: {words}" if words else title)


def from_elsewhere(entry: Entry, origin: Origin) -> Entry:
    """The entry as it stands among those of other feeds: with its source, and with the authors of its feed."""
    authors = entry.authors or origin.said.authors or (Author(origin.title),)
    return replace(entry, authors=authors, source=entry.source or Source(origin.title, origin.url, origin.site))
