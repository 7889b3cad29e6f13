"""Filters on the whole site: a feed without its advertisements, and a planet of one tag, in every format and copy."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from ..support import file_server
from ..support.feed_copy import FeedCopy
from ..support.file_server import FileServer
from ..support.stack import Stack, eventually

SECONDS = 60
FORMATS = (".json", ".atom", ".rss", "/")
TAGGING = """
from datetime import UTC, datetime
from feeds import filters
from feeds.models import Category
planet = Category.objects.get(slug="planet-of-whales")
planet.filters.create(action="only", words="tag:whales")
filters.show_category_anew(planet.pk, datetime.now(UTC))
"""
REMOVING = """
from feeds.models import Category, Feed
from resources.tokens.models import ApiToken
Feed.objects.all().delete(); Category.objects.filter(slug="planet-of-whales").delete(); ApiToken.objects.all().delete()
"""


def document(**titles: str) -> bytes:
    """A feed with an entry for each id: its title, and its tags after a slash."""
    parts = {name: text.partition("/") for name, text in titles.items()}
    items = "".join(
        f"<item><guid isPermaLink='false'>{name}</guid><title>{title}</title>"
        f"{''.join(f'<category>{tag}</category>' for tag in tags.split(','))}</item>"
        for name, (title, _, tags) in parts.items()
    )
    return f"<rss version='2.0'><channel><title>Filtered</title>{items}</channel></rss>".encode()


@pytest.fixture
def origin(stack: Stack) -> Iterator[FileServer]:
    with file_server.running() as server:
        server.files = {"/filtered": document(a="Whales/Whales", b="[Ad] Nets/Whales", c="Terns/Birds")}
        yield server
    stack.manage("shell", "-c", REMOVING)


class Manager:
    """A program with a token that may manage feeds."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.fields = {"Authorization": f"Bearer {stack.manage('create_token', 'filtering', '--feeds').strip()}"}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        url = f"{self.stack.base_url}/api/feeds{path}"
        answer = requests.request(method, url, json=body, headers=self.fields, timeout=SECONDS)
        assert answer.ok, answer.text
        return answer.json()


def copy_of(stack: Stack, **selection: str) -> FeedCopy:
    def get(path: str) -> tuple[int, Any]:
        answer = requests.get(f"{stack.base_url}{path}", timeout=SECONDS)
        return answer.status_code, answer.json()

    return FeedCopy(get, selection)


def copied(copy: FeedCopy) -> list[str]:
    copy.sync()
    return sorted(one["entry"]["title"] for one in copy.entries.values())


def is_served(stack: Stack, place: str, titles: set[str]) -> bool:
    """True once a page has entries of these titles in all formats, and no others of this test."""
    texts = [requests.get(f"{stack.base_url}{place}{suffix}", timeout=SECONDS).text for suffix in FORMATS]
    every = {"Whales", "[Ad] Nets", "Terns", "[Ad] Oars"}
    return all(
        {title for title in every if re.search(rf'[>"]{re.escape(title)}[<"]', text)} == titles for text in texts
    )


def test_what_filters_hide_is_nowhere_and_comes_back_with_them_gone(stack: Stack, origin: FileServer) -> None:
    manager = Manager(stack)
    rules = [{"action": "hide", "pattern": r"^\[ad\]", "field": "title"}]
    wanted = {"url": f"{origin.url}/filtered", "categories": [["Planet of whales"]], "filters": rules}
    slug = manager.ask("POST", "", wanted)["slug"]
    feed, planet = copy_of(stack, feed=slug), copy_of(stack, category="planet-of-whales")
    eventually(lambda: copied(feed) == ["Terns", "Whales"], SECONDS, "the feed is read, and filtered")
    assert copied(planet) == ["Terns", "Whales"]
    page, place = f"/feeds/{slug}", "/feeds/category/planet-of-whales"
    eventually(lambda: is_served(stack, page, {"Whales", "Terns"}), SECONDS, "so is its page")

    stack.manage("shell", "-c", TAGGING)
    eventually(lambda: copied(planet) == ["Whales"], SECONDS, "the category is filtered")
    eventually(lambda: is_served(stack, place, {"Whales"}), SECONDS, "the page is made anew")
    assert is_served(stack, page, {"Whales", "Terns"}), "filters of a category are its own"

    origin.files = {"/filtered": document(a="Whales/Birds", c="Terns/Birds,Whales", d="[Ad] Oars/Whales")}
    manager.ask("POST", f"/{slug}/fetch")
    eventually(lambda: copied(planet) == ["Terns"], SECONDS, "entries are judged by their present tags")
    assert copied(feed) == ["Terns", "Whales"]

    manager.ask("PATCH", f"/{slug}", {"filters": []})
    everything = ["Terns", "Whales", "[Ad] Nets", "[Ad] Oars"]
    eventually(lambda: copied(feed) == everything, SECONDS, "all are shown again")
    eventually(lambda: is_served(stack, page, {*everything}), SECONDS, "on the page too")
    assert copied(planet) == ["Terns", "[Ad] Nets", "[Ad] Oars"]
    assert feed.counts["again"] == planet.counts["again"] == 0
