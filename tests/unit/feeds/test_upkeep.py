"""Mail about feeds that fail: when it is sent, to whom, about what."""

from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from pytest_django import Settings

from feeds import tasks
from feeds.keeping import alerting
from feeds.models import Feed
from tests.feeds.keeping import rows
from tests.feeds.keeping.rows import NOW

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _wanted(settings: Settings) -> None:
    settings.MAIL_TO, settings.FEEDS_MAIL_AFTER_HOURS = ["admin@site.example"], 24


def failing(name: str, hours: float, **fields: Any) -> Feed:
    since = NOW - timedelta(hours=hours)
    return rows.feed(name, **{"state": "failing", "failing_since": since, "reason": "Not fetched: why.", **fields})


def test_one_mail_tells_of_all_that_have_failed_for_long() -> None:
    failing("old", 100)
    feed = failing("long", 25, own_title="A\nfeed")
    failing("just", 23)
    assert alerting.tell_of_failing(NOW) == 2
    (sent,) = mail.outbox
    assert sent.to == ["admin@site.example"]
    assert sent.subject == "[Tarry] 2 feeds have been failing for more than 1 d"
    assert sent.body.index("https://old.example/feed") < sent.body.index("https://long.example/feed")
    assert f"Since 21 November 2026, 11:00 UTC. Not fetched: why.\nhttp://testserver/admin/feeds/feed/{feed.pk}/" in (
        sent.body
    )
    assert "https://just.example" not in sent.body


def test_a_feed_is_told_of_once_until_it_has_gone_well_again() -> None:
    feed = failing("one", 25)
    later = NOW + timedelta(days=2)
    assert [alerting.tell_of_failing(NOW), alerting.tell_of_failing(later)] == [1, 0]
    Feed.objects.filter(pk=feed.pk).update(failing_since=None)
    assert alerting.tell_of_failing(later) == 0
    Feed.objects.filter(pk=feed.pk).update(failing_since=NOW + timedelta(hours=1))
    assert alerting.tell_of_failing(later) == 1


@pytest.mark.parametrize(("name", "value"), [("MAIL_TO", []), ("FEEDS_MAIL_AFTER_HOURS", 0)])
def test_nobody_is_told_where_that_is_not_wanted(settings: Settings, name: str, value: Any) -> None:
    setattr(settings, name, value)
    failing("one", 100)
    assert alerting.tell_of_failing(NOW) == 0
    assert not mail.outbox


def test_paused_feeds_are_not_told_of() -> None:
    failing("one", 100, paused=True)
    assert alerting.tell_of_failing(NOW) == 0


def test_of_very_many_the_first_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerting, "MOST_NAMED", 1)
    for name in ("one", "two", "three"):
        failing(name, 30)
    alerting.tell_of_failing(NOW)
    assert "And 2 more." in mail.outbox[0].body


def test_who_cannot_be_told_now_is_told_the_next_time(settings: Settings) -> None:
    failing("one", 1_000_000)
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1  # nobody listens there
    tasks.tell_of_failing()
    assert Feed.objects.get().mailed_at is None
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    tasks.tell_of_failing()
    assert len(mail.outbox) == 1
    assert Feed.objects.get().mailed_at is not None
