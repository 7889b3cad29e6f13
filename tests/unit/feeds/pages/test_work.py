from dataclasses import replace
from datetime import timedelta

import pytest

from feeds.composing.lacking import lack
from feeds.serving.deciding import Fetch, Render, Standing, Wait, decide
from tests.feeds.rows import NOW, version_at

GRACE, STALE = timedelta(minutes=2), timedelta(days=1)
WELL = Standing(
    version=version_at(NOW - timedelta(days=2)),
    paused=False,
    next_check_at=NOW + timedelta(hours=1),
    checked_at=NOW,
    fetched_at=NOW,
    trouble="",
)
NEW = replace(WELL, version=0, next_check_at=NOW, checked_at=None, fetched_at=None)


def decided(feed: Standing) -> Render | Fetch | Wait:
    return decide(feed, NOW, grace=GRACE, stale=STALE)


def late(by: timedelta, feed: Standing = WELL) -> Standing:
    return replace(feed, next_check_at=NOW - by)


def test_what_is_kept_is_rendered_until_scans_pass_the_feed_over() -> None:
    for feed in (WELL, late(timedelta(0)), late(GRACE), replace(WELL, trouble="SERVER")):
        assert decided(feed) == Render(WELL.version)


def test_who_reads_an_overdue_feed_has_it_fetched_and_reads_what_is_kept_for_a_day() -> None:
    for by, has_entries in ((GRACE + timedelta(seconds=1), True), (STALE, True), (STALE + GRACE, False)):
        assert decided(late(by)) == Fetch(version_at(NOW - by), has_entries)


def test_pages_of_an_overdue_feed_are_out_of_date_whatever_touched_them() -> None:
    touched = late(timedelta(hours=1), replace(WELL, version=version_at(NOW)))
    assert decided(touched) == Fetch(version_at(NOW) + 1, has_entries=True)


def test_a_new_feed_is_fetched_for_its_first_reader() -> None:
    assert decided(NEW) == Fetch(version_at(NOW), has_entries=False)
    assert decided(replace(NEW, next_check_at=NOW + timedelta(hours=1))) == Fetch(
        version_at(NOW + timedelta(hours=1)), has_entries=False
    )


def test_a_feed_that_never_came_is_left_alone_until_its_next_check() -> None:
    failing = replace(NEW, checked_at=NOW, trouble="SERVER", next_check_at=NOW + timedelta(minutes=15))
    found = decided(failing)
    assert isinstance(found, Wait)
    assert (found.lack.status, found.lack.wait_seconds) == (502, 900)
    assert decided(late(timedelta(0), failing)) == Fetch(version_at(NOW), has_entries=False)


def test_a_paused_feed_is_never_fetched() -> None:
    for feed in (late(2 * STALE), NEW, replace(NEW, checked_at=NOW)):
        assert decided(replace(feed, paused=True)) == Render(feed.version)


@pytest.mark.parametrize(
    ("trouble", "status", "word"),
    [
        ("TIMEOUT", 504, "slow"),
        ("MISSING", 502, "nothing at its address"),
        ("OURS", 503, "this site"),
        ("", 503, "not"),
    ],
)
def test_what_is_lacking_is_told_with_a_status_and_a_sentence(trouble: str, status: int, word: str) -> None:
    told = lack(trouble, NOW + timedelta(minutes=1), NOW)
    assert (told.status, told.wait_seconds) == (status, 60)
    assert word in told.detail


def test_a_feed_that_was_announced_at_its_address_comes_in_a_moment() -> None:
    told = lack("", NOW, NOW)
    assert (told.status, told.wait_seconds) == (503, 1.0)
