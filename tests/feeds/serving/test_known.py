from typing import Any

import pytest
from django.db import OperationalError
from pytest_django import Settings

from feeds.composing import subjects
from feeds.composing.asking import Asked
from feeds.composing.errors import UnknownError
from feeds.models import Feed
from feeds.serving import known
from tests.feeds import rows

pytestmark = pytest.mark.django_db

SEA = Asked.page_of_feed("sea")


def away(_: Asked) -> Any:
    raise OperationalError("the database is away")


def test_a_row_is_read_once_in_a_while(settings: Settings, django_assert_num_queries: Any) -> None:
    rows.feed("sea")
    settings.FEEDS_KNOWN_SECONDS = 60
    with django_assert_num_queries(1):
        assert {known.subject(SEA).slug for _ in range(3)} == {"sea"}


def test_a_change_is_known_after_the_time(settings: Settings) -> None:
    rows.feed("sea")
    known.subject(SEA)
    Feed.objects.update(version=7)
    assert known.subject(SEA).version == 7


def test_what_is_not_there_is_looked_for_each_time() -> None:
    with pytest.raises(UnknownError):
        known.subject(SEA)
    row = rows.feed("sea")
    assert known.subject(SEA) == row
    row.delete()
    with pytest.raises(UnknownError):
        known.subject(SEA)


def test_what_was_known_counts_while_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    row = rows.feed("sea")
    known.subject(SEA)
    monkeypatch.setattr(subjects, "find_standing", away)
    assert known.subject(SEA) == row
    with pytest.raises(OperationalError):
        known.subject(Asked.page_of_feed("land"))


def test_a_process_remembers_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "REMEMBERED", 2)
    for slug in ("a", "b", "c"):
        rows.feed(slug)
        known.subject(Asked.page_of_feed(slug))
    assert len(known._known) <= 2


def test_all_that_is_asked_of_a_row_is_read_at_once(django_assert_num_queries: Any) -> None:
    rows.feed("sea")
    with django_assert_num_queries(1):
        row = known.subject(SEA)
        assert isinstance(row, Feed)
        _ = (row.version, row.paused, row.next_check_at, row.checked_at, row.fetched_at, row.trouble, row.url)
        _ = (row.user, row.sealed_password, row.sealed_headers)
