"""Sessions of the admin are read from Django's cache, and go on without it."""

from importlib import import_module

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.cache import caches
from django.test import Client

from project.backends import SESSION_CACHED_SECONDS
from retry import stores
from tests.conftest import RedisServers

PASSWORD = "fifteen white horses"
SessionStore = import_module(settings.SESSION_ENGINE).SessionStore

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _owner(redis_servers: RedisServers) -> None:
    User.objects.create_superuser("owner", password=PASSWORD)


def sign_in() -> Client:
    client = Client()
    assert client.post("/admin/login/", {"username": "owner", "password": PASSWORD}).status_code == 302
    return client


def is_signed_in(client: Client) -> bool:
    return client.get("/admin/password_change/").status_code == 200


def test_the_cache_has_a_session_for_a_minute_at_most(redis_servers: RedisServers) -> None:
    client = sign_in()
    redis_servers.cache.client.flushall()
    assert is_signed_in(client), "the cache may forget everything"
    [key] = redis_servers.cache.client.keys("django:*")
    assert 0 < redis_servers.cache.client.ttl(key) <= SESSION_CACHED_SECONDS
    Session.objects.all().delete()
    assert is_signed_in(client), "the cache has the session"
    redis_servers.cache.client.delete(key)  # the minute is over
    assert not is_signed_in(client)


def test_people_sign_in_and_out_while_the_cache_is_away(redis_servers: RedisServers) -> None:
    redis_servers.cache.stop()
    client = sign_in()
    assert is_signed_in(client)
    client.post("/admin/logout/")
    assert not is_signed_in(client)
    assert Session.objects.count() == 0


def test_a_cache_that_is_away_is_asked_once_a_second(redis_servers: RedisServers) -> None:
    redis_servers.cache.stop()
    assert caches["default"].get("a") is None
    redis_servers.cache.start()
    caches["default"].set("a", 1, 60)  # not tried
    assert redis_servers.cache.client.keys("*") == []
    stores.BREAKERS["cache"].succeeded()  # the second is over
    caches["default"].set("a", 1, 60)
    assert caches["default"].get("a") == 1
