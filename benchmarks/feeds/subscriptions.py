"""Feeds of a site under load: subscribed to at once, and a page of entries that main composes for each request."""

from collections.abc import Sequence
from uuid import uuid4

import requests

from tests.support import feed_server
from tests.support.stack import Stack, eventually

ENTRIES = 200
FETCHED_SECONDS = 60


def subscribe(stack: Stack, urls: Sequence[str]) -> None:
    """Adds them as feeds, by a list. Does not wait until they are fetched."""
    outlines = "".join(f'<outline type="rss" text="{url}" xmlUrl="{url}"/>' for url in urls)
    listed = stack.directory / f"{uuid4().hex}.opml"
    listed.write_text(f'<opml version="2.0"><head><title>Load</title></head><body>{outlines}</body></opml>')
    stack.manage("import_opml", str(listed))


def composed_page(stack: Stack) -> str:
    """The path of a feed's entries in the API, once they are there: main reads and writes them for each request."""
    with feed_server.running(1) as publishers:
        publishers.names = [uuid4().hex for _ in range(ENTRIES)]
        subscribe(stack, [f"{publishers.urls[0]}/feed"])
        [feed] = _asked(stack, "/api/feeds")["feeds"]
        path = f"/api/feeds/{feed['slug']}/entries?limit={ENTRIES}"
        eventually(lambda: len(_asked(stack, path)["entries"]) == ENTRIES, FETCHED_SECONDS, "the feed has its entries")
    return path


def _asked(stack: Stack, path: str) -> dict[str, list[dict[str, str]]]:
    answer = requests.get(stack.base_url + path, timeout=60)
    answer.raise_for_status()
    found: dict[str, list[dict[str, str]]] = answer.json()
    return found
