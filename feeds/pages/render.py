"""Prepares the pages of feeds: HTML for people, and Atom, RSS and JSON Feed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from django.conf import settings
from django.db.models import QuerySet, Value
from django.db.models.functions import Coalesce, NullIf
from django.template.loader import render_to_string

from resources.mirror import links
from resources.mirror.errors import UrlError
from retry.contents import Prepared
from retry.errors import PreparationError

from .. import addresses, categories, opml
from ..addresses import FeedLocation
from ..errors import SearchTimeoutError, UnknownFeedError
from ..models import ALL_SLUG, LONG_FIELDS, Category, Entry, Feed
from ..output import atom, jsonfeed, output_page, rss
from ..output.output_page import FeedOrigin, Mention, OutputPage
from ..parser import documents, markup
from . import page_entries
from .entry_search import MAX_RANKED_ENTRIES
from .page_entries import Selection, feeds_in_category, select_entries
from .query import FEEDS_PATH, PageFormat, PageOrder, PageQuery
from .search_terms import MAX_SEARCH_CHARACTERS

HTML_MEDIA_TYPE = "text/html; charset=utf-8"
OPML_MEDIA_TYPE = "text/x-opml; charset=utf-8"
FEEDS_PER_PART = 500
"""Feeds of a list that are read together."""
PAGE_FORMATS: tuple[tuple[PageFormat, str, str], ...] = (
    ("atom", "Atom", "application/atom+xml"),
    ("rss", "RSS", "application/rss+xml"),
    ("json", "JSON Feed", "application/feed+json"),
)
EXCERPT_CHARACTERS = 300
SUBSTITUTE_TITLE_CHARACTERS = 80
AUTHOR_CHARACTERS = 200
MAX_NAMED_FEEDS = 200
_VISIBLE_TAGS = ("<img", "<video", "<audio", "<table")
_PLAYED_KINDS = frozenset(("audio", "video"))
_ENCLOSURE_KINDS = _PLAYED_KINDS | {"image"}
VIDEO_SITE = "https://www.youtube-nocookie.com"
"""The only other site that a page's frames may show: YouTube without cookies until a video is played."""


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link with its title. `note` is an addition."""

    address: str
    title: str
    note: str = ""
    icon: str = ""


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file that belongs to an entry; `kind` is `audio`, `image`, `video`, or empty if it is only linked."""

    kind: str
    address: str
    title: str
    note: str


@dataclass(frozen=True, slots=True)
class ShownChapter:
    """A chapter: the clock time of its beginning, and the address of the recording from there on, empty without one."""

    start: str
    address: str
    title: str
    link: str


@dataclass(frozen=True, slots=True)
class ShownEntry:
    """An entry on a page for people. `html` is sanitised, and says more than `excerpt` if `is_longer`.

    `source` is its feed, on pages of several feeds. `player` is the document of a frame with a video of YouTube: it
    shows a picture of this site, and a link that plays the video in its place. `also_in` are feeds with the same story.
    """

    title: str
    link: str
    happened_at: datetime
    authors: str
    excerpt: str
    picture: str
    html: str
    is_longer: bool
    enclosures: Sequence[ShownFile]
    comments: str
    source: PageLink | None
    number: str
    chapters: Sequence[ShownChapter]
    transcripts: Sequence[PageLink]
    player: str
    also_in: Sequence[PageLink]


def render_html(asked: PageQuery, subject: Feed | Category, selection: Selection) -> bytes:
    is_alone = isinstance(subject, Feed)
    by_feed, also_in = page_entries.find_origins(subject, selection.entries), _find_mentions(subject, selection)
    about = _about_feed(subject, by_feed[subject.pk]) if isinstance(subject, Feed) else _about_combination(subject)
    context = {
        **about,
        "asked": asked,
        "page_title": asked.page_title(about["title"]),
        "max_search_characters": MAX_SEARCH_CHARACTERS,
        "formats": [
            PageLink(asked.as_format(name).address, title, media_type) for name, title, media_type in PAGE_FORMATS
        ],
        "list": "" if is_alone else PageQuery(is_combined=True, slug=asked.slug, format="opml").address,
        "entries": [
            show_entry(row, origin, also_in.get(row.pk, ()), is_alone=is_alone)
            for row, origin in _with_origins(selection, by_feed)
        ],
        "orders": _order_links(asked),
        "max_ranked": MAX_RANKED_ENTRIES if asked.order == "rank" else 0,
        "newer": asked.page_before(selection.newer).address if selection.newer else "",
        "older": asked.older_than(selection.older).address if selection.older else "",
    }
    return render_to_string("feeds/page.html", context).encode()


def _with_origins(selection: Selection, by_feed: Mapping[int, FeedOrigin]) -> list[tuple[Entry, FeedOrigin]]:
    """Returns the entries with their origins, without those of feeds that were deleted meanwhile."""
    return [(row, by_feed[row.feed_id]) for row in selection.entries if row.feed_id in by_feed]


def _find_mentions(subject: Feed | Category, selection: Selection) -> Mapping[int, Sequence[Mention]]:
    """The feeds of a combination with the same stories. Pages of one feed are kept while others come and go."""
    return {} if isinstance(subject, Feed) else page_entries.find_mentions(subject, selection.entries)


def _about_feed(feed: Feed, origin: FeedOrigin) -> dict[str, Any]:
    return {
        "is_alone": True,
        "title": origin.title,
        "subtitle": origin.head.subtitle,
        "site": origin.site,
        "icon": mirror_url(origin.icon),
        "is_sample": feed.is_sample,
        "categories": [_category_link(category) for category in feed.categories.all()],
    }


def _about_combination(category: Category) -> dict[str, Any]:
    """The combination's categories (of all feeds, the outermost) and its feeds by their titles."""
    is_all = category.slug == ALL_SLUG
    inside = Category.objects.filter(parent=None).exclude(pk=category.pk) if is_all else category.children.all()
    title = Coalesce(NullIf("title", Value("")), NullIf("own_title", Value("")), "host")
    feeds = feeds_in_category(category)
    named = feeds.defer(*LONG_FIELDS).annotate(shown=title).order_by("shown")[:MAX_NAMED_FEEDS]
    count, icons = feeds.count(), icon_addresses(named)
    return {
        "is_all": is_all,
        "title": category.title,
        "above": _category_link(category.parent) if category.parent else None,
        "categories": [_category_link(each) for each in inside],
        "feeds": [
            PageLink(PageQuery.page_of_feed(feed.slug).address, feed.shown_title, icon=icons.get(feed.pk, ""))
            for feed in named
        ],
        "count": count,
        "unnamed": max(0, count - MAX_NAMED_FEEDS),
    }


def icon_addresses(feeds: Iterable[Feed]) -> dict[int, str]:
    """This site's addresses of icons by feed, without those that have secrets of present or former addresses."""
    with_icons = [feed for feed in feeds if feed.icon]
    known = page_entries.known_addresses(with_icons)
    secrets = {feed.pk: addresses.find_secrets(*known[feed.pk]) for feed in with_icons}
    shown = (feed for feed in with_icons if not any(part in feed.icon for part in secrets[feed.pk]))
    return {feed.pk: mirror_url(feed.icon) for feed in shown}


def show_entry(entry: Entry, origin: FeedOrigin, also_in: Sequence[Mention], *, is_alone: bool) -> ShownEntry:
    read = page_entries.load_entry(entry, origin)
    html = markup.rewrite_pictures(read.content or read.summary, mirror_url)
    excerpt = _cut_text(markup.html_to_text(read.summary or read.content), EXCERPT_CHARACTERS)
    return ShownEntry(
        title=read.title or _cut_text(excerpt, SUBSTITUTE_TITLE_CHARACTERS) or "Untitled",
        link=read.link,
        happened_at=entry.happened_at,
        authors=", ".join(_cut_text(author.name, AUTHOR_CHARACTERS) for author in read.authors if author.name),
        excerpt=excerpt,
        picture=mirror_url(read.image),
        html=html,
        is_longer=any(tag in html for tag in _VISIBLE_TAGS) or markup.html_to_text(html) != excerpt,
        enclosures=[_show_file(each) for each in read.enclosures],
        comments=read.comments,
        source=None if is_alone else PageLink(origin.page, origin.title, icon=mirror_url(origin.icon)),
        number=_episode_words(read),
        chapters=_show_chapters(read),
        transcripts=[
            PageLink(each.url, "Transcript", ", ".join(filter(None, (each.language, each.media_type))))
            for each in read.transcripts
        ],
        player=_make_player(read) if read.youtube else "",
        also_in=[PageLink(each.link, each.title) for each in also_in],
    )


def _episode_words(read: documents.ParsedEntry) -> str:
    parts = [("Season", read.season), ("Episode", read.episode)]
    return ", ".join(f"{name} {number}" for name, number in parts if number)


def _show_chapters(read: documents.ParsedEntry) -> list[ShownChapter]:
    """The chapters, linked to their times in the first recording (W3C Media Fragments)."""
    played = (each.url for each in read.enclosures if _file_kind(each) in _PLAYED_KINDS)
    recording = next(played, "").partition("#")[0]
    return [
        ShownChapter(
            _clock_words(each.start),
            f"{recording}#t={each.start:g}" if recording else "",
            each.title or "Untitled",
            each.url,
        )
        for each in read.chapters
    ]


def _make_player(read: documents.ParsedEntry) -> str:
    """The frame's document. It needs no script: its link is followed within the frame, once it is clicked."""
    picture = mirror_url(read.image or f"https://i.ytimg.com/vi/{read.youtube}/hqdefault.jpg")
    context = {"player": f"{VIDEO_SITE}/embed/{read.youtube}?autoplay=1", "picture": picture, "title": read.title}
    return render_to_string("feeds/player.html", context)


def mirror_url(url: str) -> str:
    """Returns this site's address of a picture, so that no other site learns of its readers; empty if not mirrored."""
    try:
        return links.sign_url(url) if url else ""
    except UrlError:
        return ""


def _order_links(asked: PageQuery) -> Sequence[tuple[PageLink, bool]]:
    """The orders of a search, and whether the page has that one; none where there is nothing to rank by."""
    if not asked.search.required:
        return ()
    titles: Mapping[PageOrder, str] = {"date": "Newest first", "rank": "Best first"}
    return [(PageLink(asked.ordered_by(order).address, title), order == asked.order) for order, title in titles.items()]


def _category_link(category: Category) -> PageLink:
    return PageLink(PageQuery.page_of_category(category.slug).address, category.title)


def _clock_words(seconds: float) -> str:
    """`34:56`, or `1:02:03` from an hour on."""
    text = output_page.format_start(float(int(seconds)))
    return text.removeprefix("00:") if text.startswith("00:") else text.removeprefix("0")


def _file_kind(file: documents.Enclosure) -> str:
    kind = file.media_type.partition("/")[0].lower()
    return kind if kind in _ENCLOSURE_KINDS else ""


def _show_file(file: documents.Enclosure) -> ShownFile:
    kind = _file_kind(file)
    name = file.title or file.url.partition("?")[0].rpartition("/")[2] or file.url
    size = f"{file.length_bytes / 1_000_000:.1f} MB" if file.length_bytes else ""
    length = _clock_words(file.seconds) if file.seconds else ""
    note = ", ".join(filter(None, (length, file.media_type, size)))
    return ShownFile(kind, (mirror_url(file.url) if kind == "image" else "") or file.url, name, note)


def _cut_text(text: str, most: int) -> str:
    """Returns the beginning, up to a word's end if there is one."""
    if len(text) <= most:
        return text
    return f"{text[:most].rsplit(' ', 1)[0]}…"


def render_list(category: Category, *, followed_by: int | None = None) -> bytes:
    """Renders the feeds of a combination as OPML, by their addresses on this site; or those that a user follows."""
    feeds = page_entries.feeds_in_category(category)
    if followed_by is not None:
        feeds = feeds.filter(follows__user=followed_by)
    changed_at = datetime.fromtimestamp(category.version // 1_000_000, UTC)
    return opml.write_opml(_list_feeds(category, feeds), category.title, changed_at)


def _list_feeds(category: Category, feeds: QuerySet[Feed]) -> Iterator[opml.ListedFeed]:
    """Yields the feeds with their categories at or below this one."""
    within = categories.paths_by_category().get(category.pk, ())
    rows = feeds.only(*page_entries.ORIGIN_FIELDS).order_by("slug").iterator(chunk_size=FEEDS_PER_PART)
    while part := list(islice(rows, FEEDS_PER_PART)):
        paths, known = categories.paths_by_feed(part), page_entries.known_addresses(part)
        for feed in part:
            listed = [path for path in paths[feed.pk] if path[: len(within)] == within]
            yield _list_feed(feed, addresses.find_secrets(*known[feed.pk]), listed)


def _list_feed(feed: Feed, secrets: tuple[str, ...], paths: Sequence[opml.CategoryPath]) -> opml.ListedFeed:
    """Describes a feed for a list, by its own texts without secrets. Costs less than its origin: lists are long."""
    said = {name: str(feed.said.get(name) or "") for name in ("subtitle", "language")}
    named = addresses.leave_out_secrets({"title": feed.shown_title, "site": feed.site, **said}, secrets)
    return opml.ListedFeed(
        FeedLocation(f"{page_entries.site_url()}{FEEDS_PATH}{feed.slug}.atom"),
        title=named["title"],
        site=output_page.encode_address(named.get("site", "")),
        description=" ".join(named["subtitle"].split()),
        language=output_page.format_language(named.get("language", "")),
        categories=tuple(paths),
    )


FRESH_FEED_SECONDS, FRESH_HTML_SECONDS = 86_400, 600
"""A newer version makes a page stale at once. Pages for people are short: their look changes with this site."""
MIN_FRESH_SECONDS = 10
GRACE_SCANS = 2
"""Scans that may pass after a feed's time before it counts as missed."""

_RENDERERS = {"atom": atom, "rss": rss, "json": jsonfeed}


def prepare_page(address: str) -> Mapping[str, Prepared]:
    """Prepares the page at `PageQuery.address`, by its content key. Raises PreparationError, DatabaseError."""
    asked = PageQuery.read_address(address)
    try:
        subject = page_entries.find_subject(asked)
    except UnknownFeedError as error:
        raise PreparationError("The feed no longer exists.", status=404) from error
    try:
        body, media_type = _render_page(asked, subject)
    except SearchTimeoutError as error:
        raise PreparationError(str(error), status=503) from error
    fresh_seconds, stale_seconds = _freshness(asked, subject, datetime.now(UTC))
    page = Prepared(body, media_type, fresh_seconds, stale_seconds, version=subject.version)
    return {page_entries.page_content_key(asked, subject): page}


def _render_page(asked: PageQuery, subject: Feed | Category) -> tuple[bytes, str]:
    if isinstance(subject, Category) and asked.is_list:
        return render_list(subject), OPML_MEDIA_TYPE
    selection = select_entries(asked, subject)
    if asked.format == "html":
        return render_html(asked, subject, selection), HTML_MEDIA_TYPE
    renderer = _RENDERERS[asked.format]
    return renderer.render(_output_page(asked, subject, selection)), renderer.MEDIA_TYPE


def _freshness(asked: PageQuery, subject: Feed | Category, now: datetime) -> tuple[float, float]:
    """Seconds for which a page is fresh, and then stale.

    A page of one feed may be out of date once the feed should have been fetched; from then on it is stale.
    """
    fresh: float = FRESH_HTML_SECONDS if asked.format == "html" else FRESH_FEED_SECONDS
    stale: float = settings.FEEDS_STALE_SECONDS
    if isinstance(subject, Category) or subject.paused:
        return fresh, stale
    left = (subject.next_check_at - now).total_seconds() + GRACE_SCANS * settings.FEEDS_SCAN_SECONDS
    return min(max(left, MIN_FRESH_SECONDS), fresh), max(stale + min(left, 0), 0)


def page_hubs(asked: PageQuery) -> tuple[str, ...]:
    """The hub that hears of this page's changes: searches, later pages, lists and pages for people have none."""
    hub = page_entries.hub_address()
    return (hub,) if hub and asked.is_topic else ()


def _output_page(asked: PageQuery, subject: Feed | Category, selection: Selection) -> OutputPage:
    here, is_alone = page_entries.site_url(), isinstance(subject, Feed)
    by_feed = page_entries.find_origins(subject, selection.entries)
    shown, also_in = _with_origins(selection, by_feed), _find_mentions(subject, selection)
    loaded = page_entries.load_entries(shown, among_feeds=not is_alone)
    entries = [read if is_alone else output_page.credit_entry(read, origin) for read, origin in loaded]
    return OutputPage(
        feed=_page_head(asked, subject, by_feed),
        entries=entries,
        address=f"{here}{asked.address}",
        # By the version: pages of one version have the same bytes.
        updated=datetime.fromtimestamp(subject.version // 1_000_000, UTC),
        first_address=f"{here}{asked.first().address}",
        previous_address=f"{here}{asked.page_before(selection.newer).address}" if selection.newer else "",
        next_address=f"{here}{asked.older_than(selection.older).address}" if selection.older else "",
        hubs=page_hubs(asked),
        cloud=page_entries.cloud_address() if asked.is_topic else "",
        also_in={read.id: also_in[row.pk] for (row, _), read in zip(shown, entries, strict=True) if row.pk in also_in},
    )


def _page_head(asked: PageQuery, subject: Feed | Category, by_feed: Mapping[int, FeedOrigin]) -> documents.FeedHead:
    if isinstance(subject, Feed):
        return output_page.make_feed_head(by_feed[subject.pk])
    page = f"{page_entries.site_url()}{asked.as_format('html').address}"
    return documents.FeedHead(id=page, link=page, self_link=page, title=asked.page_title(subject.title))
