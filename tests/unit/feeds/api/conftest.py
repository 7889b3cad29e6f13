"""Clients of the API with and without a token for feeds."""

import pytest
from django.contrib.auth.models import User

from resources.tokens import auth
from resources.tokens.models import ApiToken
from tests.conftest import RedisServers
from tests.unit.resources.api.conftest import Caller


@pytest.fixture(autouse=True)
def _site(db: None, redis_servers: RedisServers) -> None:
    """Calls are counted on a running server."""


@pytest.fixture
def anybody() -> Caller:
    return Caller()


@pytest.fixture
def manager() -> Caller:
    return Caller(auth.issue_token(ApiToken(name="planet", may_manage_feeds=True)).text)


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann")


@pytest.fixture
def follower(ann: User) -> Caller:
    return Caller(auth.issue_token(ApiToken(name="of ann", user=ann)).text)
