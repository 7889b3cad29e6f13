"""Pages of feeds: served, deferred, refused, rendered before the next request; and the rows that a process knows."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import OperationalError
from django.test import Client
from pytest_django import Settings

from feeds import lifecycle, views
from feeds.errors import UnknownFeedError
from feeds.models import Category, Feed
from feeds.pages import page_entries
from feeds.pages.query import PageQuery
from feeds.parser import markup
from tests.conftest import RedisServers
from tests.support import feed_rows
from tests.support.feed_pages import MEDIA_TYPES, Read, read
from tests.support.feed_rows import entry

from .conftest import Workers

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]


class Reader:
    """A client that waits for missing content."""

    def __init__(self, client: Client, workers: Workers) -> None:
        self._client = client
        self._workers = workers

    def get(self, address: str) -> Read:
        first = self._client.get(address)
        if first.status_code == 302:
            self._workers.work()
            first = self._client.get(address)
        format_name = urlsplit(address).path.rpartition(".")[2]
        assert (first.status_code, first["Content-Type"]) == (200, MEDIA_TYPES[format_name])
        return read(first.content, format_name)


@pytest.fixture
def reader(client: Client, workers: Workers) -> Reader:
    return Reader(client, workers)


@pytest.mark.parametrize("format_name", MEDIA_TYPES)
def test_a_feed_is_served_in_every_format(reader: Reader, format_name: str) -> None:
    feed_rows.feed("sea", entry(1), entry(2), title="My sea")
    found = reader.get(f"/feeds/sea.{format_name}")
    assert (found.title, found.titles) == ("My sea", ["Entry 2", "Entry 1"])
    assert found.links["self"].endswith(f"/feeds/sea.{format_name}")
    assert found.links["alternate"] == "https://sea.example.org/"


@pytest.mark.parametrize("format_name", MEDIA_TYPES)
def test_combinations_name_the_source_of_every_entry(reader: Reader, format_name: str) -> None:
    sea, land = feed_rows.feed("sea", entry(1, id="7")), feed_rows.feed("land", entry(2, id="7"))
    feed_rows.category("earth", sea, land)
    for address in (f"/feeds/all.{format_name}", f"/feeds/category/earth.{format_name}"):
        found = reader.get(address)
        assert found.ids == [f"tag:testserver,2026:entry:{feed.entries.get().pk}" for feed in (land, sea)]


@pytest.mark.parametrize("format_name", MEDIA_TYPES)
def test_entries_of_two_feeds_with_one_id_have_different_ids_that_stay(reader: Reader, format_name: str) -> None:
    sea, land = feed_rows.feed("sea", entry(1)), feed_rows.feed("land", entry(1, title="Copied"))
    land.entries.update(shared_id=1)
    copied = f"tag:testserver,2026:entry:{land.entries.get().pk}"
    assert sorted(reader.get(f"/feeds/all.{format_name}").ids) == ["https://site.example.org/1", copied]
    assert reader.get(f"/feeds/land.{format_name}").ids == ["https://site.example.org/1"]

    lifecycle.pause_feeds([sea.pk], datetime.now(UTC))
    views._known_subjects.clear()
    assert reader.get(f"/feeds/all.{format_name}").ids == [copied]


@pytest.mark.parametrize("format_name", MEDIA_TYPES)
def test_entries_stored_without_a_note_have_different_ids_too(reader: Reader, format_name: str) -> None:
    feed_rows.feed("sea", entry(1))
    land = feed_rows.feed("land", entry(1))
    copied = f"tag:testserver,2026:entry:{land.entries.get().pk}"
    assert sorted(reader.get(f"/feeds/all.{format_name}").ids) == ["https://site.example.org/1", copied]


def test_a_category_has_what_is_below_it_and_no_more(reader: Reader) -> None:
    sea, fish, land = (feed_rows.feed(slug, entry(at)) for at, slug in enumerate(("sea", "fish", "land")))
    below = feed_rows.category("below", fish, sea, parent=feed_rows.category("above", sea))
    feed_rows.category("deepest", land, parent=below)
    feed_rows.category("beside")
    assert reader.get("/feeds/category/above.atom").titles == ["Entry 2", "Entry 1", "Entry 0"]
    assert reader.get("/feeds/category/below.atom").titles == ["Entry 2", "Entry 1", "Entry 0"]
    assert reader.get("/feeds/category/deepest.atom").titles == ["Entry 2"]
    assert reader.get("/feeds/category/beside.atom").titles == []


def test_a_paused_feed_is_in_no_combination_and_still_served(reader: Reader) -> None:
    sea = feed_rows.feed("sea", entry(1), paused=True)
    feed_rows.category("earth", sea, feed_rows.feed("land", entry(2)))
    assert reader.get("/feeds/all.rss").titles == ["Entry 2"]
    assert reader.get("/feeds/category/earth.rss").titles == ["Entry 2"]
    assert reader.get("/feeds/sea.rss").titles == ["Entry 1"]


def test_a_newer_version_is_rendered_while_the_older_one_is_served(
    client: Client, reader: Reader, workers: Workers
) -> None:
    sea = feed_rows.feed("sea", entry(1))
    reader.get("/feeds/sea.atom")
    feed_rows.add(sea, entry(2))
    Feed.objects.update(version=sea.version + 1)
    stale = client.get("/feeds/sea.atom")
    assert read(stale.content, "atom").titles == ["Entry 1"]
    assert workers.calls[0][-1] == "paint.refresh"
    workers.work()
    fresh = client.get("/feeds/sea.atom")
    assert read(fresh.content, "atom").titles == ["Entry 2", "Entry 1"]


def test_the_same_version_is_the_same_bytes(client: Client, reader: Reader, redis_servers: RedisServers) -> None:
    feed_rows.feed("sea", entry(1, published=None))
    feed_rows.category("earth", feed_rows.feed("land", entry(2, published=None)))
    for address in ("/feeds/sea.atom", "/feeds/all.atom", "/feeds/category/earth.rss"):
        reader.get(address)
        etag = client.get(address)["ETag"]
        redis_servers.cache.client.flushall()
        redis_servers.state.client.flushall()
        reader.get(address)
        assert client.get(address, headers={"If-None-Match": etag}).status_code == 304


def test_there_may_be_nothing_at_all(reader: Reader) -> None:
    for format_name in MEDIA_TYPES:
        assert reader.get(f"/feeds/all.{format_name}").titles == []


@pytest.mark.parametrize(
    "address", ["/feeds/none.atom", "/feeds/category/none.rss", "/feeds/none.xml", "/feeds/all/none.atom", "/feeds/x/"]
)
def test_what_is_not_there_displaces_what_was(client: Client, address: str) -> None:
    answer = client.get(address)
    assert (answer.status_code, answer["Cache-Control"]) == (404, "public, max-age=1")
    assert answer["Content-Type"] == "application/problem+json"


def test_bad_parameters_are_refused_at_once(client: Client, workers: Workers) -> None:
    feed_rows.feed("sea")
    answer = client.get("/feeds/sea.atom?limit=0")
    assert (answer.status_code, answer["Cache-Control"]) == (400, "no-store")
    assert "limit" in answer.json()["detail"]
    assert workers.calls == []


def test_a_feed_that_went_away_meanwhile_is_404(client: Client, workers: Workers) -> None:
    sea = feed_rows.feed("sea", entry(1))
    client.get("/feeds/sea.atom")
    sea.delete()
    workers.work()
    assert client.get("/feeds/sea.atom").status_code == 404


@pytest.mark.parametrize("leave", [lifecycle.pause_feeds, lifecycle.remove_feeds])
def test_what_has_left_a_combination_is_shown_to_nobody_also_where_nobody_has_asked_since(
    client: Client, reader: Reader, leave: Callable[[list[int], datetime], int]
) -> None:
    sea, land = feed_rows.feed("sea", entry(1)), feed_rows.feed("land", entry(2))
    earth = feed_rows.category("earth", sea, land, parent=feed_rows.category("world"))
    feed_rows.category("else", land)
    addresses = [f"/feeds/{name}.atom" for name in ("all", "category/earth", "category/world")]
    assert all(reader.get(address).titles == ["Entry 2", "Entry 1"] for address in addresses)
    assert reader.get("/feeds/category/else.atom").titles == ["Entry 2"]

    leave([sea.pk], datetime.now(UTC))
    assert [client.get(address).status_code for address in addresses] == [302, 302, 302]
    assert [reader.get(address).titles for address in addresses] == [["Entry 2"]] * 3
    assert client.get("/feeds/category/else.atom").status_code == 200
    assert earth.version < Category.objects.get(pk=earth.pk).version


def test_a_feed_that_comes_back_into_a_combination_keeps_nobody_waiting(client: Client, reader: Reader) -> None:
    sea = feed_rows.feed("sea", entry(1), paused=True)
    feed_rows.category("earth", sea, feed_rows.feed("land", entry(2)))
    reader.get("/feeds/category/earth.atom")
    lifecycle.resume_feeds([sea.pk], datetime.now(UTC))
    assert read(client.get("/feeds/category/earth.atom").content, "atom").titles == ["Entry 2"]


def test_a_slug_given_anew_shows_nothing_of_the_feed_that_had_it(client: Client, reader: Reader) -> None:
    sea = feed_rows.feed("sea", entry(1))
    reader.get("/feeds/sea.atom")
    lifecycle.remove_feeds([sea.pk], datetime.now(UTC))
    feed_rows.feed("sea", key_digest="other", version=0)
    assert client.get("/feeds/sea.atom").status_code == 302
    assert reader.get("/feeds/sea.atom").titles == []


def test_the_address_of_a_feed_that_was_merged_leads_to_the_one_that_was_kept(client: Client) -> None:
    sea, water, land = feed_rows.feed("sea"), feed_rows.feed("water"), feed_rows.feed("land")
    lifecycle.merge_feeds(water.pk, [sea.pk], datetime.now(UTC))
    lifecycle.merge_feeds(land.pk, [water.pk], datetime.now(UTC))
    for address, place in (
        ("/feeds/sea.atom?q=x&limit=3", "/feeds/land.atom?q=x&limit=3"),
        ("/feeds/water/", "/feeds/land/"),
    ):
        answer = client.get(address)
        assert (answer.status_code, answer["Location"]) == (301, place)
        assert "max-age=" in answer["Cache-Control"]
    assert client.get("/feeds/category/sea.atom").status_code == 404
    lifecycle.remove_feeds([land.pk], datetime.now(UTC))
    assert client.get("/feeds/sea.atom").status_code == 404


NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Accept": "text/html"}


@pytest.mark.parametrize("address", ["/feeds/", "/feeds/sea/", "/feeds/category/earth/?q=text"])
def test_people_wait_for_a_page_like_everybody_and_then_get_it(client: Client, workers: Workers, address: str) -> None:
    feed_rows.category("earth", feed_rows.feed("sea", entry(1)))
    waiting = client.get(address, headers=NAVIGATION)
    assert (waiting.status_code, waiting["Cache-Control"]) == (302, "no-store")
    assert "&page=&" in waiting["Location"]
    workers.work()
    page = client.get(address, headers=NAVIGATION)
    assert (page.status_code, page["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"Entry 1" in page.content
    assert "script-src" not in page["Content-Security-Policy"]
    assert "default-src 'none'" in page["Content-Security-Policy"]
    again = client.get(address, headers={"If-None-Match": page["ETag"]})
    assert (again.status_code, "Content-Security-Policy" in again) == (304, False), "the client's policy stays"


@pytest.mark.parametrize(
    ("changes", "allowed", "host"),
    [
        ({}, [], "sea.example.org"),
        ({"url": "http://192.0.2.7/feed"}, [], ""),
        ({"user": "me"}, [], ""),
        ({}, ["10.0.0.0/8"], ""),
    ],
)
def test_the_waiting_page_names_no_private_server(
    client: Client, settings: Settings, changes: dict[str, Any], allowed: list[str], host: str
) -> None:
    settings.FETCH_ALLOW_PRIVATE, settings.SAMPLES = [*allowed, "127.0.0.2:8000"], "127.0.0.2:8000"
    feed_rows.feed("sea", **{"fetched_at": None, "checked_at": None, **changes})
    waiting = client.get("/feeds/sea/", headers=NAVIGATION)
    assert parse_qs(urlsplit(waiting["Location"]).query, keep_blank_values=True)["page"] == [host]


@pytest.mark.parametrize("path", ["/feeds/", "/feeds/sea/", "/feeds/sea.atom", "/feeds/all.json"])
def test_arguments_of_other_sites_are_redirected_away(client: Client, path: str) -> None:
    for query, rest in (("utm_source=x&fbclid=y", ""), ("ref=z&limit=3&q=%C3%A9", "?q=%C3%A9&limit=3")):
        answer = client.get(f"{path}?{query}")
        assert (answer.status_code, answer["Location"]) == (301, f"{path}{rest}")
        assert (answer["Cache-Control"], answer["Access-Control-Allow-Origin"]) == ("no-store", "*")
    assert client.get(f"{path}?ref=z&limit=0").status_code == 400


@pytest.mark.parametrize("address", ["/feeds/none/", "/feeds/?limit=0", "/feeds/none.atom"])
def test_people_are_told_on_a_page_what_is_wrong(client: Client, address: str) -> None:
    problem, page = client.get(address), client.get(address, headers=NAVIGATION)
    assert (problem["Content-Type"], page["Content-Type"]) == ("application/problem+json", "text/html; charset=utf-8")
    assert problem.status_code == page.status_code
    assert problem["Vary"] == page["Vary"] == "Accept, Sec-Fetch-Mode"


@pytest.mark.parametrize("address", ["/feeds", "/feeds/sea", "/feeds/category/earth", "/feeds/none"])
def test_an_address_without_its_slash_leads_to_the_page(client: Client, address: str) -> None:
    answer = client.get(address)
    assert (answer.status_code, answer["Location"]) == (301, f"{address}/")


def test_pictures_may_come_from_where_clients_wait() -> None:
    assert "img-src 'self';" in views.content_security_policy("/retry_after")
    assert "img-src 'self' https://wait.example.org;" in views.content_security_policy("https://wait.example.org/r")


@pytest.mark.parametrize(
    ("counted_key", "address"),
    [
        ("feed:sea:atom:", "/feeds/sea.atom"),
        ("feed:sea:html:", "/feeds/sea/"),
        ("feeds:earth:rss:", "/feeds/category/earth.rss"),
        ("feeds:all:html:", "/feeds/"),
    ],
)
def test_the_work_of_a_popular_page_is_what_main_would_have_done(
    client: Client, workers: Workers, counted_key: str, address: str
) -> None:
    feed_rows.category("earth", feed_rows.feed("sea", entry(1)))
    found = views.warm_piece(counted_key, 7.0)
    assert found is not None
    assert (found.work.lane, found.requests, found.wanted[0].address) == ("paint.warm", 7.0, address)
    assert client.get(address).status_code in {200, 302}
    [(_, work_key, *_)] = workers.calls
    assert work_key == found.work.key


@pytest.mark.parametrize("counted_key", ["feed:gone:atom:", "feed:sea:pdf:", "feed:sea:atom:q=x", "feed", "", "tile:a"])
def test_what_is_gone_or_has_parameters_has_none(counted_key: str) -> None:
    feed_rows.feed("sea", entry(1))
    assert views.warm_piece(counted_key, 7.0) is None


SEA = PageQuery.page_of_feed("sea")


def test_all_that_is_asked_of_a_row_is_read_once_in_a_while(settings: Settings, django_assert_num_queries: Any) -> None:
    feed_rows.feed("sea")
    settings.FEEDS_KNOWN_SECONDS = 60
    with django_assert_num_queries(1):
        (row,) = {views.find_known_subject(SEA) for _ in range(3)}
        assert isinstance(row, Feed)
        _ = (row.version, row.paused, row.next_check_at, row.checked_at, row.fetched_at, row.trouble, row.url)
        _ = (row.user, row.sealed_password, row.sealed_headers)
    Feed.objects.update(version=7)
    assert views.find_known_subject(SEA).version != 7
    settings.FEEDS_KNOWN_SECONDS = 0
    assert views.find_known_subject(SEA).version == 7


def test_what_is_not_there_is_looked_for_each_time() -> None:
    with pytest.raises(UnknownFeedError):
        views.find_known_subject(SEA)
    row = feed_rows.feed("sea")
    assert views.find_known_subject(SEA) == row
    row.delete()
    with pytest.raises(UnknownFeedError):
        views.find_known_subject(SEA)


def test_what_was_known_counts_while_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    row = feed_rows.feed("sea")
    views.find_known_subject(SEA)
    monkeypatch.setattr(page_entries, "find_subject", Mock(side_effect=OperationalError("away")))
    assert views.find_known_subject(SEA) == row
    with pytest.raises(OperationalError):
        views.find_known_subject(PageQuery.page_of_feed("land"))


def test_a_process_remembers_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MAX_KNOWN_SUBJECTS", 2)
    for slug in ("a", "b", "c"):
        feed_rows.feed(slug)
        views.find_known_subject(PageQuery.page_of_feed(slug))
    assert len(views._known_subjects) <= 2


def test_only_pages_with_videos_may_show_frames_of_youtube(client: Client, workers: Workers) -> None:
    feed_rows.feed("films", entry(1, youtube="aB3_dE6-hI9"))
    forged = '<iframe class="player" src="https://evil.example.org/"></iframe>'
    feed_rows.feed("sea", entry(1, content=markup.sanitise_html(forged, "https://sea.example.org/"), title=forged))
    policies = {}
    for slug in ("films", "sea"):
        client.get(f"/feeds/{slug}/")
        workers.work()
        policies[slug] = client.get(f"/feeds/{slug}/")["Content-Security-Policy"]
    assert "frame-src https://www.youtube-nocookie.com;" in policies["films"]
    assert "frame-src" not in policies["sea"]
