"""Mirrored files in the database and the storage; Redis servers that run and are empty, and a process that is new."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from resources.mirroring import conf
from resources.mirroring.canonical.urls import canonical
from resources.mirroring.knowing import hosts, lanes, seen
from resources.mirroring.knowing.models import Blob, Resource, State, Validator
from resources.mirroring.knowing.rules import current_rules
from resources.mirroring.storing import accessing, blobs
from resources.mirroring.writing import blocking, writer
from retry.connections import BREAKERS
from tests.conftest import RedisServers

NOW = datetime(2026, 11, 21, 22, 30, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=30)
URL = "http://origin.example/a.png"

Keep = Callable[..., Blob]
Give = Callable[..., Resource]


@pytest.fixture(autouse=True)
def _nothing_known(redis_servers: RedisServers) -> None:
    blocking.forget()


@pytest.fixture(autouse=True)
def _held_here(settings: Any, tmp_path: Path) -> Iterator[None]:
    settings.MIRROR_HELD_DIRECTORY = tmp_path / "held"
    settings.MACHINE = "here"
    seen.forget_all_here()
    accessing.forget_all_here()
    yield
    seen.forget_all_here()


@pytest.fixture
def bucket_of_any_kind(settings: Any) -> None:
    """A storage that is no file system."""
    settings.STORAGES = {**settings.STORAGES, "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"}}


@pytest.fixture
def keep(db: None) -> Keep:
    """Keeps bytes and writes their row, a picture that was stored on this machine long ago if nothing else is said."""

    def kept(body: bytes = b"some bytes", **fields: Any) -> Blob:
        digest = sha256(body).hexdigest()
        given = {"media_type": "image/png", "holder": conf.machine(), "stored_at": LONG_AGO, "accessed_at": LONG_AGO}
        name = blobs.keep(body, digest)
        return Blob.objects.create(digest=digest, size=len(body), name=name, **{**given, **fields})

    return kept


@pytest.fixture
def give(db: None) -> Give:
    """Writes the row of a URL that gave a blob."""

    def given(blob: Blob, url: str = URL, **fields: Any) -> Resource:
        known = canonical(url, current_rules())
        stored = {"state": State.STORED, "wanted_at": LONG_AGO, "fetched_at": LONG_AGO, "blob_digest": blob.digest}
        return Resource.objects.create(url_digest=known.digest, url=url, host=known.host, **{**stored, **fields})

    return given


def vouch_for(blob: Blob, times: int) -> None:
    """Writes so many validators of a blob."""
    Validator.objects.bulk_create(
        Validator(key=f"{number}", host="origin.example", blob_digest=blob.digest, seen_at=NOW)
        for number in range(times)
    )


@pytest.fixture
def mirroring(
    transactional_db: None, redis_servers: RedisServers, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RedisServers]:
    """A real Redis, a fast fetcher, rows, and threads that end with the test."""
    settings.FETCH_DELAY_SECONDS = 0.001
    settings.FETCH_ALLOW_PRIVATE = ["127.0.0.1"]
    settings.FETCH_ATTEMPTS = 1
    settings.MIRROR_KNOWN_SECONDS = 0
    monkeypatch.setattr(writer, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(writer, "PAUSE_SECONDS", 0.05)
    forget()
    yield redis_servers
    writer.current().join()
    forget()
    for breaker in BREAKERS.values():
        breaker.succeeded()


def forget() -> None:
    blocking.forget()
    seen.forget_all_here()
    hosts.forget_all_here()
    lanes.forget_all_here()
