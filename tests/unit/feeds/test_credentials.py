"""Credentials for servers, and their storage."""

import pytest
from pytest_django import Settings

from feeds import credentials, lifecycle
from feeds.models import Feed, Move
from resources.fetch.http.messages import UnreadableSealError
from tests.support import plain_feeds
from tests.support.feed_hubs import SECRET, subscribed
from tests.support.plain_feeds import NOW

pytestmark = pytest.mark.django_db


def sealed() -> Feed:
    fields = credentials.seal_headers({"X-Key": "k", "authorization": "Bearer b"})
    return plain_feeds.feed("one", user="mé", sealed_password=credentials.seal_password("a:b"), sealed_headers=fields)


def test_user_and_password_go_before_a_header_of_that_name() -> None:
    assert credentials.request_headers(sealed()) == {"X-Key": "k", "Authorization": "Basic bcOpOmE6Yg=="}
    fields = credentials.seal_headers({"Authorization": "Bearer b"})
    alone = plain_feeds.feed("alone", sealed_headers=fields)
    assert credentials.request_headers(alone) == {"Authorization": "Bearer b"}
    assert credentials.request_headers(plain_feeds.feed("user", user="me")) == {"Authorization": "Basic bWU6"}


@pytest.mark.parametrize("is_left_behind", [False, True])
def test_what_is_sealed_outlives_a_change_of_keys(settings: Settings, is_left_behind: bool) -> None:
    feed = sealed()
    held = subscribed(feed, NOW)
    if is_left_behind:
        lifecycle.relocate_feed(feed.pk, "https://elsewhere.example/feed", "It was moved.", NOW)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the next one", [settings.SECRET_KEY]
    credentials.reseal_all()
    settings.SECRET_KEY_FALLBACKS = []
    if is_left_behind:
        lifecycle.undo_move(Move.objects.get().pk, NOW)
    feed.refresh_from_db()
    assert credentials.unseal_password(feed) == "a:b"
    assert credentials.unseal_headers(feed)["X-Key"] == "k"
    held.refresh_from_db()
    assert credentials.unseal_secret(held.sealed_secret) == SECRET


def test_what_no_key_opens_stays_and_says_so(settings: Settings) -> None:
    feed = sealed()
    settings.SECRET_KEY = "another one"
    credentials.reseal_all()
    with pytest.raises(UnreadableSealError):
        credentials.request_headers(feed)
