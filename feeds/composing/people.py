"""Pages of feeds for people: what stands on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Value
from django.db.models.functions import Coalesce, NullIf
from django.template.loader import render_to_string

from feeds.models import ALL, SAID, Category, Entry, Feed
from feeds.parsing import documents, sanitising
from resources.mirroring.errors import UrlError
from resources.mirroring.serving import addresses

from . import origins
from .asking import Asked, Format
from .heads import Origin
from .selecting import Selection, feeds_of

MEDIA_TYPE = "text/html; charset=utf-8"
FORMATS: tuple[tuple[Format, str, str], ...] = (
    ("atom", "Atom", "application/atom+xml"),
    ("rss", "RSS", "application/rss+xml"),
    ("json", "JSON Feed", "application/feed+json"),
)
EXCERPT_CHARACTERS = 300
TITLE_CHARACTERS = 80
"""Of an entry that has no title."""
MOST_FEEDS = 200
"""So many are named on the page of a combination."""
_SEEN = ("<img", "<video", "<audio", "<table")
_KINDS = frozenset(("audio", "image", "video"))


@dataclass(frozen=True, slots=True)
class Link:
    """Where something else is, and what it is called there. `note` is what else is to be said of it."""

    address: str
    title: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A file that belongs to an entry; `kind` is `audio`, `image`, `video`, or empty for what is only linked."""

    kind: str
    address: str
    title: str
    note: str


@dataclass(frozen=True, slots=True)
class Shown:
    """An entry as people see it. `html` may go into the page as it is, and says more than `excerpt` if `is_longer`.

    `source` is its feed, where feeds are mixed.
    """

    title: str
    link: str
    happened_at: datetime
    authors: str
    excerpt: str
    picture: str
    html: str
    is_longer: bool
    enclosures: Sequence[Enclosed]
    comments: str
    source: Link | None


def render(asked: Asked, subject: Feed | Category, selection: Selection) -> bytes:
    """The page, in UTF-8."""
    is_alone = isinstance(subject, Feed)
    by_feed = origins.of_all(subject, selection.entries)
    found = ((row, by_feed[row.feed_id]) for row in selection.entries if row.feed_id in by_feed)
    context = {
        "asked": asked,
        "formats": [Link(asked.as_format(name).address, title, media_type) for name, title, media_type in FORMATS],
        "entries": [shown(entry, origin, is_alone=is_alone) for entry, origin in found],
        "newer": asked.newer_than(selection.newer).address if selection.newer else "",
        "older": asked.older_than(selection.older).address if selection.older else "",
        **(_about_feed(subject, by_feed[subject.pk]) if isinstance(subject, Feed) else _about_combination(subject)),
    }
    return render_to_string("feeds/page.html", context).encode()


def _about_feed(feed: Feed, origin: Origin) -> dict[str, Any]:
    return {
        "is_alone": True,
        "title": origin.title,
        "subtitle": origin.said.subtitle,
        "site": origin.site,
        "is_sample": feed.is_sample,
        "categories": [_of_category(category) for category in feed.categories.all()],
    }


def _about_combination(category: Category) -> dict[str, Any]:
    """With the categories in it, of everything the outermost, and with its feeds by their titles."""
    is_all = category.slug == ALL
    inside = Category.objects.filter(parent=None).exclude(pk=category.pk) if is_all else category.children.all()
    title = Coalesce(NullIf("title", Value("")), NullIf("own_title", Value("")), "host")
    feeds = feeds_of(category)
    named = feeds.defer(*SAID).annotate(shown=title).order_by("shown")[:MOST_FEEDS]
    count = feeds.count()
    return {
        "is_all": is_all,
        "title": category.title,
        "above": _of_category(category.parent) if category.parent else None,
        "categories": [_of_category(each) for each in inside],
        "feeds": [_of_feed(feed) for feed in named],
        "count": count,
        "unnamed": max(0, count - MOST_FEEDS),
    }


def shown(entry: Entry, origin: Origin, *, is_alone: bool) -> Shown:
    read = origins.entry(entry, origin)
    html = sanitising.with_pictures(read.content or read.summary, mirrored)
    excerpt = _cut(sanitising.text_of(read.summary or read.content), EXCERPT_CHARACTERS)
    return Shown(
        title=read.title or _cut(excerpt, TITLE_CHARACTERS) or "Without a title",
        link=read.link,
        happened_at=entry.happened_at,
        authors=", ".join(author.name for author in read.authors if author.name),
        excerpt=excerpt,
        picture=mirrored(read.image),
        html=html,
        is_longer=any(tag in html for tag in _SEEN) or sanitising.text_of(html) != excerpt,
        enclosures=[_enclosed(each) for each in read.enclosures],
        comments=read.comments,
        source=None if is_alone else Link(origin.page, origin.title),
    )


def mirrored(url: str) -> str:
    """Where this site has a picture, so that nobody else learns who reads; empty for what it does not fetch."""
    try:
        return addresses.sign_url(url) if url else ""
    except UrlError:
        return ""


def _of_feed(feed: Feed) -> Link:
    return Link(Asked.page_of_feed(feed.slug).address, feed.shown_title)


def _of_category(category: Category) -> Link:
    return Link(Asked.page_of_category(category.slug).address, category.title)


def _enclosed(file: documents.Enclosure) -> Enclosed:
    kind = file.media_type.partition("/")[0].lower()
    kind = kind if kind in _KINDS else ""
    name = file.title or file.url.partition("?")[0].rpartition("/")[2] or file.url
    note = ", ".join(filter(None, (file.media_type, _size(file.length_bytes))))
    return Enclosed(kind, (mirrored(file.url) if kind == "image" else "") or file.url, name, note)


def _size(length: int | None) -> str:
    return f"{length / 1_000_000:.1f} MB" if length else ""


def _cut(text: str, most: int) -> str:
    """The beginning, up to a word's end if there is one."""
    if len(text) <= most:
        return text
    return f"{text[:most].rsplit(' ', 1)[0]}…"
