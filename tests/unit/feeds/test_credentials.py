"""What servers are shown, and how it is kept."""

import pytest
from pytest_django import Settings

from feeds.keeping import credentials, moves
from feeds.models import Feed, Move
from resources.fetching.errors import UnreadableSealError
from tests.feeds.keeping import rows
from tests.feeds.keeping.rows import NOW

pytestmark = pytest.mark.django_db


def sealed() -> Feed:
    fields = credentials.sealed_headers({"X-Key": "k", "authorization": "Bearer b"})
    return rows.feed("one", user="mé", sealed_password=credentials.sealed_password("a:b"), sealed_headers=fields)


def test_user_and_password_go_before_a_header_of_that_name() -> None:
    assert credentials.shown_to_server(sealed()) == {"X-Key": "k", "Authorization": "Basic bcOpOmE6Yg=="}


def test_a_header_alone_is_sent_as_it_is() -> None:
    feed = rows.feed("one", sealed_headers=credentials.sealed_headers({"Authorization": "Bearer b"}))
    assert credentials.shown_to_server(feed) == {"Authorization": "Bearer b"}


def test_a_user_may_have_no_password() -> None:
    assert credentials.shown_to_server(rows.feed("one", user="me")) == {"Authorization": "Basic bWU6"}


def test_what_is_sealed_outlives_a_change_of_keys(settings: Settings) -> None:
    feed = sealed()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the next one", [settings.SECRET_KEY]
    credentials.reseal()
    settings.SECRET_KEY_FALLBACKS = []
    feed.refresh_from_db()
    assert credentials.password_of(feed) == "a:b"
    assert credentials.headers_of(feed)["X-Key"] == "k"


def test_what_no_key_opens_stays_and_says_so(settings: Settings) -> None:
    feed = sealed()
    settings.SECRET_KEY = "another one"
    credentials.reseal()
    with pytest.raises(UnreadableSealError):
        credentials.shown_to_server(feed)


def test_what_was_left_behind_at_another_address_outlives_a_change_of_keys_too(settings: Settings) -> None:
    feed = sealed()
    moves.relocate(feed.pk, "https://elsewhere.example/feed", "It was moved.", NOW)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the next one", [settings.SECRET_KEY]
    credentials.reseal()
    settings.SECRET_KEY_FALLBACKS = []
    moves.undo(Move.objects.get().pk, NOW)
    feed.refresh_from_db()
    assert credentials.password_of(feed) == "a:b"
    assert credentials.headers_of(feed)["X-Key"] == "k"
