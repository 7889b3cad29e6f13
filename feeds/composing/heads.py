"""What is said of a page's feed as a whole, and what its entries say of where they come from. PURE."""

from dataclasses import dataclass, replace

from feeds.parsing.documents import Author, Entry, Feed, Source
from feeds.rendering.pages import is_absolute


@dataclass(frozen=True, slots=True)
class Origin:
    """A feed, as its entries name it: where it is here, what it is called here, and what it says of itself.

    `page` is the path of its page for people. Neither `id` nor `url` is the address that it is fetched from, which may
    hold secrets and may change: readers take entries for new ones when ids change. `secrets` are parts of that
    address, which `said` has not.
    """

    id: str
    url: str
    page: str
    title: str
    site: str
    said: Feed
    secrets: tuple[str, ...] = ()


def single(origin: Origin) -> Feed:
    """Of one feed: as it says of itself, under the title and the id that it has here."""
    link = origin.said.link or origin.site
    return replace(origin.said, id=origin.id, title=origin.title, link=link, self_link=origin.url)


def named(entry: Entry, own_id: str) -> Entry:
    """The entry under an id that is unique everywhere: the publisher's, else `own_id`."""
    written = entry.id or entry.link
    return replace(entry, id=written if is_absolute(written) else own_id)


def combined(title: str, page: str, words: str) -> Feed:
    """Of a combination, whose page for people is at `page`."""
    return Feed(id=page, link=page, self_link=page, title=f"{title}: {words}" if words else title)


def from_elsewhere(entry: Entry, origin: Origin) -> Entry:
    """The entry as it stands among those of other feeds: with its source, and with the authors of its feed."""
    authors = entry.authors or origin.said.authors or (Author(origin.title),)
    return replace(entry, authors=authors, source=entry.source or Source(origin.title, origin.url, origin.site))
