"""Mirrored files in the database and the storage; empty Redis servers, a client that reads whole answers, handovers."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from pytest_django import Settings

from resources.mirror import hosts, lookup
from resources.mirror.canonical.urls import canonicalise_url
from resources.mirror.ingest import writer
from resources.mirror.models import Blob, Resource, UrlState, Validator
from resources.mirror.storage import blobs, retention
from resources.mirror.url_rules import current_rules
from tests.conftest import RedisServers

NOW = datetime(2026, 11, 21, 22, 30, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=30)
URL = "http://origin.example/a.png"

Keep = Callable[..., Blob]
Give = Callable[..., Resource]


@pytest.fixture(autouse=True)
def _as_a_new_process_of_this_machine(
    redis_servers: RedisServers, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    settings.MIRROR_HELD_DIRECTORY = tmp_path / "held"
    settings.MACHINE = "here"
    monkeypatch.setattr(writer, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(writer, "RETRY_PAUSE_SECONDS", 0.05)
    retention._noted_accesses.clear()
    forget()
    yield
    forget()


@pytest.fixture
def bucket_of_any_kind(settings: Any) -> None:
    """A storage that is no file system."""
    settings.STORAGES = {**settings.STORAGES, "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"}}


@pytest.fixture
def keep(db: None) -> Keep:
    """Keeps bytes and writes their row, a picture that was stored on this machine long ago if nothing else is said."""

    def kept(body: bytes = b"some bytes", **fields: Any) -> Blob:
        digest = sha256(body).hexdigest()
        times = {"stored_at": LONG_AGO, "accessed_at": LONG_AGO}
        given = {"media_type": "image/png", "holder": settings.MACHINE, **times}
        name = blobs.keep_blob(body, digest)
        return Blob.objects.create(digest=digest, size=len(body), name=name, **{**given, **fields})

    return kept


@pytest.fixture
def give(db: None) -> Give:
    """Writes the row of a URL that gave a blob."""

    def given(blob: Blob, url: str = URL, **fields: Any) -> Resource:
        known = canonicalise_url(url, current_rules())
        stored = {"state": UrlState.STORED, "wanted_at": LONG_AGO, "fetched_at": LONG_AGO, "blob_digest": blob.digest}
        return Resource.objects.create(url_digest=known.digest, url=url, host=known.host, **{**stored, **fields})

    return given


def raising(error: BaseException | type[BaseException]) -> Callable[..., Any]:
    """Returns a function to stand for one that fails."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def vouch_for(blob: Blob, times: int) -> None:
    """Writes so many validators of a blob."""
    Validator.objects.bulk_create(
        Validator(key=f"{number}", host="origin.example", blob_digest=blob.digest, seen_at=NOW)
        for number in range(times)
    )


@pytest.fixture
def mirroring(transactional_db: None, redis_servers: RedisServers, settings: Settings) -> Iterator[RedisServers]:
    """A real Redis, a fast fetcher, rows, and threads that end with the test."""
    settings.FETCH_DELAY_SECONDS, settings.FETCH_MAX_PER_SECOND = 0.001, 1000
    settings.FETCH_ALLOW_PRIVATE = ["127.0.0.1"]
    settings.FETCH_ATTEMPTS = 1
    settings.MIRROR_KNOWN_SECONDS = 0
    yield redis_servers
    writer.process_writer().join()


def look_up_anew(*keys: str) -> dict[str, lookup.UrlStatus]:
    """Looks URLs up with no memory and a closed breaker, as a new process does."""
    lookup.look_up_urls._memory.held.clear()
    lookup.look_up_urls._untold.clear()
    lookup.look_up_urls._breaker.succeeded()
    return lookup.look_up_urls(keys)


def forget() -> None:
    hosts.forget_host_choices()
    look_up_anew()
    hosts._known_hosts.clear()
    hosts._known_scopes.clear()


class Reader(Client):
    """Reads every answer to its end, so that no file stays open."""

    def get(self, *arguments: Any, **named: Any) -> Any:
        return super().get(*arguments, **named)

    def request(self, **request: Any) -> Any:
        response: Any = super().request(**request)
        response.body = b"".join(response) if response.streaming else response.content
        return response


@pytest.fixture
def client() -> Reader:
    return Reader()
