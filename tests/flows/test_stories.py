"""One story in several feeds, on the whole site: shown once in combinations, with the feeds that have it."""

import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
import requests

from ..support import file_server
from ..support.file_server import FileServer
from ..support.stack import Stack, eventually

SECONDS = 60
ATOM = "{http://www.w3.org/2005/Atom}"
REPORT = (
    "The lifeboat of Westhaven was called out at four in the morning when a trawler lost its rudder three miles off "
    "the point. The crew of six had a line across within the hour and towed her in against the ebb. Nobody was hurt, "
    "said the harbour master, who praised the calm of everyone aboard. The trawler will be lifted on Thursday, when "
    "the tide is high enough for the old slipway of the yard, and should fish again before the end of the month. "
    "It was the ninth call of the winter for the station, which has a crew of volunteers: two teachers, a baker, a "
    "plumber and the owner of the bookshop by the bridge. Their boat is sixteen years old and will be replaced next "
    "spring by one with water jets, which can work closer to the rocks. The town has paid a third of the price from "
    "the proceeds of the summer fair, the rest comes from a legacy and from the collecting boxes on the counters of "
    "every shop along the front. The skipper of the trawler, who learned his trade under his grandfather in the same "
    "harbour, said that he had felt the wheel go light in his hands and knew at once what it meant. He let go the "
    "anchor in twenty fathoms, called on the radio, and had soup warmed for all hands while they waited. On the quay "
    "their families stood with blankets and lamps until the two boats came round the end of the mole."
)
AGENCY = f"""<rss version="2.0"><channel><title>Agency</title><link>https://agency.example/</link>
<item><guid>https://agency.example/?p=1</guid><link>https://agency.example/2026/lifeboat/</link>
<title>Lifeboat tows trawler home</title><description>&lt;p&gt;{REPORT}&lt;/p&gt;</description></item>
<item><guid>https://agency.example/?p=2</guid><link>https://agency.example/2026/fair/</link>
<title>Fair opens on Monday</title><description>Stalls from nine.</description></item></channel></rss>"""
PLANET = """<feed xmlns="http://www.w3.org/2005/Atom"><title>Planet</title><id>tag:planet.example,2026:all</id>
<updated>2026-03-01T10:00:00Z</updated>
<entry><id>https://agency.example/?p=1</id><title>Agency: Lifeboat</title><updated>2026-03-01T10:00:00Z</updated>
<link href="https://planet.example/agency/1"/><summary>In short.</summary></entry>
<entry><id>tag:planet.example,2026:2</id><title>Agency: Fair</title><updated>2026-03-01T09:00:00Z</updated>
<link href="http://www.agency.example/2026/fair?utm_source=planet"/><summary>In short.</summary></entry></feed>"""


def write_paper(text: str) -> bytes:
    items = [
        {"id": "7", "url": "https://paper.example/local/7", "title": "Six saved off the point", "content_html": text}
    ]
    return json.dumps({"version": "https://jsonfeed.org/version/1.1", "title": "Paper", "items": items}).encode()


@pytest.fixture
def origin() -> Iterator[FileServer]:
    with file_server.running() as server:
        paper = write_paper("<p>More follows.</p>")
        server.files = {"/agency": AGENCY.encode(), "/planet": PLANET.encode(), "/paper": paper}
        yield server


@pytest.fixture
def add(stack: Stack, origin: FileServer) -> Iterator[Any]:
    """Adds a feed of the origin to the category Press, and waits until it is read."""
    token = stack.manage("create_token", "stories", "--feeds").strip()
    fields = {"Authorization": f"Bearer {token}"}

    def add_feed(name: str) -> None:
        body = {"url": f"{origin.url}/{name}", "title": name.title(), "categories": [["Press"]]}
        answer = requests.post(f"{stack.base_url}/api/feeds", json=body, headers=fields, timeout=SECONDS)
        assert answer.status_code == 201, answer.text
        eventually(lambda: any(one["feed"] == answer.json()["slug"] for one in changes(stack)), SECONDS, "it is read")

    yield add_feed
    stack.manage("shell", "-c", "from feeds.models import Feed, Category; Feed.objects.all().delete()")
    stack.manage("shell", "-c", "from feeds.models import Category; Category.objects.filter(slug='press').delete()")
    stack.manage("shell", "-c", "from resources.tokens.models import ApiToken as T; T.objects.all().delete()")


def changes(stack: Stack) -> list[Any]:
    answer = requests.get(f"{stack.base_url}/api/entries", timeout=SECONDS)
    return [one for one in answer.json()["changes"] if one["change"] == "entry"]


def combined(stack: Stack) -> dict[str, list[str]]:
    """The titles of the combination's entries, each with the feeds that have it too."""
    answer = requests.get(f"{stack.base_url}/feeds/category/press.atom", timeout=SECONDS)
    entries = ElementTree.fromstring(answer.content).iter(f"{ATOM}entry")
    return {
        one.findtext(f"{ATOM}title", ""): [
            link.get("title", "") for link in one.iterfind(f"{ATOM}link[@rel='related']")
        ]
        for one in entries
    }


def test_a_story_of_several_feeds_is_shown_once_by_id_link_and_text(stack: Stack, origin: FileServer, add: Any) -> None:
    for name in ("agency", "planet", "paper"):
        add(name)
    apart = {
        "Lifeboat tows trawler home": ["Planet"],
        "Fair opens on Monday": ["Planet"],
        "Six saved off the point": [],
    }
    eventually(lambda: combined(stack) == apart, SECONDS, "the planet's entries are those of the agency")

    origin.files["/paper"] = write_paper(f"<p>{REPORT.replace('hurt', 'injured')}</p>")
    flag = "from feeds.models import Feed; from feeds import feed_rows; from datetime import datetime, UTC; "
    stack.manage(
        "shell", "-c", f"{flag}feed_rows.flag_feeds(Feed.objects.values_list('pk', flat=True), datetime.now(UTC))"
    )
    once = {"Lifeboat tows trawler home": ["Planet", "Paper"], "Fair opens on Monday": ["Planet"]}
    eventually(lambda: combined(stack) == once, SECONDS, "the paper's entry has the same text by now")

    own_feeds = {"agency", "planet", "paper"}  # another test's feeds may still be there
    stories = {one["entry"]["title"]: one["story"] for one in changes(stack) if one["feed"] in own_feeds}
    assert len(stories) == 5
    assert len(set(stories.values())) == 2
    own = requests.get(f"{stack.base_url}/feeds/paper.json", timeout=SECONDS).json()
    assert [item["title"] for item in own["items"]] == ["Six saved off the point"]
    found = requests.get(f"{stack.base_url}/api/search?q=injured&category=press", timeout=SECONDS).json()["entries"]
    assert [(one["feed"], [other["feed"] for other in one["also_in"]]) for one in found] == [
        ("paper", ["agency", "planet"])
    ]
