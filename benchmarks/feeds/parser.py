"""Reading feeds: the corpus beside feedparser and fastfeedparser, and the highest cost of large and hostile feeds.

Times are of the CPU. fastfeedparser sanitises nothing, the other two do.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import fastfeedparser
import feedparser

from feeds.errors import ParseError
from feeds.parser import markup, reader
from feeds.parser.documents import FeedLimits
from tests.support import feed_corpus

from ..figures import Figure, Note

NOW = datetime(2021, 7, 1, tzinfo=UTC)
URL = "https://feeds.example.org/feed"
SECONDS = 2.0
Parse = Callable[[str], Any]


def measure() -> Iterator[Figure | Note]:
    yield from _corpus()
    yield from _blog()
    for name in LARGE:
        with TemporaryDirectory() as directory:
            file = Path(directory) / "feed.xml"
            _apart(_write, name, file)
            seconds, megabytes, said = _apart(_cost, name, file)
        yield Figure(f"{name}: CPU time", seconds, "s", at_most=30)
        yield Figure(f"{name}: memory on top of the body", megabytes, "MB", at_most=500)
        yield Note(said)


def _apart(call: Callable[[str, Path], Any], name: str, file: Path) -> Any:
    """Calls it in a process of its own, which has nothing else in its memory."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(call, name, file).result()


def _corpus() -> Iterator[Figure | Note]:
    names = feed_corpus.XML_NAMES
    tree = [name for name in names if feed_corpus.parsed(name).reader == "tree"]
    ours = _rate(feed_corpus.parsed, names)
    yield Figure("feeds of the corpus read a second", ours)
    yield Figure("the same, those that the fast reader reads", _rate(feed_corpus.parsed, tree))
    yield Figure("the same by feedparser", theirs := _rate(_by_feedparser, names))
    yield Figure("the same by fastfeedparser", _rate(_by_fastfeedparser, names))
    yield Figure("ours ÷ feedparser", ours / theirs, at_least=1)
    differing = [name for name in names if _misread(name)]
    yield Figure(f"read otherwise by fastfeedparser, of {len(names)}", len(differing))
    yield Note(", ".join(differing))


def _blog() -> Iterator[Figure | Note]:
    """A blog of the usual size: 20 entries of 6 KB."""
    text = '<p>Hello <a href="https://x.example/">there</a>, a <b>text</b> of some length &amp;amp; more.</p>' * 70
    blog = _feed(20, text)
    ours = _rate(lambda _: reader.parse_feed(blog, "", URL, NOW), [""])
    theirs = _rate(lambda _: feedparser.parse(BytesIO(blog)), [""])
    yield Figure(f"a blog of {len(blog) / 1e3:.0f} KB, times a second", ours)
    yield Figure("the same by feedparser", theirs)
    yield Figure("ours ÷ feedparser", ours / theirs, at_least=5)
    yield Figure("the same by fastfeedparser", _rate(lambda _: fastfeedparser.parse(blog), [""]))


def _rate(parse: Parse, names: list[str]) -> float:
    """Feeds a second of CPU time."""
    began, number = process_time(), 0
    while process_time() - began < SECONDS:
        for name in names:
            parse(name)
        number += len(names)
    return number / (process_time() - began)


def _by_feedparser(name: str) -> Any:
    return feedparser.parse(
        BytesIO(feed_corpus.data(name)), response_headers={"content-type": feed_corpus.content_type(name)}
    )


def _by_fastfeedparser(name: str) -> Any:
    try:
        return fastfeedparser.parse(feed_corpus.data(name))
    except ValueError:
        return None


def _misread(name: str) -> bool:
    """Tells whether titles, absolute links, number of entries or authors differ from ours and feedparser's."""
    ours, theirs = feed_corpus.parsed(name), _by_fastfeedparser(name)
    if theirs is None or ours.found != len(theirs["entries"]):
        return True
    pairs = [(ours.feed.title, theirs["feed"])] + [
        (entry.title, other) for entry, other in zip(ours.entries, theirs["entries"], strict=False)
    ]
    titles = any(title != _plain(other.get("title") or "") for title, other in pairs)
    authors = any(
        len(entry.authors) > len(other.get("authors", ()))
        for entry, other in zip(ours.entries, theirs["entries"], strict=False)
    )
    return titles or authors


def _plain(title: str) -> str:
    return markup.html_to_text(title) if markup.is_markup(title) else markup.to_one_line(title)


def _feed(number: int, text: str, before: str = "") -> bytes:
    moments = (NOW - timedelta(minutes=place) for place in range(number))
    entries = (
        f"<item><title>Entry {place}</title><link>https://e.example.org/{place}</link><guid>urn:e:{place}</guid>"
        f"<pubDate>{moment:%a, %d %b %Y %H:%M:%S} GMT</pubDate><description><![CDATA[{text}]]></description></item>"
        for place, moment in enumerate(moments)
    )
    head = '<rss version="2.0"><channel><title>T</title><link>https://e.example.org/</link>'
    return f"{before}{head}{''.join(entries)}</channel></rss>".encode()


def _laughs() -> bytes:
    entities = "".join(f'<!ENTITY l{place} "{f"&l{place - 1};" * 10}">' for place in range(1, 10))
    return _feed(1, "", f'<!DOCTYPE x [<!ENTITY l0 "lol">{entities}]>').replace(b"Entry", b"&l9;")


def _quadratic() -> bytes:
    return _feed(1, "", f'<!DOCTYPE x [<!ENTITY a "{"a" * 100_000}">]>').replace(b"Entry", b"&a;" * 100_000)


PARAGRAPH = "<p>Hello <b>there</b>, how are you?</p>"
LIFTED = FeedLimits(bytes=100_000_000)
LARGE: dict[str, tuple[Callable[[], bytes], FeedLimits]] = {
    "53 MB, the limit lifted": (lambda: _feed(10_000, PARAGRAPH * 135), LIFTED),
    "24 MB": (lambda: _feed(4_500, PARAGRAPH * 135), FeedLimits()),
    "24 MB, not well-formed": (lambda: _feed(4_500, PARAGRAPH * 135, "<br>"), FeedLimits()),
    "100,000 entries": (lambda: _feed(100_000, "x"), FeedLimits()),
    "100,000 entries, not well-formed": (
        lambda: _feed(100_000, "x").replace(b"<channel>", b"<channel><br>"),
        FeedLimits(),
    ),
    "billion laughs": (_laughs, FeedLimits()),
    "quadratic blow-up": (_quadratic, FeedLimits()),
    "1,000,000 elements deep": (lambda: b'<rss version="2.0"><channel>' + b"<a>" * 1_000_000, FeedLimits()),
    "1,000 entries of hostile markup": (lambda: _feed(1_000, "<p>" + "<b id=x>" * 99 + "<p>x" * 99), FeedLimits()),
}


def _write(name: str, file: Path) -> None:
    file.write_bytes(LARGE[name][0]())


def _cost(name: str, file: Path) -> tuple[float, float, str]:
    """Seconds of CPU, megabytes, and the result."""
    data, limits = file.read_bytes(), LARGE[name][1]
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
    before, began = _kilobytes("VmRSS"), process_time()
    try:
        feed = reader.parse_feed(data, "application/xml", URL, NOW, limits)
        said = f"{feed.reader}; of {feed.found:,} entries {len(feed.entries):,}"
    except ParseError as refused:
        said = str(refused)
    return process_time() - began, (_kilobytes("VmHWM") - before) / 1e3, said


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
