"""Work of a page: when a feed is fetched first, and the answer for a missing page."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings

from feeds.pages import work
from feeds.pages.work import FetchThenRender, MissingPage, PageState, describe_request
from resources.traffic import counter
from resources.traffic.asked import Asked
from tests.support.feed_rows import NOW, version_at

GRACE, STALE = timedelta(minutes=2), timedelta(days=1)
WELL = PageState(
    version_at(NOW - timedelta(days=2)), False, NOW + timedelta(hours=1), checked_at=NOW, fetched_at=NOW, trouble=""
)
NEW = replace(WELL, version=0, next_check_at=NOW, checked_at=None, fetched_at=None)


def decided(feed: PageState) -> FetchThenRender | MissingPage | None:
    return work.decide_page(feed, NOW, grace=GRACE, stale=STALE)


def late(by: timedelta, feed: PageState = WELL) -> PageState:
    return replace(feed, next_check_at=NOW - by)


def test_what_is_kept_is_rendered_until_scans_pass_the_feed_over() -> None:
    for feed in (WELL, late(timedelta(0)), late(GRACE), replace(WELL, trouble="SERVER")):
        assert decided(feed) is None


def test_who_reads_an_overdue_feed_has_it_fetched_and_reads_what_is_kept_for_a_day() -> None:
    for by, has_entries in ((GRACE + timedelta(seconds=1), True), (STALE, True), (STALE + GRACE, False)):
        assert decided(late(by)) == FetchThenRender(version_at(NOW - by), has_entries)


def test_pages_of_an_overdue_feed_are_out_of_date_whatever_touched_them() -> None:
    touched = late(timedelta(hours=1), replace(WELL, version=version_at(NOW)))
    assert decided(touched) == FetchThenRender(version_at(NOW) + 1, has_entries=True)


def test_a_new_feed_is_fetched_for_its_first_reader() -> None:
    for at in (NOW, NOW + timedelta(hours=1)):
        assert decided(replace(NEW, next_check_at=at)) == FetchThenRender(version_at(at), has_entries=False)


def test_a_feed_that_never_came_is_left_alone_until_its_next_check() -> None:
    failing = replace(NEW, checked_at=NOW, trouble="SERVER", next_check_at=NOW + timedelta(minutes=15))
    found = decided(failing)
    assert isinstance(found, MissingPage)
    assert (found.status, found.wait_seconds) == (502, 900)
    assert decided(late(timedelta(0), failing)) == FetchThenRender(version_at(NOW), has_entries=False)


def test_a_paused_feed_is_never_fetched() -> None:
    for feed in (late(2 * STALE), NEW, replace(NEW, checked_at=NOW)):
        assert decided(replace(feed, paused=True)) is None


@pytest.mark.parametrize(
    ("trouble", "status", "word"),
    [("TIMEOUT", 504, "timeout"), ("MISSING", 502, "not found"), ("OURS", 503, "this site"), ("", 503, "not")],
)
def test_what_is_lacking_is_told_with_a_status_and_a_sentence(trouble: str, status: int, word: str) -> None:
    told = work.explain_missing_page(trouble, NOW + timedelta(minutes=1), NOW)
    assert (told.status, told.wait_seconds) == (status, 60)
    assert word in told.detail


def test_a_feed_that_was_announced_at_its_address_comes_in_a_moment() -> None:
    told = work.explain_missing_page("", NOW, NOW)
    assert (told.status, told.wait_seconds) == (503, 1.0)


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("/feeds/sea.atom", Asked("feed", "atom", "feed:sea:atom:", noted="sea")),
        ("/feeds/sea.json", Asked("feed", "json", "feed:sea:json:", noted="sea")),
        ("/feeds/sea/", Asked("feed", "html", "feed:sea:html:")),
        ("/feeds/all.rss", Asked("feeds", "rss", "feeds:all:rss:", noted="all")),
        ("/feeds/category/sea.rss", Asked("feeds", "rss", "feeds:sea:rss:", noted="sea")),
        ("/feeds/", Asked("feeds", "html", "feeds:all:html:")),
        ("/feeds/sea", None),
        ("/feeds/sea.xml", None),
    ],
)
def test_programs_that_fetch_a_feed_or_a_combination_are_its_readers(address: str, found: Asked | None) -> None:
    assert describe_request(address) == found


def test_the_site_counts_feeds_and_their_readers() -> None:
    assert counter.name_address("/feeds/sea.atom") == describe_request("/feeds/sea.atom")
    assert {"feed", "feeds"} <= counter.load_noters(tuple(settings.TRAFFIC_NOTED.items())).keys()
    assert "/feeds/" in settings.TRAFFIC_READERS
