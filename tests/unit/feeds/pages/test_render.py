"""Pages for people and programs: their contents, their freshness, and the parts of addresses that they hide."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from lxml import html as lxml_html
from pytest_django import Settings

from feeds.errors import SearchTimeoutError
from feeds.models import Category, Feed, Move
from feeds.pages import entry_search, page_entries, render
from feeds.pages.query import PageQuery
from feeds.pages.search_terms import MAX_SEARCH_CHARACTERS
from feeds.parser import reader
from feeds.parser.documents import Author, Chapter, Enclosure, EntrySource
from feeds.parser.documents import FeedHead as Feed_
from resources.mirror import links
from retry.contents import Prepared
from retry.errors import PreparationError
from tests.support import feed_rows
from tests.support.feed_rows import NOW, entry

pytestmark = pytest.mark.django_db

PICTURE = "https://pictures.example.org/1.png?w=9&h=9"
ICON = "http://10.1.2.3/icon.png"
SOUND = "https://x.example.org/1.mp3"


def page(subject: Feed | Category, query: str = "") -> lxml_html.HtmlElement:
    kind = "" if isinstance(subject, Feed) else "category/"
    path = "/feeds/" if subject.slug == "all" else f"/feeds/{kind}{subject.slug}/"
    asked = PageQuery.read_address(f"{path}?{query}")
    found = page_entries.select_entries(asked, subject)
    return lxml_html.fromstring(render.render_html(asked, subject, found).decode())


def everything() -> Category:
    return Category.objects.get(slug="all")


def test_pictures_come_from_this_site_and_are_loaded_late() -> None:
    content = f'<p><img src="{PICTURE.replace("&", "&amp;")}" alt="A ship"></p>'
    sea = feed_rows.feed("sea", entry(1, content=content, image=PICTURE))
    for subject in (sea, everything()):
        pictures = page(subject).xpath("//article//img")
        assert pictures
        assert {each.get("src") for each in pictures} == {links.sign_url(PICTURE)}
        assert {each.get("loading") for each in pictures} == {"lazy"}


@pytest.mark.parametrize("name", ["icon", "favicon"])
def test_the_icon_of_a_feed_is_nothing_that_this_site_fetches(name: str) -> None:
    """It is passed on as an address, to readers of the feed's other formats."""
    document = {"version": "https://jsonfeed.org/version/1.1", "title": "Sea", name: ICON, "items": [{"id": "1"}]}
    parsed = reader.parse_feed(json.dumps(document).encode(), "application/feed+json", "https://sea.example.org/", NOW)
    assert ICON in {parsed.feed.image, parsed.feed.icon}
    shown = lxml_html.tostring(page(feed_rows.feed("sea", entry(1), said=parsed.feed))).decode()
    assert [address for address in (ICON, links.sign_url(ICON)) if address in shown] == []


def test_a_picture_that_cannot_be_mirrored_is_shown_by_its_text() -> None:
    content = '<img src="https://user:secret@x.example.org:99999/1.png" alt="A ship">'
    (picture,) = page(feed_rows.feed("sea", entry(1, content=content))).xpath("//article//img")
    assert (picture.get("src"), picture.get("alt")) == (None, "A ship")


def test_sound_and_films_wait_until_somebody_plays_them() -> None:
    content = '<video src="https://x.example.org/1.mp4" poster="https://x.example.org/1.png" autoplay></video>'
    sea = feed_rows.feed(
        "sea", entry(1, content=content, enclosures=(Enclosure("https://x.example.org/1.mp3", "audio/mpeg"),))
    )
    (film,), (sound,) = page(sea).xpath("//video"), page(sea).xpath("//audio")
    assert film.get("poster") == links.sign_url("https://x.example.org/1.png")
    assert [each.get("preload") for each in (film, sound)] == ["none", "none"]
    assert "autoplay" not in film.attrib


@pytest.mark.parametrize("field", ["title", "link", "comments", "image"])
def test_what_publishers_say_is_text(field: str) -> None:
    bad = '"><script>alert(1)</script>'
    value = bad if field == "title" else f"https://x.example.org/{bad}"
    sea = feed_rows.feed("sea", entry(1, authors=(Author(bad),), **{field: value}), own_title=bad, title=bad)
    feed_rows.category("earth", sea)
    for subject in (sea, everything()):
        assert page(subject).xpath("//script | //article//*[@onerror]") == []


def test_a_combination_shows_the_beginnings_and_the_whole_on_demand() -> None:
    long = f"<p>{'word ' * 100}</p>"
    contents = ("<p>Short.</p>", long, "<p>x</p><img alt=''>")
    feed_rows.feed("sea", *(entry(number, content=each) for number, each in enumerate(contents, 1)))
    found = page(everything())
    assert [bool(each.xpath(".//details")) for each in found.xpath("//article")] == [True, True, False]
    assert found.xpath("string(//article[2]//p[@class='excerpt'])").endswith("word…")


def test_an_entry_without_a_title_is_called_by_its_text() -> None:
    sea = feed_rows.feed("sea", entry(1, title="", content=f"<p>{'harbour ' * 20}</p>"), entry(0, title="", content=""))
    titles = [each.text_content() for each in page(sea).xpath("//article//h2")]
    assert titles[0].startswith("harbour harbour")
    assert len(titles[0]) <= render.SUBSTITUTE_TITLE_CHARACTERS + 1
    assert titles[1] == "Untitled"


def test_pages_lead_to_the_older_and_the_newer_ones() -> None:
    sea = feed_rows.feed("sea", *(entry(at) for at in range(5)))
    first = page(sea, "limit=2")
    (older,) = first.xpath("//nav[@class='pages']/a/@href")
    assert older.startswith("/feeds/sea/?limit=2&before=")
    second = page(sea, older.partition("?")[2])
    assert [each.text_content() for each in second.xpath("//article//h2")] == ["Entry 2", "Entry 1"]
    assert second.xpath("//link[@rel='prev']/@href")[0].startswith("/feeds/sea/?limit=2&after=")
    assert second.xpath("//meta[@name='robots']")


def test_a_page_names_the_same_in_other_formats_with_its_search() -> None:
    found = page(feed_rows.feed("sea", entry(1)), "q=text").xpath("//link[@rel='alternate']")
    assert [(each.get("type"), each.get("href")) for each in found] == [
        ("application/atom+xml", "/feeds/sea.atom?q=text"),
        ("application/rss+xml", "/feeds/sea.rss?q=text"),
        ("application/feed+json", "/feeds/sea.json?q=text"),
    ]


def test_a_page_says_what_it_was_searched_for() -> None:
    sea = feed_rows.feed("sea", entry(1))
    found = page(sea, "q=text&since=2026-10-01")
    assert found.xpath("string(//title)") == "Sea: text · Tarry"
    said = found.xpath("string(//section[@id='entries']/p[1])")
    assert said == "Entries with “text” that came since 1 October 2026, 00:00 UTC. All entries"
    assert found.xpath("//input[@id='q']/@maxlength") == [str(MAX_SEARCH_CHARACTERS)]
    assert found.xpath("//meta[@name='robots']")
    assert page(sea).xpath("//meta[@name='robots']") == []
    assert b"<title>All feeds: text</title>" in prepared("/feeds/all.atom?q=text").body


def test_a_search_offers_both_orders_and_keeps_the_one_it_has() -> None:
    sea = feed_rows.feed("sea", *(entry(at) for at in range(3)))
    found = page(sea, "q=text&order=rank&limit=2")
    assert found.xpath("//p[contains(@class, 'orders')]/a/@href") == ["/feeds/sea/?q=text&limit=2"]
    assert found.xpath("//input[@name='order']/@value") == ["rank"]
    (more,) = found.xpath("//nav[@class='pages']/a")
    assert more.text_content() == "More"
    last = page(sea, more.get("href").partition("?")[2])
    assert [each.text_content() for each in last.xpath("//nav[@class='pages']/a")] == ["Better"]
    assert page(sea, "q=-text").xpath("//p[contains(@class, 'orders')]") == []


def test_a_search_that_takes_too_long_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def take_long(*_: object) -> None:
        raise SearchTimeoutError("The search takes too long.")

    monkeypatch.setattr(entry_search, "find_matches", take_long)
    feed_rows.feed("sea", entry(1))
    with pytest.raises(PreparationError, match="too long") as raised:
        prepared("/feeds/sea.atom?q=text")
    assert raised.value.status == 503


def test_a_combination_names_its_categories_and_feeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "MAX_NAMED_FEEDS", 2)
    sea, land = feed_rows.feed("sea", title="The sea"), feed_rows.feed("land", title="", own_title="Land")
    earth = feed_rows.category("earth", sea, feed_rows.feed("bare", own_title="", said=None))
    inside = feed_rows.category("inside", land, parent=earth)
    found = page(everything())
    assert found.xpath("//aside//a/@href")[0] == "/feeds/category/earth/"
    assert "and 1 more" in found.xpath("string(//aside)")
    assert page(inside).xpath("//div[@class='heading']/p[1]/a/@href") == ["/feeds/category/earth/"]


def test_nothing_yet_says_what_to_do() -> None:
    assert "import_opml" in page(everything()).xpath("string(//main)")
    assert "No entries here" in page(feed_rows.feed("sea"), "q=x").xpath("string(//main)")


def test_samples_are_called_samples() -> None:
    assert page(feed_rows.feed("sea", is_sample=True)).xpath("string(//h1/span)") == "Sample"


SCAN, STALE = 60, 86_400


@pytest.fixture(autouse=True)
def _times(settings: Settings) -> None:
    settings.FEEDS_SCAN_SECONDS, settings.FEEDS_STALE_SECONDS = SCAN, STALE


def prepared(address: str) -> Prepared:
    (page,) = render.prepare_page(address).values()
    return page


def due_in(seconds: float) -> Feed:
    row = feed_rows.feed("sea", entry(1))
    Feed.objects.update(next_check_at=datetime.now(UTC) + timedelta(seconds=seconds))
    return row


def test_a_page_is_fresh_until_scans_have_passed_its_feed_over_and_stale_for_a_day() -> None:
    due_in(600)
    page = prepared("/feeds/sea.atom")
    assert page.fresh_seconds == pytest.approx(600 + render.GRACE_SCANS * SCAN, abs=5)
    assert page.stale_seconds == STALE


def test_a_page_of_an_overdue_feed_is_not_shown_for_longer_than_a_day_after_its_time() -> None:
    due_in(-7200 - render.GRACE_SCANS * SCAN)
    page = prepared("/feeds/sea.atom")
    assert page.fresh_seconds == render.MIN_FRESH_SECONDS
    assert page.stale_seconds == pytest.approx(STALE - 7200, abs=5)


def test_pages_for_people_are_made_anew_before_long() -> None:
    due_in(50_000)
    assert prepared("/feeds/sea/").fresh_seconds == prepared("/feeds/").fresh_seconds == render.FRESH_HTML_SECONDS
    assert prepared("/feeds/all.atom").fresh_seconds == render.FRESH_FEED_SECONDS


def test_a_page_has_the_version_of_what_it_is_of() -> None:
    row, earth = due_in(600), feed_rows.category("earth")
    assert prepared("/feeds/sea.atom").version == row.version
    assert prepared("/feeds/category/earth.atom").version == earth.version


SECRETS = {
    "token": "https://secret.example.org/feed?token=abcdef",
    "path": "https://secret.example.org/u/9f86d081884c7d659a2f/rss",
    "password": "https://secret.example.org/feed",
}


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("format_", [".atom", ".rss", ".json", "/"])
@pytest.mark.parametrize("path", ["/feeds/secret", "/feeds/category/open"])
def test_what_an_address_may_hide_is_on_no_page(path: str, format_: str, kind: str) -> None:
    url = SECRETS[kind]
    said = Feed_(id=url, title=url, link=url if kind == "path" else "https://secret.example.org/", self_link=url)
    repeated, quoted = ("" if kind == "password" else url), (url if kind == "path" else "")
    entries = [
        entry(1, id="7"),
        entry(2, id=f"{quoted}/8", content=f'<a href="{quoted}">here</a>'),
        entry(3, source=EntrySource(repeated, repeated, "")),
    ]
    row = feed_rows.feed("secret", *entries, said=said, url=url, user="me" if kind == "password" else "")
    feed_rows.category("open", row)
    body = prepared(f"{path}{format_}").body.decode()
    assert [hidden for hidden in (url.partition("://")[2], "abcdef", "9f86d081884c7d659a2f") if hidden in body] == []


@pytest.mark.parametrize("path", ["/feeds/sea.atom", "/feeds/all.json", "/feeds/sea/"])
def test_what_a_former_address_hides_stays_hidden(path: str) -> None:
    old = "https://old.example.org/9f86d081884c7d659a2f/rss"
    row = feed_rows.feed(
        "sea", entry(1, id=f"{old}#1", content=f"Read {old}"), validated_url="https://x.example.org/?key=redirected"
    )
    feed_rows.add(row, entry(2, content="key=redirected"))
    Move.objects.create(feed=row, moved_at=feed_rows.NOW, old_url=old, new_url=row.url, why="It has moved.")
    body = prepared(path).body
    assert b"9f86d081884c7d659a2f" not in body
    assert b"redirected" not in body


def test_an_icon_with_a_secret_of_a_present_or_former_address_is_on_no_page() -> None:
    old, icon = "https://old.example.org/9f86d081884c7d659a2f/rss", "https://old.example.org/9f86d081884c7d659a2f.png"
    moved = feed_rows.feed("sea", entry(1), icon=icon)
    Move.objects.create(feed=moved, moved_at=feed_rows.NOW, old_url=old, new_url=moved.url, why="It has moved.")
    feed_rows.feed("land", entry(2), icon=icon, url=old)
    feed_rows.feed("sky", entry(3), icon=icon, validated_url=f"{old}/feed")
    for subject in (moved, everything()):
        assert list(page(subject).iterfind(".//img[@class='icon']")) == []


@pytest.mark.parametrize("path", ["/feeds/sea", "/feeds/all"])
@pytest.mark.parametrize("format_", [".atom", ".rss", ".json"])
def test_ids_stay_when_a_feed_has_moved(path: str, format_: str) -> None:
    row = feed_rows.feed("sea", entry(1, id="7"), entry(2, id="", link=""), url="http://sea.example.org/feed")
    before = prepared(f"{path}{format_}").body
    assert b"sea.example.org/feed" not in before
    Feed.objects.filter(pk=row.pk).update(url="https://sea.example.org/other")
    assert prepared(f"{path}{format_}").body == before


def test_long_names_of_authors_are_cut_on_the_page_alone() -> None:
    name = "Collaboration " * 20
    sea = feed_rows.feed("sea", entry(1, authors=(Author(name.strip()),)))
    assert page(sea).xpath("//article/header/p")[0].text_content().endswith("Collaboration…")
    assert name.strip() not in page(sea).text_content()
    (document,) = render.prepare_page("/feeds/sea.json").values()
    assert name.strip() in document.body.decode()


def test_a_video_of_youtube_is_a_picture_of_this_site_and_a_link_within_a_frame() -> None:
    bad = 'How to "moor" <b>&</b>'
    films = feed_rows.feed("films", entry(1, youtube="aB3_dE6-hI9", image=PICTURE, title=bad))
    for subject in (films, everything()):
        (frame,) = page(subject).iterfind(".//article/iframe")
        assert "src" not in frame.attrib
        inner = lxml_html.fromstring(frame.get("srcdoc", ""))
        assert [each.get("src") for each in inner.iter("img")] == [links.sign_url(PICTURE)]
        (link,) = inner.iter("a")
        assert link.get("href") == "https://www.youtube-nocookie.com/embed/aB3_dE6-hI9?autoplay=1"
        assert link.get("aria-label") == f"Play on YouTube: {bad}"
        assert list(inner.iter("script", "b")) == []
        assert list(page(subject).iterfind(".//article//img")) == [], "the picture is in the frame"


def test_chapters_link_to_their_times_in_the_first_recording() -> None:
    files = (Enclosure("https://x.example.org/1.pdf", "application/pdf"), Enclosure(f"{SOUND}#t=9", "audio/mpeg"))
    chapters = (Chapter(0.0, "Start"), Chapter(3754.5, "Moon", "https://moon.example.org/"), Chapter(9.0))
    radio = feed_rows.feed("radio", entry(1, enclosures=files, chapters=chapters), entry(2, chapters=chapters))
    without, recorded = page(radio).iterfind(".//details[@class='chapters']")
    assert [(each.text, each.get("href")) for each in recorded.iterfind(".//a[@class='time']")] == [
        ("00:00", f"{SOUND}#t=0"),
        ("1:02:34", f"{SOUND}#t=3754.5"),
        ("00:09", f"{SOUND}#t=9"),
    ]
    assert without.find(".//a[@class='time']") is None
    assert "Untitled" in without.text_content()


def test_titles_and_texts_that_are_written_from_right_to_left_are_shown_so() -> None:
    sea = feed_rows.feed("sea", entry(1, title="مرحبا", content="<p>هذا نص</p>"))
    for subject in (sea, everything()):
        assert {each.get("dir") for each in page(subject).iterfind(".//article//h2")} == {"auto"}
    assert page(sea).find(".//div[@class='content']").get("dir") == "auto"


def test_a_feeds_icon_is_mirrored_and_shown_beside_its_name() -> None:
    sea = feed_rows.feed("sea", entry(1), icon=ICON)
    for subject in (sea, everything()):
        icons = list(page(subject).iterfind(".//img[@class='icon']"))
        assert {each.get("src") for each in icons} == {links.sign_url(ICON)}
        assert {each.get("alt") for each in icons} == {""}


@pytest.mark.parametrize("has_articles", [True, False])
def test_articles_are_shown_while_the_feed_is_switched_to_them(has_articles: bool) -> None:
    sea = feed_rows.feed("sea", entry(1, content="Cut…", full="<p>All of it</p>"), full_content=has_articles)
    shown = lxml_html.tostring(page(sea)).decode()
    assert ("All of it" in shown) is has_articles
    for format_name in ("atom", "rss", "json"):
        (prepared,) = render.prepare_page(f"/feeds/sea.{format_name}").values()
        body = prepared.body.decode()
        assert ("All of it" in body) is has_articles
        assert "Cut…" in body, "the feed's own text is the summary then"
