"""The page of a feed that is rendered, its head and sources, and the elements that Atom and RSS share."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from urllib.parse import quote

import idna
from lxml import etree

from ..parser import charset
from ..parser.documents import Author, Enclosure, EntrySource, FeedHead, ParsedEntry

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+")


@dataclass(frozen=True, slots=True)
class Mention:
    """An entry of another feed that is the same story: the slug and the title of its feed, and its link.

    An entry without a link has the page of its feed.
    """

    feed: str
    title: str
    link: str


@dataclass(frozen=True, slots=True)
class OutputPage:
    """Some entries of a feed, in their order on the page, and the page's addresses.

    `feed` gives title, texts, site, picture, authors and language; `updated` is the time of the last change on the
    page, and the date of entries without one. `address` is that of the page itself; `first_address`, `previous_address`
    and `next_address` are those of other pages (RFC 5005, 3), empty for none. `hubs` are those of this site, and
    `cloud` is the URL of its rssCloud, empty for none. The publisher's own hubs, clouds and pauses are not repeated.
    `also_in` names other feeds that have an entry, by its id.
    """

    feed: FeedHead
    entries: Sequence[ParsedEntry]
    address: str
    updated: datetime
    first_address: str = ""
    previous_address: str = ""
    next_address: str = ""
    hubs: tuple[str, ...] = ()
    cloud: str = ""
    also_in: Mapping[str, Sequence[Mention]] = field(default_factory=dict)

    def links(self, site: str = "") -> list[tuple[str, str]]:
        """The relations and addresses of the page's links, with that of the site as `alternate` if it is given."""
        around = [("first", self.first_address), ("previous", self.previous_address), ("next", self.next_address)]
        links = [("self", self.address), ("alternate", site), *around, *(("hub", hub) for hub in self.hubs)]
        return [(relation, address) for relation, address in links if address]

    def moment(self, entry: ParsedEntry) -> datetime:
        return entry.updated or entry.published or self.updated

    def unique_id(self, entry: ParsedEntry) -> str:
        """An absolute IRI (RFC 4287, 4.2.6). An id that is only unique in its feed gets the feed's address in front."""
        written = entry.id or entry.link
        if not written:
            written = f"{self.moment(entry).isoformat()} {entry.title or entry.content[:200]}"
        elif is_absolute_iri(written):
            return written
        feed = entry.source.url if entry.source and entry.source.url else self.feed.self_link or self.address
        return f"{encode_address(feed.partition('#')[0])}#{quote(written, safe='')}"


def is_absolute_iri(text: str) -> bool:
    """True if an id is an IRI with a scheme, and so may be unique everywhere."""
    return _ABSOLUTE.fullmatch(text) is not None


def format_timestamp(moment: datetime) -> str:
    """RFC 3339, in UTC, with a fraction only where there is one."""
    return moment.isoformat().replace("+00:00", "Z")


_UNSAFE = re.compile(r"[^!$&'()*+,\-./0-9:;=?@A-Z_a-z~%#]|%(?![0-9A-Fa-f]{2})")
_AUTHORITY = re.compile(
    r"(?P<scheme>https?://)(?P<user>[^/?#@]*@)?(?P<host>\[[0-9A-Fa-f:.]*\]|[^/?#:]*)", re.IGNORECASE
)
_IPV6 = re.compile(r"\[[0-9A-Fa-f:.]*\]")
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(?:[-_][A-Za-z0-9]{1,8})*", re.ASCII)


def encode_address(address: str) -> str:
    """Returns an address in the characters of RFC 3986: its host by IDNA, all others percent-encoded in UTF-8."""
    if not _UNSAFE.search(address):
        return address
    place = _AUTHORITY.match(address)
    if place is None:
        return _encode_unsafe(address)
    before = f"{place['scheme']}{_encode_unsafe(place['user'] or '')}"
    return before + _encode_host(place["host"]) + _encode_unsafe(address[place.end() :])


def _encode_host(host: str) -> str:
    if host.isascii():
        return host if _IPV6.fullmatch(host) else _encode_unsafe(host)
    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        return _encode_unsafe(host)


def _encode_unsafe(text: str) -> str:
    return _UNSAFE.sub(lambda found: quote(found[0], safe="", errors="replace"), text)


_TAG = re.compile(r'<[a-z](?:[^<>"]|"[^"]*")*>')
_ADDRESS_ATTRIBUTE = re.compile(r' (href|src|poster)="([^"]*)"')


def encode_addresses_in(html: str) -> str:
    """Returns sanitised HTML with encoded addresses. Its attributes have double quotes, and its text no `<`."""
    if html.isascii() and " " not in "".join(address for _, address in _ADDRESS_ATTRIBUTE.findall(html)):
        return html
    return _TAG.sub(lambda tag: _ADDRESS_ATTRIBUTE.sub(_encode_attribute, tag[0]), html)


def _encode_attribute(match: re.Match[str]) -> str:
    return f' {match[1]}="{encode_address(match[2])}"'


def format_language(tag: str) -> str:
    """Returns a language tag in its usual case (RFC 5646, 2.1.1): `en-US`, `zh-Hant`. Other texts stay as they are."""
    if not _LANGUAGE.fullmatch(tag):
        return tag
    first, *parts = tag.lower().replace("_", "-").split("-")
    single = next((place for place, part in enumerate((first, *parts)) if len(part) == 1), len(parts) + 1)
    usual = {2: str.upper, 4: str.title}
    return "-".join((first, *(usual.get(len(part), str)(part) for part in parts[: single - 1]), *parts[single - 1 :]))


def present_head(feed: FeedHead) -> FeedHead:
    """Returns the head as output has it: with encoded addresses and a formatted language."""
    return replace(
        feed,
        link=encode_address(feed.link),
        image=encode_address(feed.image),
        icon=encode_address(feed.icon),
        language=format_language(feed.language),
        authors=tuple(replace(author, url=encode_address(author.url)) for author in feed.authors),
    )


def present_entry(entry: ParsedEntry) -> ParsedEntry:
    """Returns the entry as output has it: with encoded addresses and a formatted language. Its id stays as it is."""
    source = entry.source
    return replace(
        entry,
        link=encode_address(entry.link),
        image=encode_address(entry.image),
        comments=encode_address(entry.comments),
        summary=encode_addresses_in(entry.summary),
        content=encode_addresses_in(entry.content),
        language=format_language(entry.language),
        authors=tuple(replace(author, url=encode_address(author.url)) for author in entry.authors),
        enclosures=tuple(replace(each, url=encode_address(each.url)) for each in entry.enclosures),
        chapters_url=encode_address(entry.chapters_url),
        chapters=tuple(
            replace(each, url=encode_address(each.url), image=encode_address(each.image)) for each in entry.chapters
        ),
        transcripts=tuple(replace(each, url=encode_address(each.url)) for each in entry.transcripts),
        source=source and replace(source, url=encode_address(source.url), link=encode_address(source.link)),
    )


ATOM = "http://www.w3.org/2005/Atom"
CONTENT = "http://purl.org/rss/1.0/modules/content/"
DC = "http://purl.org/dc/elements/1.1/"
GEORSS = "http://www.georss.org/georss"
ITUNES = "http://www.itunes.com/dtds/podcast-1.0.dtd"
MEDIA = "http://search.yahoo.com/mrss/"
PODCAST = "https://podcastindex.org/namespace/1.0"
PSC = "http://podlove.org/simple-chapters"
SOURCE = "https://source.scripting.com/"
YOUTUBE = "http://www.youtube.com/xml/schemas/2015"
XML = "http://www.w3.org/XML/1998/namespace"
EPISODE_NAMESPACES = {"itunes": ITUNES, "podcast": PODCAST, "psc": PSC, "yt": YOUTUBE}


def add_element(
    parent: etree._Element, name: str, text: str = "", attributes: Mapping[str, str] | None = None
) -> etree._Element:
    """Adds a child with these attributes, without empty ones."""
    child = etree.SubElement(parent, name)
    for key, value in (attributes or {}).items():
        if value:
            child.set(key, charset.strip_illegal(value))
    child.text = charset.strip_illegal(text) or None
    return child


def add_mentions(parent: etree._Element, mentions: Iterable[Mention]) -> None:
    """Adds the same story in other feeds: as `related` (RFC 4287, 4.2.7.2), since an entry may have one `alternate`."""
    for each in mentions:
        attributes = {"rel": "related", "href": encode_address(each.link), "title": each.title}
        add_element(parent, f"{{{ATOM}}}link", attributes=attributes)


def add_text(parent: etree._Element, name: str, text: str) -> None:
    """Adds a child, unless it would be empty."""
    if text:
        add_element(parent, name, text)


def add_person(parent: etree._Element, author: Author) -> None:
    """Adds an Atom person (RFC 4287, 3.2), which needs a name."""
    person = add_element(parent, f"{{{ATOM}}}author")
    add_element(person, f"{{{ATOM}}}name", author.name)
    add_text(person, f"{{{ATOM}}}uri", author.url)
    add_text(person, f"{{{ATOM}}}email", author.email)


def add_extras(parent: etree._Element, entry: ParsedEntry) -> None:
    """Adds a picture (Media RSS), and a place (GeoRSS)."""
    if entry.image:
        add_element(parent, f"{{{MEDIA}}}thumbnail", attributes={"url": entry.image})
    if entry.point:
        add_element(parent, f"{{{GEORSS}}}point", f"{entry.point.latitude} {entry.point.longitude}")


def add_episode(parent: etree._Element, entry: ParsedEntry) -> None:
    """Adds numbers, chapters, transcripts (Podcasting 2.0, Podlove Simple Chapters), and the id of a video."""
    add_text(parent, f"{{{YOUTUBE}}}videoId", entry.youtube)
    add_text(parent, f"{{{ITUNES}}}season", str(entry.season or ""))
    add_text(parent, f"{{{ITUNES}}}episode", str(entry.episode or ""))
    if entry.chapters_url:
        attributes = {"url": entry.chapters_url, "type": "application/json+chapters"}
        add_element(parent, f"{{{PODCAST}}}chapters", attributes=attributes)
    for each in entry.transcripts:
        attributes = {"url": each.url, "type": each.media_type, "language": each.language}
        add_element(parent, f"{{{PODCAST}}}transcript", attributes=attributes)
    if entry.chapters:
        chapters = add_element(parent, f"{{{PSC}}}chapters", attributes={"version": "1.2"})
        for chapter in entry.chapters:
            attributes = {"start": format_start(chapter.start), "title": chapter.title}
            more = {"href": chapter.url, "image": chapter.image}
            add_element(chapters, f"{{{PSC}}}chapter", attributes={**attributes, **more})


def format_start(seconds: float) -> str:
    """Normal play time (RFC 2326), with milliseconds only where there are some."""
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    text = f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"
    return f"{text}.{thousandths:03}" if thousandths else text


def add_media(parent: etree._Element, enclosures: Iterable[Enclosure]) -> None:
    """Adds durations and titles of enclosures, for which neither format has an own element."""
    for enclosure in enclosures:
        if enclosure.seconds or enclosure.title:
            attributes = {"url": enclosure.url, "type": enclosure.media_type, "duration": str(enclosure.seconds or "")}
            media = add_element(parent, f"{{{MEDIA}}}content", attributes=attributes)
            add_text(media, f"{{{MEDIA}}}title", enclosure.title)


def serialise_xml(root: etree._Element) -> bytes:
    etree.cleanup_namespaces(root)
    return etree.tostring(root, encoding="utf-8", xml_declaration=True, pretty_print=True)


@dataclass(frozen=True, slots=True)
class FeedOrigin:
    """A feed as its entries name it: its address and title on this site, and its words about itself.

    `page` is the path of its page for people. Neither `id` nor `url` is the address that it is fetched from, which may
    hold secrets and may change: readers take entries for new ones if ids change. `secrets` are parts of that address,
    which `head` does not contain. `has_articles`: its entries are shown with the articles of their pages.
    """

    id: str
    url: str
    page: str
    title: str
    site: str
    head: FeedHead
    secrets: tuple[str, ...] = ()
    icon: str = ""
    has_articles: bool = False


def make_feed_head(origin: FeedOrigin) -> FeedHead:
    """Returns the head of one feed: its own, under the title and the id that it has here."""
    link = origin.head.link or origin.site
    icon = origin.icon or origin.head.icon
    return replace(origin.head, id=origin.id, title=origin.title, link=link, self_link=origin.url, icon=icon)


def identify_entry(entry: ParsedEntry, own_id: str, *, is_shared: bool = False) -> ParsedEntry:
    """Returns the entry under an id that is unique everywhere: the publisher's unless another entry has it too."""
    written = entry.id or entry.link
    return replace(entry, id=written if is_absolute_iri(written) and not is_shared else own_id)


def fill_entry(entry: ParsedEntry, *, has_articles: bool) -> ParsedEntry:
    """Returns the entry with the article of its page as the content, and the feed's own text as the summary."""
    if not entry.full or not has_articles:
        return replace(entry, full="")
    return replace(entry, summary=entry.summary or entry.content, content=entry.full, full="")


def credit_entry(entry: ParsedEntry, origin: FeedOrigin) -> ParsedEntry:
    """Returns the entry for a page of several feeds: with its source, and with its feed's authors if it has none."""
    authors = entry.authors or origin.head.authors or (Author(origin.title),)
    return replace(entry, authors=authors, source=entry.source or EntrySource(origin.title, origin.url, origin.site))
