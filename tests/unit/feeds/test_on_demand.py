"""Feeds that are fetched on a reader's request, by a real fetcher and real Redis servers."""

from datetime import UTC, datetime, timedelta

import pytest
from django.http import HttpResponse
from django.test import Client

from feeds.models import Feed
from feeds.pages.work import FetchThenRender
from feeds.tasks import render_feed_page
from tests.hostile.origin import Origin, answer
from tests.support.feed_pages import read
from tests.support.feed_scans import feed, in_a_loop, rss, subscribe, wait_until
from tests.support.fetcher_threads import fetching

pytestmark = pytest.mark.usefixtures("gathering")


def got(address: str) -> HttpResponse:
    answered = Client().get(address)
    assert isinstance(answered, HttpResponse)
    return answered


def waited_for(address: str) -> HttpResponse:
    """The answer that ends the wait of a client in the waiting instance."""
    wait_until(lambda: got(address).status_code != 302)
    return got(address)


def titles(found: HttpResponse) -> list[str]:
    assert found.status_code == 200
    return read(found.content, "atom").titles


def make_overdue(by: timedelta) -> None:
    Feed.objects.update(next_check_at=datetime.now(UTC) - by)


def test_a_feed_that_was_never_fetched_is_fetched_for_its_first_readers_once() -> None:
    addresses = [f"/feeds/a.atom?limit={limit}" for limit in (1, 2, 3)]
    with in_a_loop(Origin) as origin:
        subscribe(origin.does("/f", feed(rss("one", "two"))), "a")
        assert [got(address).status_code for address in addresses] == [302] * 3
        with in_a_loop(fetching):
            found = [titles(waited_for(address)) for address in addresses]
        assert found == [["two"], ["two", "one"], ["two", "one"]]
        assert len(origin.asked) == 1


def test_who_comes_just_after_a_fetch_gets_what_it_brought_without_another(
    monkeypatch: pytest.MonkeyPatch, origin: Origin
) -> None:
    row = subscribe(origin.does("/f", feed(rss("one"))), "a")
    monkeypatch.setattr("feeds.views.decide_for_feed", lambda _: FetchThenRender(row.version + 1, has_entries=False))
    for format_name in ("atom", "rss", "json"):
        assert (waited_for(f"/feeds/a.{format_name}")).status_code == 200
    assert len(origin.asked) == 1


def test_an_overdue_feed_is_served_as_it_is_while_it_is_fetched(origin: Origin) -> None:
    subscribe(origin.does("/f", feed(rss("one"))), "a")
    waited_for("/feeds/a.atom")
    origin.does("/f", feed(rss("one", "two")))
    make_overdue(timedelta(hours=1))
    assert titles(got("/feeds/a.atom")) == ["one"]
    wait_until(lambda: titles(got("/feeds/a.atom")) == ["two", "one"])
    assert len(origin.asked) == 2


def test_who_reads_nothing_of_an_overdue_feed_yet_gets_what_is_kept_without_a_fetch(
    monkeypatch: pytest.MonkeyPatch, origin: Origin
) -> None:
    subscribe(origin.does("/f", feed(rss("one"))), "a")
    waited_for("/feeds/a.atom")
    make_overdue(timedelta(hours=1))
    handed: list[tuple[str, str, int, tuple[str, ...], str]] = []
    monkeypatch.setattr("retry.lanes.publish_work", lambda *call: handed.append(call))
    assert got("/feeds/a.atom?limit=7").status_code == 302
    ((task, work_key, token, arguments, lane),) = handed
    assert (task, lane) == (render_feed_page.name, "paint.now")
    render_feed_page(work_key, token, *arguments)
    assert titles(got("/feeds/a.atom?limit=7")) == ["one"]
    assert [(call[0], call[-1]) for call in handed[1:]] == [("feeds.fetch", "fetch.refresh")]
    assert len(origin.asked) == 1


def test_a_feed_that_fails_for_its_first_reader_says_why_and_is_left_alone(origin: Origin) -> None:
    subscribe(origin.does("/f", answer("404 Not Found")), "a")
    for _ in range(3):
        found = waited_for("/feeds/a.atom")
        assert found.status_code == 502
        assert b"not found" in found.content
        assert int(found["Retry-After"]) >= 600
    assert len(origin.asked) == 1


def test_a_feed_that_fails_later_is_served_as_it_was(origin: Origin) -> None:
    subscribe(origin.does("/f", feed(rss("one"))), "a")
    waited_for("/feeds/a.atom")
    origin.does("/f", answer("500 Internal Server Error"))
    make_overdue(timedelta(days=2))
    assert titles(waited_for("/feeds/a.atom?limit=5")) == ["one"]
    assert len(origin.asked) == 2
