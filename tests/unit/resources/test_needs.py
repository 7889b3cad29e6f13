"""The needs of workers: what failed work needed, and whether this process still reaches it."""

import threading
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from django.db import OperationalError, connection

from project.environment import storage_from
from resources import database
from resources.bucket import Bucket
from tests.support import moto_bucket
from tests.support.stack import free_port


def wrapped(cause: BaseException) -> BaseException:
    """An error of the site that the cause led to."""
    try:
        try:
            raise cause
        except type(cause) as error:
            raise RuntimeError("The layer cannot be read.") from error
    except RuntimeError as error:
        return error


@pytest.fixture
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_STORAGE", database.Reach(database._ask_storage))
    monkeypatch.setattr(database, "_DATABASE", database.Reach(database._ask_database))


pytestmark = pytest.mark.usefixtures("_fresh")


@pytest.fixture
def bucket_away(settings: Any) -> None:
    url = f"s3://key:secret@127.0.0.1:{free_port()}/bucket?region=us-east-1&tls=0"
    settings.STORAGES = {**settings.STORAGES, "default": storage_from(url)}


def test_a_bucket_that_is_away_is_lacked_for_its_own_errors_alone(bucket_away: None) -> None:
    lost = wrapped(EndpointConnectionError(endpoint_url="http://127.0.0.1"))
    assert database.lacks_storage(lost)
    assert database.lacks_storage(None)
    assert not database.lacks_storage(ZeroDivisionError())
    assert not database.lacks_storage(wrapped(OperationalError("the database")))


@pytest.mark.parametrize(("status", "is_lacking"), [(403, False), (404, False), (400, False), (500, True), (503, True)])
def test_any_answer_but_that_of_a_broken_server_reaches_the_bucket(
    bucket_away: None, monkeypatch: pytest.MonkeyPatch, status: int, is_lacking: bool
) -> None:
    def answer(*_: object) -> bool:
        raise ClientError({"ResponseMetadata": {"HTTPStatusCode": status}}, "HeadObject")

    monkeypatch.setattr(Bucket, "exists", answer)
    assert database.lacks_storage(None) is is_lacking


def test_a_bucket_that_answers_is_not_lacked(settings: Any) -> None:
    with moto_bucket.running() as bucket:
        settings.STORAGES = {**settings.STORAGES, "default": storage_from(bucket.storage_url)}
        assert not database.lacks_storage(wrapped(EndpointConnectionError(endpoint_url="http://127.0.0.1")))


def test_a_storage_that_hangs_is_given_up_in_time_and_asked_once(
    bucket_away: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, asked = threading.Event(), list[str]()
    monkeypatch.setattr(database, "REACH_SECONDS", 0.2)

    def hang(_: Bucket, name: str) -> bool:
        asked.append(name)
        return hangs.wait(20)

    monkeypatch.setattr(Bucket, "exists", hang)
    began = time.monotonic()
    assert database.lacks_storage(None)
    assert database.lacks_storage(None)
    assert time.monotonic() - began < 5
    assert len(asked) == 1
    hangs.set()


@pytest.mark.django_db(transaction=True)
def test_a_database_that_answers_is_not_lacked_for_an_error_of_one_query() -> None:
    assert not database.lacks_database(OperationalError("database is locked"))
    assert not database.lacks_database(None)


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_is_lacked_for_its_own_errors_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OperationalError("connection refused")

    connection.ensure_connection()
    monkeypatch.setattr(database, "_DATABASE", database.Reach(refuse))
    assert database.lacks_database(wrapped(OperationalError("server closed the connection")))
    assert not database.lacks_database(FileNotFoundError())
    assert connection.is_usable()
