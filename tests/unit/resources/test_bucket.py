"""Storage in a bucket that cannot be reached: an error of ours, soon."""

import time
from typing import Any

import pytest
from django.core.files.storage import storages

from project.environment import storage_from
from resources import bucket
from resources.tiles import layer_files
from resources.tiles.errors import LayerStorageError
from tests.support.stack import free_port


@pytest.fixture
def _unreachable(settings: Any) -> None:
    url = f"s3://key:secret@127.0.0.1:{free_port()}/bucket?region=x&tls=0"
    settings.STORAGES = {**settings.STORAGES, "default": storage_from(url)}


@pytest.mark.usefixtures("_unreachable")
def test_a_bucket_that_cannot_be_reached_is_an_error_of_the_storage() -> None:
    began = time.monotonic()
    with pytest.raises(LayerStorageError, match="the storage answered"):
        layer_files.read_file("layers/jams/a.npz")
    assert time.monotonic() - began < bucket.MAX_ATTEMPTS * bucket.CONNECT_SECONDS + 10


@pytest.mark.usefixtures("_unreachable")
def test_every_wait_for_a_bucket_has_a_limit() -> None:
    config = storages["default"].client_config  # type: ignore[attr-defined]  # of S3 only
    assert (config.connect_timeout, config.read_timeout) == (bucket.CONNECT_SECONDS, bucket.ANSWER_SECONDS)
    assert config.retries == {"total_max_attempts": bucket.MAX_ATTEMPTS, "mode": "standard"}
