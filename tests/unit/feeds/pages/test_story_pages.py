"""Stories on pages: combinations show each once, with the feeds that have it, in every format, order and search."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from lxml import etree
from lxml import html as lxml_html

from feeds import lifecycle
from feeds.models import ALL_SLUG, Category, Entry, Feed
from feeds.pages import entry_search, page_entries, render
from feeds.pages.query import PageQuery
from feeds.parser.documents import ParsedCategory
from tests.support import feed_rows
from tests.support.feed_rows import NOW, entry

pytestmark = pytest.mark.django_db

ATOM = "{http://www.w3.org/2005/Atom}"


@dataclass(frozen=True)
class Press:
    """Three feeds: all have story 0, two of them story 1; each has an entry of its own. `local` has two of them."""

    first: Feed
    second: Feed
    third: Feed
    local: Category


def tell(feed: Feed, number: int, story: Entry | None = None, **fields: Any) -> Entry:
    name = f"https://{feed.slug}.example.org/{number}"
    row = feed_rows.add(feed, entry(number, **{"id": name, "link": name, "title": f"{feed.slug} {number}", **fields}))
    Entry.objects.filter(pk=row.pk).update(story=story and story.pk)
    row.refresh_from_db()
    return row


@pytest.fixture
def press() -> Press:
    first, second, third = (feed_rows.feed(name) for name in ("first", "second", "third"))
    zero = tell(first, 0, content="<p>tide and moon</p>")
    tell(second, 10, zero, content="<p>tide and storm</p>")
    tell(third, 20, zero, content="<p>tide and storm</p>")
    one = tell(second, 11)
    tell(third, 21, one)
    for row in (first, second, third):
        tell(row, 30)
    return Press(first, second, third, feed_rows.category("local", second, third))


def everything() -> Category:
    return Category.objects.get(slug=ALL_SLUG)


def query(subject: Feed | Category, given: str = "", name: str = "atom") -> PageQuery:
    path = (
        "all" if subject.slug == ALL_SLUG else subject.slug if isinstance(subject, Feed) else f"category/{subject.slug}"
    )
    return PageQuery.read_address(f"/feeds/{path}.{name}?{given}")


def shown(subject: Feed | Category, given: str = "") -> list[str]:
    return [row.title for row in page_entries.select_entries(query(subject, given), subject).entries]


def test_a_combination_has_one_of_each_story_and_a_feed_all_of_its_own(press: Press) -> None:
    assert shown(everything()) == ["third 30", "second 30", "first 30", "second 11", "first 0"]
    assert shown(press.local) == ["third 30", "second 30", "second 11", "second 10"]
    assert shown(press.third) == ["third 30", "third 21", "third 20"]


def test_a_story_is_told_by_the_next_feed_once_the_first_is_gone(press: Press) -> None:
    lifecycle.pause_feeds([press.first.pk], NOW)
    assert shown(everything()) == ["third 30", "second 30", "second 11", "second 10"]
    Entry.objects.filter(title__in=["second 10", "second 11"]).delete()
    assert shown(everything()) == ["third 30", "second 30", "third 21", "third 20"]


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_pages_have_each_story_once_in_both_directions(press: Press, limit: int) -> None:
    page, titles, pages = query(everything(), f"limit={limit}"), [], []
    while True:
        pages.append(page_entries.select_entries(page, everything()))
        titles.append([row.title for row in pages[-1].entries])
        if (older := pages[-1].older) is None:
            break
        page = page.older_than(older)
    assert [title for some in titles for title in some] == ["third 30", "second 30", "first 30", "second 11", "first 0"]
    for before, found in zip(titles, pages[1:], strict=False):
        assert found.newer is not None
        back = page_entries.select_entries(page.newer_than(found.newer), everything())
        assert [row.title for row in back.entries] == before


@pytest.mark.parametrize(
    ("words", "found"),
    [
        pytest.param("tide", ["first 0"], id="all of the story match"),
        pytest.param("storm", ["second 10"], id="the first does not match"),
        pytest.param("storm feed:third", ["third 20"], id="other feeds are not searched"),
        pytest.param("-storm", ["third 30", "second 30", "first 30", "second 11", "first 0"], id="all but some words"),
    ],
)
@pytest.mark.parametrize("order", ["date", "rank"])
@pytest.mark.parametrize("limit", [1, 50])
def test_a_search_finds_each_story_once(press: Press, words: str, found: list[str], order: str, limit: int) -> None:
    page, titles = query(everything(), f"q={words}&order={order}&limit={limit}"), list[str]()
    while True:
        selection = page_entries.select_entries(page, everything())
        titles += [row.title for row in selection.entries]
        if selection.older is None:
            break
        page = page.older_than(selection.older)
    assert sorted(titles) == sorted(found)


@pytest.mark.parametrize("common", [False, True])
def test_a_page_is_full_though_most_matches_repeat_others(monkeypatch: pytest.MonkeyPatch, common: bool) -> None:
    monkeypatch.setattr(entry_search, "_is_common", lambda *_: common)
    own, others = feed_rows.feed("own"), [feed_rows.feed(f"other-{number}") for number in range(20)]
    for number in range(4):
        story = tell(own, number)
        for place, other in enumerate(others):
            tell(other, 100 * number + place + 4, story)
    for words in ("", "q=text", "q=text&order=rank"):
        found = shown(everything(), f"{words}&limit=3")
        assert len(found) == 3
        assert all(title.startswith("own") for title in found)


def test_a_search_finds_each_story_once_however_many_feeds_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_search, "MAX_WALKED_ENTRIES", 3)
    own, others = feed_rows.feed("own"), [feed_rows.feed(f"other-{number}") for number in range(4)]
    for number in range(2):
        story = tell(own, number)
        for place, other in enumerate(others):
            tell(other, 10 * number + place + 2, story)
    assert shown(everything(), "q=text") == ["own 1", "own 0"]


def test_people_see_in_which_feeds_of_the_combination_a_story_is(press: Press) -> None:
    def named(subject: Feed | Category) -> dict[str, list[tuple[str, str]]]:
        asked = query(subject, name="json").as_format("html")
        found: dict[str, list[tuple[str, str]]] = {}
        for one in lxml_html.fromstring(render._render_page(asked, subject)[0].decode()).iter("article"):
            links = [
                link for also in one.iterfind(".//p") if "also" in (also.get("class") or "") for link in also.iter("a")
            ]
            if links:
                found[one.findtext(".//h2/a") or ""] = [(link.text or "", link.get("href") or "") for link in links]
        return found

    second, third = ("Second", "https://second.example.org/10"), ("Third", "https://third.example.org/20")
    assert named(everything()) == {"first 0": [second, third], "second 11": [("Third", "https://third.example.org/21")]}
    assert named(press.local) == {"second 10": [third], "second 11": [("Third", "https://third.example.org/21")]}
    lifecycle.hide_feeds([press.third.pk], NOW)
    assert named(everything()) == {"first 0": [second]}
    assert named(press.second) == {}


@pytest.mark.parametrize("words", ["tag:ad", "tag:ad tag:sea"])
def test_no_feed_is_named_for_an_entry_that_a_filter_of_the_combination_hides(press: Press, words: str) -> None:
    story = tell(press.first, 40)
    tell(press.second, 41, story, categories=(ParsedCategory("ad"), ParsedCategory("sea")))
    tell(press.third, 42, story, categories=(ParsedCategory("news"),))
    everything().filters.create(words=words)
    (found,) = page_entries.find_mentions(everything(), [story]).values()
    assert [one.feed for one in found] == ["third"]
    everything().filters.create(action="only", words="tag:nothing")
    assert page_entries.find_mentions(everything(), [story]) == {}


def test_a_feed_is_named_once_and_never_for_its_own_entry(press: Press) -> None:
    story = tell(press.first, 40)
    for number, row in enumerate((press.first, press.second, press.second)):  # as merged feeds have them
        tell(row, 41 + number, story)
    (found,) = page_entries.find_mentions(everything(), [story]).values()
    assert [(one.feed, one.link) for one in found] == [("second", "https://second.example.org/42")]


def test_programs_are_given_the_other_feeds_in_every_format(press: Press) -> None:
    def rendered(name: str) -> bytes:
        return render._render_page(query(everything(), name=name), everything())[0]

    expected = {
        "first 0": [("Second", "https://second.example.org/10"), ("Third", "https://third.example.org/20")],
        "second 11": [("Third", "https://third.example.org/21")],
    }
    for name, item, title in (("atom", f"{ATOM}entry", f"{ATOM}title"), ("rss", "item", "title")):
        found = {}
        for one in etree.fromstring(rendered(name)).iter(item):
            links = [link for link in one.iter(f"{ATOM}link") if link.get("rel") == "related"]
            found[one.findtext(title)] = [(link.get("title"), link.get("href")) for link in links]
        assert {title: links for title, links in found.items() if links} == expected
    items = json.loads(rendered("json"))["items"]
    given = {one["title"]: one.get("_tarry", {}).get("also_in", []) for one in items}
    assert {title: [(one["title"], one["url"]) for one in some] for title, some in given.items() if some} == expected


def test_no_more_than_some_feeds_are_named_and_secrets_of_their_addresses_are_not() -> None:
    story = tell(feed_rows.feed("own"), 0)
    key = "0123456789abcdef0123456789abcdef"
    keyed = feed_rows.feed("keyed", url=f"https://keyed.example.org/{key}/feed")
    tell(keyed, 1, story, link=f"https://keyed.example.org/{key}/1")
    for number in range(25):
        tell(feed_rows.feed(f"other-{number}"), 2, story)
    (found,) = page_entries.find_mentions(everything(), [story]).values()
    assert len(found) == page_entries.MAX_MENTIONS
    assert found[0].link == f"{page_entries.site_url()}/feeds/keyed/"
