"""A small site with settings of its own. Its settings go together: none changes what another test shows."""

import socket
from collections.abc import Iterator

import pytest

from tests.support import moto_bucket
from tests.support.documentation import code_block
from tests.support.moto_bucket import MotoBucket
from tests.support.stack import Stack, free_port

ORIGIN_ADDRESS = "127.0.0.2"
"""The address of the servers that the site may ask. It must leave all others alone."""
MIRRORED_BYTES = 300_000
"""The largest mirrored file. Feeds may be larger."""
AGE_SECONDS = 2
LEASE_SECONDS = 3


@pytest.fixture(scope="package")
def private() -> Iterator[socket.socket]:
    """Listens, and accepts none: a connecting client stays to be seen."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture(scope="package")
def bucket() -> Iterator[MotoBucket]:
    with moto_bucket.running() as running:
        yield running


@pytest.fixture(scope="package")
def waiting_port() -> int:
    return free_port()


@pytest.fixture(scope="package")
def stack(private: socket.socket, bucket: MotoBucket, waiting_port: int) -> Iterator[Stack]:
    """One worker for all lanes, which age soon; clients wait at a port of its own; files are in a bucket.

    It may ask servers at one address alone, at any port: what is refused is refused for its address.
    """
    block = code_block("docs/operations.md", "", "RETRY_LISTEN=").replace("127.0.0.1:8001", f"127.0.0.1:{waiting_port}")
    *documented, make, target = block.split()
    assert (make, target) == ("make", "run")  # which starts what Stack does
    with Stack(
        SMALL="1",
        RETRY_AGE_SECONDS=str(AGE_SECONDS),
        RETRY_LEASE_SECONDS=str(LEASE_SECONDS),
        **dict(setting.split("=", 1) for setting in documented),
        STORAGE_URL=bucket.storage_url,
        MACHINE="this",
        FETCH_MAX_BYTES=str(MIRRORED_BYTES),
        FETCH_SLOW_MAX_BYTES=str(MIRRORED_BYTES),
        FETCH_ALLOW_PRIVATE=f"{ORIGIN_ADDRESS}/32",
        FETCH_PORTS=f"80,443,{private.getsockname()[1]}",
    ) as running:
        yield running
