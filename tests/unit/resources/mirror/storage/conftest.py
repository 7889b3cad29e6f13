"""A bucket, and what uploads to it."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.files.storage import default_storage

from project.storing import storage_from
from resources.mirroring.storing.uploading import Uploader
from tests import moto_bucket
from tests.moto_bucket import MotoBucket


@pytest.fixture(scope="package")
def server() -> Iterator[MotoBucket]:
    with moto_bucket.running() as bucket:
        yield bucket


@pytest.fixture
def bucket(server: MotoBucket, settings: Any) -> Iterator[MotoBucket]:
    settings.STORAGES = {**settings.STORAGES, "default": storage_from(server.storage_url)}
    yield server
    for name in server.names():
        default_storage.delete(name)


@pytest.fixture
def uploader() -> Iterator[Uploader]:
    one = Uploader()
    yield one
    one.close()
