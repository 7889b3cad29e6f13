"""What the admin does with many feeds at once, and what it does not."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from feeds.admin import acting
from feeds.keeping import pausing
from feeds.models import Feed
from tests.feeds.keeping import rows
from tests.feeds.keeping.rows import NOW

pytestmark = pytest.mark.django_db
LIST = reverse("admin:feeds_feed_changelist")


def choose(client: Client, action: str, *feeds: Feed) -> Any:
    return client.post(LIST, {"action": action, "_selected_action": [feed.pk for feed in feeds]}, follow=True)


@pytest.mark.parametrize("action", ["fetch_now", "pause", "resume", "export", "bring_back", "delete_selected"])
def test_more_than_main_does_in_one_go_is_refused(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    for name in ("MOST_ACTED", "MOST_MOVED", "MOST_EXPORTED"):
        monkeypatch.setattr(acting, name, 1)
    page = choose(admin_client, action, rows.feed("one"), rows.feed("two")).content.decode()
    assert "nothing was done" in page
    assert ("manage.py export_opml" in page) is (action == "export")
    assert Feed.objects.filter(paused=False, flagged_at=None).count() == 2


def test_what_was_done_with_many_is_logged_at_once(admin_client: Client, django_assert_max_num_queries: Any) -> None:
    feeds = [rows.feed(f"f{number}") for number in range(30)]
    with django_assert_max_num_queries(40):  # of which the list that follows takes most
        choose(admin_client, "pause", *feeds)
    assert LogEntry.objects.filter(change_message__contains="Paused").count() == 30


def test_feeds_are_deleted_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausing, "PORTION", 2)
    ids = [rows.feed(f"f{number}").pk for number in range(5)]
    assert pausing.remove(ids, NOW) == 5
    assert not Feed.objects.exists()
