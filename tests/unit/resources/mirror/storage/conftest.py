"""A bucket, and its uploads."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.files.storage import default_storage

from project.environment import storage_from
from resources.mirror.storage.uploads import Uploader
from tests.support import moto_bucket
from tests.support.moto_bucket import MotoBucket


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
