"""Mirrored files in the database and the storage; Redis servers that run and are empty, and a process that is new."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from resources.mirroring import conf
from resources.mirroring.canonical.urls import canonical
from resources.mirroring.keeping import accessing, blobs, blocking, seen
from resources.mirroring.keeping.models import Blob, Resource, State
from resources.mirroring.keeping.rules import current_rules
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
