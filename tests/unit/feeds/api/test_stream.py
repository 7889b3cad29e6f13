"""The stream of changes: as its places are read, and as main answers it."""

import asyncio
import json
from typing import Any

import pytest
from django.test import Client

from feeds import lifecycle
from feeds.change_stream import ChangeStream
from feeds.changes import numbers
from feeds.models import Feed
from resources import database
from retry.responses import ClientReply
from tests.support.feed_rows import NOW, add, entry, feed
from tests.unit.resources.api.conftest import Caller, problem


def number() -> None:
    numbers.heal_memberships()
    numbers.number_changes(NOW)


def data_of(text: str) -> Any:
    """The data of the only event."""
    [line] = [line for line in text.splitlines() if line.startswith("data: ")]
    return json.loads(line.removeprefix("data: "))


class Front:
    """Main, as the waiting instance reaches it by the front."""

    async def read(self, host: str, path: str) -> tuple[int, bytes]:
        answer = await asyncio.to_thread(database.run_then_disconnect, lambda: Client().get(path))
        return answer.status_code, answer.content


def opened() -> ChangeStream:
    stream = ChangeStream()
    stream._front = Front()  # type: ignore[assignment]
    return stream


@pytest.fixture
def sea(transactional_db: None) -> Feed:
    made = feed("sea", entry(1))
    number()
    return made


async def _follow(given: dict[str, str], last_id: str = "") -> tuple[str, str]:
    stream = opened()
    place = await stream.begin(given, last_id, "testserver")
    assert isinstance(place, str), place
    page = await stream.read(place)
    return stream.event_id(page.place), page.text.decode()


def follow(given: dict[str, str], last_id: str = "") -> tuple[str, str]:
    """The place after the first event, and its text."""
    return asyncio.run(_follow(given, last_id))


def refused(given: dict[str, str], last_id: str = "") -> int:
    answer = asyncio.run(opened().begin(given, last_id, "testserver"))
    assert isinstance(answer, ClientReply)
    return answer.status


def test_it_begins_now_and_goes_on_after_the_last_event(sea: Feed) -> None:
    place, text = follow({})
    assert text == f"id: {place}\n\n"
    add(sea, entry(2))
    number()
    later, text = follow({"changed_since": "x"}, last_id=place)
    assert [change["entry"]["title"] for change in data_of(text)["changes"]] == ["Entry 2"]
    assert data_of(text)["cursor"] == later
    assert f"id: {later}\n" in text
    assert follow({}, last_id=later)[0] == later


def test_one_feed_can_be_followed_unless_it_is_hidden(sea: Feed) -> None:
    place, _ = follow({"feed": "sea"})
    add(sea, entry(2))
    add(feed("land"), entry(3))
    number()
    _, text = follow({"feed": "sea"}, place)
    assert [change["feed"] for change in data_of(text)["changes"]] == ["sea"]
    lifecycle.hide_feeds([sea.pk], NOW)
    assert refused({"feed": "sea"}, place) == 404


def test_wrong_selections_and_cursors_are_refused(sea: Feed) -> None:
    place, _ = follow({"feed": "sea"})
    assert refused({}, place) == 410
    assert refused({"changed_since": "nothing"}) == 422
    assert refused({"feed": "none"}) == 404
    assert refused({"category": "none"}) == 404
    assert refused({"feed": "a", "category": "b"}) == 422


def test_main_answers_one_event_where_no_waiting_instance_runs(sea: Feed, anybody: Caller) -> None:
    place, _ = follow({})
    add(sea, entry(2))
    number()
    answer = anybody.get("/api/entries/stream", **{"Last-Event-ID": place})
    assert answer["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answer.content.startswith(f"retry: 3000\nid: {place}\n\nevent: changes\n".encode())
    assert "no feed" in problem(anybody.get("/api/entries/stream?feed=none"), 404)
