from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings

from feeds.models import Feed, Move
from feeds.pages import render
from feeds.parser.documents import EntrySource
from feeds.parser.documents import FeedHead as Feed_
from retry.contents import Prepared
from retry.errors import PreparationError
from tests.support import feed_rows
from tests.support.feed_rows import entry

pytestmark = pytest.mark.django_db

SCAN, STALE = 60, 86_400


@pytest.fixture(autouse=True)
def _times(settings: Settings) -> None:
    settings.FEEDS_SCAN_SECONDS, settings.FEEDS_STALE_SECONDS = SCAN, STALE


def prepared(address: str) -> Prepared:
    (page,) = render.prepare_page(address).values()
    return page


def due_in(seconds: float) -> Feed:
    row = feed_rows.feed("sea", entry(1))
    Feed.objects.update(next_check_at=datetime.now(UTC) + timedelta(seconds=seconds))
    return row


def test_a_page_is_fresh_until_scans_have_passed_its_feed_over_and_stale_for_a_day() -> None:
    due_in(600)
    page = prepared("/feeds/sea.atom")
    assert page.fresh_seconds == pytest.approx(600 + render.GRACE_SCANS * SCAN, abs=5)
    assert page.stale_seconds == STALE


def test_a_page_of_an_overdue_feed_is_not_shown_for_longer_than_a_day_after_its_time() -> None:
    due_in(-7200 - render.GRACE_SCANS * SCAN)
    page = prepared("/feeds/sea.atom")
    assert page.fresh_seconds == render.MIN_FRESH_SECONDS
    assert page.stale_seconds == pytest.approx(STALE - 7200, abs=5)


def test_pages_for_people_are_made_anew_before_long() -> None:
    due_in(50_000)
    assert prepared("/feeds/sea/").fresh_seconds == prepared("/feeds/").fresh_seconds == render.FRESH_HTML_SECONDS
    assert prepared("/feeds/all.atom").fresh_seconds == render.FRESH_FEED_SECONDS


def test_a_page_has_the_version_of_what_it_is_of() -> None:
    row, earth = due_in(600), feed_rows.category("earth")
    assert prepared("/feeds/sea.atom").version == row.version
    assert prepared("/feeds/category/earth.atom").version == earth.version


@pytest.mark.parametrize("address", ["/feeds/none.atom", "/feeds/category/none/"])
def test_what_is_not_there_any_more_is_told_as_such(address: str) -> None:
    with pytest.raises(PreparationError) as told:
        render.prepare_page(address)
    assert told.value.status == 404


SECRETS = {
    "token": "https://secret.example.org/feed?token=abcdef",
    "path": "https://secret.example.org/u/9f86d081884c7d659a2f/rss",
    "password": "https://secret.example.org/feed",
}


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("format_", [".atom", ".rss", ".json", "/"])
@pytest.mark.parametrize("path", ["/feeds/secret", "/feeds/category/open"])
def test_what_an_address_may_hide_is_on_no_page(path: str, format_: str, kind: str) -> None:
    url = SECRETS[kind]
    said = Feed_(id=url, title=url, link=url if kind == "path" else "https://secret.example.org/", self_link=url)
    repeated, quoted = ("" if kind == "password" else url), (url if kind == "path" else "")
    entries = [
        entry(1, id="7"),
        entry(2, id=f"{quoted}/8", content=f'<a href="{quoted}">here</a>'),
        entry(3, source=EntrySource(repeated, repeated, "")),
    ]
    row = feed_rows.feed("secret", *entries, said=said, url=url, user="me" if kind == "password" else "")
    feed_rows.category("open", row)
    body = prepared(f"{path}{format_}").body.decode()
    assert [hidden for hidden in (url.partition("://")[2], "abcdef", "9f86d081884c7d659a2f") if hidden in body] == []


@pytest.mark.parametrize("path", ["/feeds/sea.atom", "/feeds/all.json", "/feeds/sea/"])
def test_what_a_former_address_hides_stays_hidden(path: str) -> None:
    old = "https://old.example.org/9f86d081884c7d659a2f/rss"
    row = feed_rows.feed(
        "sea", entry(1, id=f"{old}#1", content=f"Read {old}"), validated_url="https://x.example.org/?key=redirected"
    )
    feed_rows.add(row, entry(2, content="key=redirected"))
    Move.objects.create(feed=row, moved_at=feed_rows.NOW, old_url=old, new_url=row.url, why="It has moved.")
    body = prepared(path).body
    assert b"9f86d081884c7d659a2f" not in body
    assert b"redirected" not in body


@pytest.mark.parametrize("path", ["/feeds/sea", "/feeds/all"])
@pytest.mark.parametrize("format_", [".atom", ".rss", ".json"])
def test_ids_stay_when_a_feed_has_moved(path: str, format_: str) -> None:
    row = feed_rows.feed("sea", entry(1, id="7"), entry(2, id="", link=""), url="http://sea.example.org/feed")
    before = prepared(f"{path}{format_}").body
    assert b"sea.example.org/feed" not in before
    Feed.objects.filter(pk=row.pk).update(url="https://sea.example.org/other")
    assert prepared(f"{path}{format_}").body == before
