"""Pages to render, and the way back."""

from datetime import UTC, datetime

from feeds.parsing import reading
from feeds.parsing.documents import Author, Category, Enclosure, Entry, Feed, ParsedFeed, Point, Source
from feeds.rendering import atom, jsonfeed, rss
from feeds.rendering.pages import Page

ADDRESS = "https://tarry.example.org/feeds/all.feed"
NOW = datetime(2021, 7, 1, 12, tzinfo=UTC)
RENDERERS = {"atom": atom, "rss": rss, "json": jsonfeed}

FULL = Entry(
    id="tag:site.example.org,2021:1",
    link="https://site.example.org/1?a=1&b=2",
    title='Everything <there> is & "more"',
    published=datetime(2021, 6, 1, 10, 0, 0, 250_000, tzinfo=UTC),
    updated=datetime(2021, 6, 2, 10, tzinfo=UTC),
    summary="A <em>short</em> summary &amp; ]]&gt;",
    content='<p>A <a href="https://site.example.org/?x=1&amp;y=2" rel="noopener noreferrer nofollow">link</a>.</p>',
    authors=(
        Author("Ann"),
        Author("Bob", "bob@site.example.org", "https://site.example.org/bob"),
        Author("", "", "https://site.example.org/nameless"),
        Author("", "nameless@site.example.org"),
    ),
    categories=(Category("sea"), Category("ship", "https://site.example.org/tags", "Ships & boats")),
    enclosures=(
        Enclosure("https://site.example.org/1.mp3", "audio/mpeg", 1234, 65, "As MP3"),
        Enclosure("https://site.example.org/1.bin"),
        Enclosure("https://site.example.org/1.png", "image/png", 99, None, "The cover"),
    ),
    image="https://site.example.org/1.jpg",
    comments="https://site.example.org/1#comments",
    language="de",
    source=Source("The site", "https://site.example.org/feed", "https://site.example.org/"),
    point=Point(51.5, -0.125),
)
PLAIN = Entry(
    id="https://site.example.org/2", link="https://site.example.org/2", title="Plain", published=NOW, content="<p>x</p>"
)
UPDATED_ONLY = Entry(id="urn:x:3", title="日本 – ü 🎈", updated=NOW, content="🎈")
FEED = Feed(
    id="tag:site.example.org,2021:feed",
    link="https://site.example.org/",
    title="All & everything",
    subtitle="From <everywhere>",
    updated=datetime(2021, 6, 30, tzinfo=UTC),
    language="en",
    rights="CC BY",
    image="https://site.example.org/logo.png",
    authors=(Author("Ann", "ann@site.example.org", "https://site.example.org/ann"),),
    categories=(Category("news", "https://site.example.org/tags", "News"),),
    self_link=ADDRESS,
    next_link=f"{ADDRESS}?page=3",
    hubs=("https://hub.example.org/",),
)


def page(*entries: Entry, feed: Feed = FEED) -> Page:
    """A page in the middle of several."""
    return Page(
        feed=feed,
        entries=entries,
        address=ADDRESS,
        updated=NOW,
        first_address=f"{ADDRESS}?page=1",
        previous_address=f"{ADDRESS}?page=1",
        next_address=f"{ADDRESS}?page=3",
        hubs=("https://hub.example.org/",),
    )


def read_back(document: bytes) -> ParsedFeed:
    return reading.parse(document, "", ADDRESS, NOW)
