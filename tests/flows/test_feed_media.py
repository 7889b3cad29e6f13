"""Pages beside the feeds on the whole site: full articles, chapters and icons fetched; episodes and videos shown."""

import json
import zlib
from collections.abc import Iterator
from struct import pack
from typing import Any

import pytest
import requests
from playwright.sync_api import Route, expect

from ..support.browser import Visit
from ..support.crowd import Crowd
from ..support.server import Handler, serving
from ..support.stack import Stack, eventually

WORDS = "The tide at the harbour rises twice a day, and the boats rise with it, as they have always done. " * 2
FURTHER = "The moon pulls at the water, which is a long way to pull, and the sun helps by the day of the month."
ARTICLE = f"""<!doctype html><html><head><title>Tide</title></head><body><nav><a href="/">Home</a></nav><main>
<article><h1>Tide</h1><p>{WORDS}</p><p><img src="/tide.png" alt="The tide"></p><p>{WORDS}</p><p>{FURTHER}</p></article>
</main><footer>Imprint and cookies</footer></body></html>"""
HOME = '<!doctype html><html><head><link rel="icon" href="/icon.png"></head><body>Harbour</body></html>'
BLOG = """<rss version="2.0"><channel><title>Harbour blog</title><link>{url}/</link><item><guid>tide</guid>
<title>The tide</title><link>{url}/tide</link><description>The tide at the harbour…</description></item></channel>
</rss>"""
RADIO = """<rss version="2.0" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"
xmlns:podcast="https://podcastindex.org/namespace/1.0"><channel><title>Harbour radio</title><item><guid>radio</guid>
<title>Spring tides</title><description>Why they are high.</description>
<enclosure url="{url}/12.mp3" length="12345678" type="audio/mpeg"/><itunes:duration>34:56</itunes:duration>
<itunes:season>2</itunes:season><itunes:episode>12</itunes:episode>
<podcast:chapters url="{url}/12.json" type="application/json+chapters"/>
<podcast:transcript url="{url}/12.vtt" type="text/vtt" language="en"/></item></channel></rss>"""
FILMS = """<feed xmlns:yt="http://www.youtube.com/xml/schemas/2015" xmlns:media="http://search.yahoo.com/mrss/"
xmlns="http://www.w3.org/2005/Atom"><title>Harbour films</title><id>urn:films</id><entry><id>yt:video:aB3_dE6-hI9</id>
<yt:videoId>aB3_dE6-hI9</yt:videoId><title>How to "moor"</title><link href="{url}/watch"/><media:group>
<media:thumbnail url="{url}/still.png"/><media:description>In five minutes.
All knots.</media:description></media:group></entry></feed>"""
CHAPTERS = {"version": "1.2.0", "chapters": [{"startTime": 0, "title": "Start"}, {"startTime": 754, "title": "Moon"}]}
EMBED = "https://www.youtube-nocookie.com/embed/aB3_dE6-hI9?autoplay=1"
ADDING = """
from datetime import UTC, datetime
from feeds import addresses, catalogue, feed_rows
from feeds.models import Feed
for name in ("blog", "radio", "films"):
    address = addresses.read_address("{url}/" + name + ".xml")
    feed = catalogue.add_feed(address, title="Harbour " + name, categories=[("Harbour",)], now=datetime.now(UTC))[0]
    Feed.objects.filter(pk=feed.pk).update(full_content=name == "blog")
    feed_rows.flag_feeds([feed.pk], datetime.now(UTC))
"""
SCANNING = "from feeds import feed_rows; feed_rows.ask_for_scan()"
REMOVING = """
from datetime import UTC, datetime
from feeds import lifecycle
from feeds.models import Feed
ids = Feed.objects.filter(categories__slug="harbour").values_list("pk", flat=True)
lifecycle.remove_feeds(list(ids), datetime.now(UTC))
"""


def picture(width: int, height: int, colour: tuple[int, int, int]) -> bytes:
    """A PNG of one colour."""
    rows = (b"\0" + bytes(colour) * width) * height
    parts = ((b"IHDR", pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    chunks = (pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data)) for kind, data in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


class Origin:
    """A site with a blog, a podcast and films, and the requests to it."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.files = {
            "/": (HOME, "text/html"),
            "/tide": (ARTICLE, "text/html; charset=utf-8"),
            **{f"/{name}.xml": (text, "application/xml") for name, text in self.feeds.items()},
            "/12.json": (json.dumps(CHAPTERS), "application/json+chapters"),
        }
        self.pictures = {
            "/icon.png": picture(32, 32, (200, 60, 40)),
            "/tide.png": picture(640, 240, (70, 130, 170)),
            "/still.png": picture(480, 360, (90, 120, 90)),
        }

    feeds = {"blog": BLOG, "radio": RADIO, "films": FILMS}

    def answer(self, path: str) -> tuple[int, bytes, str]:
        self.asked.append(path)
        if path in self.pictures:
            return 200, self.pictures[path], "image/png"
        body, content_type = self.files.get(path, ("", ""))
        if not body:
            return 404, b"", "text/plain"
        is_feed = path.endswith(".xml")
        return 200, (body.format(url=self.url) if is_feed else body).encode(), content_type


@pytest.fixture(scope="module")
def origin(stack: Stack) -> Iterator[Origin]:
    """The origin, once all of its feeds, the article, the chapters and the icon were fetched."""
    harbour = Origin()

    class Files(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            status, body, content_type = harbour.answer(self.path)
            self.answer(status, body, Content_Type=content_type)

    with serving(Files) as harbour.url:
        stack.manage("shell", "-c", ADDING.format(url=harbour.url))
        eventually(lambda: {f"/{name}.xml" for name in harbour.feeds} <= {*harbour.asked}, 60, "the feeds are fetched")

        def is_whole() -> bool:
            stack.manage("shell", "-c", SCANNING)
            found = {item["title"]: item for item in items(stack)}
            tide, radio = found.get("The tide", {}), found.get("Spring tides", {})
            has_chapters = len(radio.get("_tarry", {}).get("chapters", ())) == 2
            favicon = requests.get(f"{stack.base_url}/feeds/harbour-blog.json", timeout=60).json().get("favicon")
            return has_chapters and FURTHER in tide.get("content_html", "") and favicon == f"{harbour.url}/icon.png"

        eventually(is_whole, 90, "the pages beside the feeds are fetched")
        yield harbour
        stack.manage("shell", "-c", REMOVING)


def items(stack: Stack) -> list[dict[str, Any]]:
    answer = requests.get(f"{stack.base_url}/feeds/category/harbour.json", timeout=60)
    return list(answer.json()["items"]) if answer.ok else []


def test_an_article_is_in_every_format_with_the_excerpt_as_its_summary(
    stack: Stack, crowd: Crowd, origin: Origin
) -> None:
    (tide,) = (item for item in items(stack) if item["title"] == "The tide")
    assert tide["summary"] == "The tide at the harbour…"
    assert f'<img src="{origin.url}/tide.png" alt="The tide">' in tide["content_html"]
    for address in ("/feeds/harbour-blog.atom", "/feeds/harbour-blog.rss", "/feeds/harbour-blog/"):
        assert FURTHER.encode() in crowd.visit(address).body
    described = requests.get(f"{stack.base_url}/api/feeds/harbour-blog/entries", timeout=60).json()["entries"]
    assert FURTHER in described[0]["content"]
    assert FURTHER.encode() in crowd.visit("/feeds/harbour-blog.atom?q=moon+pulls").body, "searches find it"


def test_pages_are_fetched_once_and_by_the_rules_of_their_host(origin: Origin) -> None:
    assert "/robots.txt" in origin.asked
    assert [origin.asked.count(path) for path in ("/tide", "/12.json", "/", "/favicon.ico")] == [1, 1, 1, 0]


@pytest.mark.browser
def test_icons_and_pictures_come_from_this_site_alone(stack: Stack, desktop: Visit, origin: Origin) -> None:
    desktop.page.goto(f"{stack.base_url}/feeds/category/harbour/")
    icon = desktop.page.locator("#feeds li", has_text="Harbour blog").locator("img.icon")
    expect(icon).to_have_js_property("naturalWidth", 32)
    assert desktop.hosts == {stack.base_url.partition("//")[2]}
    assert desktop.complaints == []


@pytest.mark.browser
def test_an_episode_shows_its_length_and_links_to_the_times_of_its_chapters(
    stack: Stack, desktop: Visit, origin: Origin
) -> None:
    page = desktop.page
    page.goto(f"{stack.base_url}/feeds/harbour-radio/")
    article = page.get_by_role("article")
    expect(article).to_contain_text("Season 2, Episode 12")
    expect(article).to_contain_text("34:56, audio/mpeg, 12.3 MB")
    expect(article.locator("audio")).to_have_attribute("preload", "none")
    article.get_by_text("2 chapters").click()
    expect(article.get_by_role("link", name="12:34")).to_have_attribute("href", f"{origin.url}/12.mp3#t=754")
    expect(article.get_by_role("link", name="Transcript")).to_have_attribute("href", f"{origin.url}/12.vtt")
    assert desktop.hosts == {stack.base_url.partition("//")[2]}
    assert desktop.complaints == []


@pytest.mark.browser
def test_youtube_is_asked_for_nothing_until_its_video_is_played(stack: Stack, desktop: Visit, origin: Origin) -> None:
    page, here = desktop.page, stack.base_url.partition("//")[2]
    played: list[str] = []

    def play(route: Route) -> None:
        played.append(route.request.url)
        route.fulfill(body="<!doctype html><title>Video</title><p>It plays.</p>", content_type="text/html")

    page.route("https://www.youtube-nocookie.com/**", play)
    page.goto(f"{stack.base_url}/feeds/harbour-films/")
    frame = page.frame_locator("iframe.player")
    expect(frame.locator("img")).to_have_js_property("naturalWidth", 480)
    expect(page.get_by_role("article")).to_contain_text("All knots.")
    assert (desktop.hosts, played) == ({here}, [])
    frame.get_by_role("link", name='Play on YouTube: How to "moor"').click()
    expect(frame.get_by_text("It plays.")).to_be_visible()
    assert played == [EMBED]
    assert desktop.complaints == []


def test_only_pages_with_videos_may_show_frames_of_another_site(stack: Stack, crowd: Crowd, origin: Origin) -> None:
    policies = {
        name: requests.get(f"{stack.base_url}/feeds/harbour-{name}/", timeout=60).headers["Content-Security-Policy"]
        for name in origin.feeds
    }
    assert "frame-src https://www.youtube-nocookie.com;" in policies["films"]
    assert "script-src" not in policies["films"]
    assert "frame-src" not in policies["blog"] + policies["radio"]
