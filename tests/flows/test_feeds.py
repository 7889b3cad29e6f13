"""Feeds on the whole site: scanned, fetched anew without bodies, edited, slow, killed in mid-scan, managed."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from secrets import token_urlsafe

import pytest
import requests
from playwright.sync_api import expect

from feeds import addresses, opml
from feeds.opml import ListedFeed

from ..support import feed_server
from ..support.browser import WIDE, Visit
from ..support.feed_rows import NOW
from ..support.feed_server import FeedServers
from ..support.stack import Stack, eventually

HOT_SECONDS = 5
FEEDS, SERVERS = 12, 4
MORE = ("Imported", "By hand")
PATHS = [f"/{number}" for number in range(FEEDS)]
OF_PLANET = "Feed.objects.filter(categories__slug='planet')"
FLAG = f"""
from datetime import UTC, datetime
from feeds import feed_rows
from feeds.models import Feed
feed_rows.flag_feeds(list({OF_PLANET}.values_list("pk", flat=True)), datetime.now(UTC))
"""
DUE = f"""
from datetime import UTC, datetime
from feeds.models import Feed
{OF_PLANET}.update(next_check_at=datetime.now(UTC))
"""
KEPT = f"""
from feeds.models import Entry, Feed
feeds = {OF_PLANET}
print(*Entry.objects.filter(feed__in=feeds).values_list("title", flat=True), sep=chr(10))
print("in hand", feeds.filter(handed_over_at__isnull=False).count())
"""
EDITOR = "editor-"
ADMIN = """
from django.contrib.auth.models import User
User.objects.create_superuser("{name}", password="{password}")
"""

LARGEST_SCAN = """
from feeds.models import Scan
from resources.fetch.models import FetchTiming
for scan in Scan.objects.exclude(makespan_seconds=None).order_by("-feeds")[:1]:
    print(scan.pk, FetchTiming.objects.filter(scan=scan.pk).count())
"""
"""The ended scan of the most feeds, and the number of its fetches."""


@pytest.fixture(scope="module")
def origin(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServers]:
    """The servers of feeds that the site has read."""
    with feed_server.running(SERVERS) as servers:
        stack.manage("import_opml", str(listed(servers, tmp_path_factory.mktemp("feeds"))))
        eventually(lambda: served(stack) == expected(servers), 60, "all feeds are read and served")
        yield servers
        stack.manage("shell", "-c", "from feeds.models import Feed; Feed.objects.all().delete()")


def listed(servers: FeedServers, directory: Path) -> Path:
    urls = [f"{servers.urls[number % SERVERS]}{path}" for number, path in enumerate(PATHS)]
    rows = [ListedFeed(addresses.read_address(url), categories=(("Planet",),)) for url in urls]
    file = directory / "planet.opml"
    file.write_bytes(opml.write_opml(rows, "Planet", NOW))
    return file


def served(stack: Stack) -> Counter[str]:
    """The titles of all entries, as they are served together; how often each."""
    answer = requests.get(f"{stack.base_url}/feeds/category/planet.json?limit=200", timeout=60)
    return Counter(item["title"] for item in answer.json()["items"]) if answer.ok else Counter()


def expected(servers: FeedServers, held: Collection[str] = (), edition: str = "") -> Counter[str]:
    """Each entry once, as the servers have it now; entries of `held` feeds in an earlier edition."""
    editions = {path: edition if path in held else servers.edition for path in PATHS}
    return Counter(f"{path}/{name} {editions[path]}" for path in PATHS for name in servers.names)


def kept(stack: Stack) -> tuple[Counter[str], str]:
    """The titles of all entries in the database, how often each; and how many of their feeds are in hand."""
    *titles, in_hand = stack.manage("shell", "-v", "0", "-c", KEPT).splitlines()
    return Counter(titles), in_hand


def largest_scan(stack: Stack) -> list[str]:
    return stack.manage("shell", "-v", "0", "-c", LARGEST_SCAN).split()


def flag(stack: Stack) -> None:
    stack.manage("shell", "-c", FLAG)


def test_what_has_not_changed_is_asked_for_without_a_body_and_what_has_is_served_after_one_scan(
    stack: Stack, origin: FeedServers
) -> None:
    origin.asked.clear()
    origin.bodies.clear()
    flag(stack)
    eventually(lambda: sorted(origin.asked) == sorted(PATHS), 30, "all are asked again")
    assert origin.bodies == []

    origin.edition = "edited"
    flag(stack)
    eventually(lambda: served(stack) == expected(origin), 30, "the edits are served")
    assert sorted(origin.bodies) == sorted(PATHS)


def test_what_is_due_is_served_edited_after_one_scan_though_nobody_has_said_that_it_changed(
    stack: Stack, origin: FeedServers
) -> None:
    origin.edition = "edited when it was due"
    origin.asked.clear()
    stack.manage("shell", "-c", DUE)
    eventually(lambda: served(stack) == expected(origin), 30, "the edits are served")
    assert sorted(origin.asked) == sorted(PATHS)


def test_a_slow_host_delays_nobody_else(stack: Stack, origin: FeedServers) -> None:
    before, origin.edition = origin.edition, "edited beside a slow host"
    origin.held = frozenset(PATHS[::SERVERS])  # all that the first of them has
    origin.gate.clear()
    origin.bodies.clear()
    flag(stack)
    eventually(lambda: served(stack) == expected(origin, origin.held, before), 20, "the others are served")
    assert origin.held.isdisjoint(origin.bodies)
    origin.gate.set()
    eventually(lambda: served(stack) == expected(origin), 30, "all are served")


def test_a_scan_whose_processes_are_killed_is_completed_with_nothing_twice_and_nothing_lost(
    stack: Stack, origin: FeedServers
) -> None:
    origin.edition, origin.names = "after the kill", [*origin.names, "three"]
    origin.held = frozenset(PATHS[1::2])
    origin.gate.clear()
    origin.asked.clear()
    origin.bodies.clear()
    flag(stack)
    eventually(lambda: origin.bodies and origin.held & {*origin.asked}, 30, "some are being stored, some do not answer")
    for name in ("fetch", "work", "beat"):
        stack.kill(name, children=True)
    origin.gate.set()

    eventually(lambda: served(stack) == expected(origin), 90, "all are read")
    eventually(lambda: kept(stack) == (expected(origin), "in hand 0"), 30, "the database has each of them once")


@pytest.mark.no_database
def test_a_feed_is_added_changed_followed_and_removed_by_the_api_via_nginx(stack: Stack, origin: FeedServers) -> None:
    token = stack.manage("create_token", "feeds", "--feeds", "--user", "admin").strip()

    def call(method: str, path: str = "", token: str = token, **body: object) -> requests.Response:
        address = f"{stack.base_url}/api/feeds{path}"
        return requests.request(method, address, json=body, headers={"Authorization": f"Bearer {token}"}, timeout=30)

    added = call("POST", url=f"{origin.urls[0]}/added", categories=[["Planet"]])
    assert added.status_code == 201
    at, title = f"/{added.json()['slug']}", f"/added/one {origin.edition}"
    eventually(lambda: title in served(stack), 30, "it is served with the others")

    assert call("PATCH", at, token="none", paused=True).status_code == 401
    changed = call("PATCH", at, title="Renamed", paused=True).json()
    assert (changed["title"], changed["standing"]) == ("Renamed", "paused")
    eventually(lambda: title not in served(stack), HOT_SECONDS, "it is served with the others no more")
    for method, subscribers in (("PUT", 1), ("DELETE", 0)):
        assert call(method, f"{at}/follow").status_code == 200
        assert requests.get(f"{stack.base_url}/api/feeds{at}", timeout=30).json()["subscribers"] == subscribers
    assert call("DELETE", at).status_code == 200
    assert call("DELETE", at).status_code == 404
    assert requests.get(f"{stack.base_url}/feeds{at}.atom", timeout=30).status_code == 404


@pytest.fixture
def admin(stack: Stack, desktop: Visit) -> Visit:
    """The list of feeds, as a superuser sees it."""
    name, password = f"{EDITOR}{token_urlsafe(4)}", token_urlsafe(16)
    stack.manage("shell", "-c", ADMIN.format(name=name, password=password))
    desktop.page.set_viewport_size(WIDE)
    desktop.page.goto(f"{stack.base_url}/admin/feeds/feed/?category=planet")
    desktop.page.get_by_label("Username").fill(name)
    desktop.page.get_by_label("Password").fill(password)
    desktop.page.get_by_role("button", name="Log in").click()
    return desktop


@pytest.mark.browser
def test_an_admin_sees_how_feeds_stand_and_has_one_fetched(stack: Stack, admin: Visit, origin: FeedServers) -> None:
    page = admin.page
    expect(page.get_by_role("region", name="Health of all feeds")).to_contain_text(f"{FEEDS} healthy")
    assert page.locator(".results").evaluate("(part) => part.scrollWidth - part.clientWidth") == 0
    page.locator("th a", has=page.locator("span.name", has_text=re.compile("^/3$"))).click()
    expect(page.get_by_role("heading", name="Reason")).to_be_visible()
    expect(page.get_by_role("img", name="Duration of the last fetches in seconds")).to_be_visible()
    expect(page.locator("article h3").first).to_contain_text("/3/")

    origin.edition = "fetched for an admin"
    page.get_by_role("button", name="Fetch now").click()
    expect(page.get_by_text("Queued for fetching: /3.")).to_be_visible()
    edited = f"/3/one {origin.edition}"
    eventually(lambda: edited in served(stack), 30, "what the admin asked for is served")
    page.reload()
    expect(page.get_by_role("link", name=edited).or_(page.get_by_text(edited))).to_be_visible()
    assert (admin.hosts, admin.complaints) == ({stack.host}, [])


@pytest.mark.browser
@pytest.mark.no_database
def test_an_admin_imports_a_list_follows_it_and_makes_two_feeds_one(
    stack: Stack, admin: Visit, origin: FeedServers, tmp_path: Path
) -> None:
    page, file = admin.page, tmp_path / "more.opml"
    rows = [
        ListedFeed(addresses.read_address(f"{origin.urls[0]}/more/{name}"), name, categories=(MORE,)) for name in "ab"
    ]
    file.write_bytes(opml.write_opml(rows, "More", NOW))
    page.get_by_role("link", name="Import OPML").click()
    page.get_by_label("OPML file").set_input_files(file)
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("region", name="Nothing was changed")).to_contain_text(rows[0].address.url)
    page.get_by_label("OPML file").set_input_files(file)
    page.get_by_label("Follow these feeds").check()
    page.get_by_label("Preview only").uncheck()
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_text("Feeds added: 2")).to_be_visible()

    page.goto(f"{stack.base_url}/admin/feeds/category/")
    expect(page.get_by_role("link", name=" / ".join(MORE))).to_be_visible()
    page.goto(f"{stack.base_url}/admin/feeds/follow/")
    expect(page.locator("#result_list tbody tr", has_text=EDITOR)).to_have_count(2)
    page.goto(f"{stack.base_url}/admin/feeds/scan/")
    expect(page.get_by_role("columnheader", name="duration ÷ lower bound")).to_be_visible()
    eventually(lambda: largest_scan(stack), 30, "a scan has ended")
    scan, fetches = largest_scan(stack)
    page.goto(f"{stack.base_url}/admin/feeds/scan/{scan}/change/")
    assert int(fetches) > 1
    expect(page.locator("svg rect[class^=fetch-]")).to_have_count(int(fetches))
    expect(page.locator("svg polyline.rate")).to_have_count(1)

    page.goto(f"{stack.base_url}/admin/feeds/feed/?q=more")
    page.get_by_role("checkbox", name=re.compile("Select all")).check()
    page.get_by_role("combobox", name="Action").select_option("merge")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_text("This cannot be undone.")).to_be_visible()
    page.get_by_role("button", name="Merge").click()
    expect(page.get_by_text(re.compile("Feeds merged into “[ab]”: 1."))).to_be_visible()
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    assert (admin.hosts, admin.complaints) == ({stack.host}, [])
