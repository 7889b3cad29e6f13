"""Output of feeds on the whole site: fetched for its readers, valid, the same for all, gone with the feed."""

import re
import urllib.request
from collections.abc import Iterator
from urllib.parse import urljoin

import pytest
from lxml import etree
from playwright.sync_api import expect

from ..support import feed_corpus
from ..support.browser import Visit
from ..support.crowd import Crowd
from ..support.feed_pages import MEDIA_TYPES, Read, read
from ..support.server import Handler, serving
from ..support.stack import Stack, eventually

HOT_SECONDS = 5
NAMES = ("atom-1.0.xml", "rss-2.0.xml", "rss-1.0.rdf", "json-1.1.json", "html-entities.xml", "itunes.xml")
PICTURE = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00:~\x9bU"
PICTURED = (
    '<rss version="2.0"><channel><title>Pictures</title><link>{url}/</link><item><guid>1</guid><title>A picture</title>'
    '<description>&lt;p&gt;Seen &lt;img src="/a.png" alt="A dot"&gt;&lt;/p&gt;</description></item></channel></rss>'
)
ADDING = """
from datetime import UTC, datetime
from feeds import addresses
from feeds import catalogue
for name in {names!r}:
    categories = [("Corpus",)] if name in {combined!r} else []
    address = addresses.read_address("{url}/" + name)
    print(catalogue.add_feed(address, categories=categories, now=datetime.now(UTC))[0].slug)
"""
CHANGING = """
from datetime import UTC, datetime
from feeds import lifecycle, followers
from feeds.models import Feed
ids = list(Feed.objects.filter(slug__in={slugs!r}).values_list("pk", flat=True))
{change}
"""
REMOVING = (
    "lifecycle.remove_feeds(list(Feed.objects.filter(slug='{slug}').values_list('pk', flat=True)), datetime.now(UTC))"
)


class Origin:
    """Its feeds, by path, and the requests to it."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []

    def answer(self, path: str) -> tuple[int, bytes, str]:
        self.asked.append(path)
        if path == "/pictured.xml":
            return 200, PICTURED.format(url=self.url).encode(), "application/xml"
        if path == "/a.png":
            return 200, PICTURE, "image/png"
        name = path.removeprefix("/")
        return (200, feed_corpus.data(name), "application/xml") if name in NAMES else (404, b"", "text/plain")


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    books = Origin()

    class Files(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            status, body, content_type = books.answer(self.path)
            self.answer(status, body, Content_Type=content_type)

    with serving(Files) as books.url:
        yield books


@pytest.fixture(scope="module")
def slugs(stack: Stack, origin: Origin) -> Iterator[dict[str, str]]:
    """The names of feeds that were never fetched, by their names at the origin.

    The combination has those alone that tests wait for: a scan may bring the others while a test reads its pages.
    """
    names = [*NAMES, "pictured.xml", "missing.xml"]
    adding = ADDING.format(names=names, combined=NAMES, url=origin.url)
    printed = stack.manage("shell", "-v", "0", "-c", adding).split()
    found = dict(zip(names, printed[-len(names) :], strict=True))
    yield found
    change(stack, list(found.values()), "lifecycle.remove_feeds(ids, datetime.now(UTC))")


def change(stack: Stack, slugs: list[str], what: str) -> str:
    return stack.manage("shell", "-v", "0", "-c", CHANGING.format(slugs=slugs, change=what))


def get(crowd: Crowd, address: str) -> Read:
    visit = crowd.visit(address)
    format_name = address.partition("?")[0].rpartition(".")[2]
    assert (visit.status, visit.answers[-1].headers["Content-Type"]) == (200, MEDIA_TYPES[format_name])
    return read(visit.body, format_name)


def test_feeds_are_fetched_once_for_all_who_read_them_first_and_given_in_every_format(
    crowd: Crowd, origin: Origin, slugs: dict[str, str]
) -> None:
    addresses = [f"/feeds/{slugs[name]}.{format_name}" for name in NAMES for format_name in MEDIA_TYPES]
    crowd.insist([*addresses, *addresses])
    assert sorted(path for path in origin.asked if path[1:] in NAMES) == sorted(f"/{name}" for name in NAMES)
    for name in NAMES:
        found = [get(crowd, f"/feeds/{slugs[name]}.{format_name}") for format_name in MEDIA_TYPES]
        assert {tuple(each.titles) for each in found} == {tuple(found[0].titles)}
        assert len(found[0].titles) == len(feed_corpus.parsed(name).entries)


@pytest.mark.no_database
def test_what_is_not_there_says_so_to_all_and_is_asked_for_once(
    crowd: Crowd, origin: Origin, slugs: dict[str, str]
) -> None:
    visits = crowd.send([f"/feeds/{slugs['missing.xml']}.atom"] * 5).result(60)
    assert {visit.status for visit in visits} == {502}
    assert crowd.visit(f"/feeds/{slugs['missing.xml']}.rss").status == 502
    assert origin.asked.count("/missing.xml") == 1


@pytest.mark.no_database
def test_lists_of_feeds_are_public_and_those_of_followers_for_their_tokens(
    stack: Stack, crowd: Crowd, slugs: dict[str, str]
) -> None:
    mine = f"{stack.base_url}/feeds/{{}}.atom"
    every, combined = (listed(stack, f"/feeds/{name}.opml") for name in ("all", "category/corpus"))
    assert combined == {mine.format(slugs[name]) for name in NAMES}
    assert every >= {mine.format(slug) for slug in slugs.values()}
    followed = slugs["atom-1.0.xml"]
    change(stack, [followed], "followers.follow_feeds(1, ids, datetime.now(UTC))")
    token = stack.manage("create_token", "reader", "--user", "admin").strip()
    address = "/feeds/all.opml?followed-by=admin"
    assert listed(stack, address, Authorization=f"Bearer {token}") == {mine.format(followed)}
    assert crowd.visit(address).status == 401  # nothing of it is kept for others


def listed(stack: Stack, address: str, **fields: str) -> set[str]:
    """The addresses of the feeds of a list. It waits for a list that is made."""
    request = urllib.request.Request(f"{stack.base_url}{address}", headers=fields)
    with urllib.request.urlopen(request, timeout=30) as answer:
        outlines = etree.fromstring(answer.read()).iter("outline")
        return {outline.get("xmlUrl", "") for outline in outlines} - {""}


@pytest.mark.no_database
@pytest.mark.parametrize("format_name", ["atom", "json"])
def test_pages_of_a_combination_have_each_entry_once(crowd: Crowd, slugs: dict[str, str], format_name: str) -> None:
    crowd.insist([f"/feeds/{slugs[name]}.atom" for name in NAMES])
    whole = get(crowd, f"/feeds/category/corpus.{format_name}?limit=200")
    ids, address = [], f"/feeds/category/corpus.{format_name}?limit=3"
    while address:
        page = get(crowd, address)
        ids += page.ids
        address = urljoin("/", re.sub(r"^https?://[^/]+", "", page.links.get("next", "")))
        address = "" if address == "/" else address
    assert ids == whole.ids
    assert len(set(ids)) == len(ids) >= len(NAMES)


@pytest.mark.no_database
def test_no_way_to_write_an_address_changes_what_another_gets(crowd: Crowd, slugs: dict[str, str]) -> None:
    crowd.insist([f"/feeds/{slugs['rss-2.0.xml']}.atom"])
    target = "/feeds/category/corpus.rss?q=the&limit=2"
    expected = get(crowd, target)
    for hostile in (
        *("/feeds/category/corpus.rss%3Fq=the&limit=2", "/feeds/category%2Fcorpus.rss?q=the&limit=2"),
        *("/feeds//category/corpus.rss?q=the&limit=2", "/feeds/x/../category/corpus.rss?q=none&limit=2"),
        *("/feeds/category/corpus.rss?q=the&limit=2&q=none", "/feeds/category/corpus.rss?q=the%26limit=2"),
        *("/feeds/category/corpus.rss?Q=the&limit=2", "/feeds/category/./corpus.rss?limit=2&q=none"),
    ):
        crowd.visit(hostile)
        assert get(crowd, target) == expected
    turned = get(crowd, "/feeds/category/corpus.rss?limit=2&q=the")
    assert (turned.ids, turned.links) == (expected.ids, expected.links)


@pytest.mark.no_database
def test_nginx_answers_who_has_it_already(crowd: Crowd, slugs: dict[str, str]) -> None:
    address = f"/feeds/{slugs['atom-1.0.xml']}.atom"
    etag = crowd.insist([address])[0].answers[-1].headers["ETag"]
    again = crowd.visit(address, headers={"If-None-Match": etag})
    assert (again.status, again.body) == (304, b"")
    assert "nginx; hit" in again.answers[-1].cache_status


def test_paused_feeds_leave_combinations_and_deleted_ones_are_gone_within_the_hot_window(
    stack: Stack, crowd: Crowd, slugs: dict[str, str]
) -> None:
    leaving, going = slugs["rss-2.0.xml"], slugs["rss-1.0.rdf"]
    combined = "/feeds/category/corpus.json?limit=200"
    crowd.insist([f"/feeds/{leaving}.json", f"/feeds/{going}.json"])
    before = set(get(crowd, combined).titles)
    own = {slug: set(get(crowd, f"/feeds/{slug}.json").titles) for slug in (leaving, going)}
    assert all(titles and titles <= before for titles in own.values())

    change(stack, [leaving], f"lifecycle.pause_feeds(ids, datetime.now(UTC)); {REMOVING.format(slug=going)}")
    gone = own[leaving] | own[going]
    eventually(lambda: gone.isdisjoint(get(crowd, combined).titles), HOT_SECONDS, "they are in no combination")
    eventually(lambda: crowd.visit(f"/feeds/{going}.json").status == 404, HOT_SECONDS, "it is gone")
    assert set(get(crowd, f"/feeds/{leaving}.json").titles) == own[leaving]


@pytest.mark.no_database
def test_readers_are_counted_from_what_nginx_has_logged(stack: Stack, crowd: Crowd, slugs: dict[str, str]) -> None:
    slug = slugs["itunes.xml"]
    for reader in ("one", "two", "two"):
        crowd.visit(f"/feeds/{slug}.atom", headers={"User-Agent": reader})
    crowd.visit("/feeds/all.atom", headers={"User-Agent": "three"})

    number = change(stack, [slug], "print(ids[0])").strip()

    def noted() -> int:
        return sum(stack.state.pfcount(key) for key in stack.state.scan_iter(f"feeds:{{0}}:readers:{number}:*"))

    crowds_own = 1  # as other tests have fetched it
    eventually(lambda: noted() == 2 + crowds_own, 30, "its readers are noted")
    counting = "followers.count_readers(datetime.now(UTC)); print(Feed.objects.get(pk=ids[0]).subscriber_count)"
    assert change(stack, [slug], counting).strip() == "3"


@pytest.mark.browser
def test_people_wait_for_a_page_and_read_it_without_asking_anybody_else(
    stack: Stack, desktop: Visit, slugs: dict[str, str]
) -> None:
    desktop.page.goto(f"{stack.base_url}/feeds/{slugs['pictured.xml']}/")
    expect(desktop.page.locator("article h2")).to_have_text("A picture", timeout=30_000)
    expect(desktop.page.locator("article img")).to_have_attribute("src", re.compile("^/resources/"))
    desktop.page.goto(f"{stack.base_url}/feeds/?q=seen")
    expect(desktop.page.locator("article h2")).to_have_text("A picture", timeout=30_000)
    assert desktop.hosts == {stack.host}
    icons = desktop.page.locator("#feeds img.icon").evaluate_all("(found) => found.map((each) => each.src)")
    complaints = desktop.complaints_but_for(icons)  # the icons of the corpus are at hosts that are not there
    assert [each for each in complaints if "503" not in each] == []  # the waiting page is one
