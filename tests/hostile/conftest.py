"""Fixtures of the tests of hostile origins."""

import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from resources.fetch.http.client import FetchClient

from . import visits
from .origin import Origin


@pytest.fixture
async def victim() -> AsyncIterator[Origin]:
    """An origin at an address that clients may not connect to."""
    async with Origin(address="127.0.0.2") as origin:
        yield origin


@pytest.fixture
async def client() -> AsyncIterator[FetchClient]:
    async with visits.client() as client:
        yield client


@pytest.fixture
def full_port() -> Iterator[int]:
    """A port with a full backlog: no process accepts, and further connections wait."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(0)
    waiting = [socket.socket() for _ in range(4)]
    for each in waiting:
        each.setblocking(False)
        each.connect_ex(listening.getsockname())
    yield listening.getsockname()[1]
    for each in (*waiting, listening):
        each.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for secure.example, which only the tests trust."""
    directory = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=secure.example", "-addext", "subjectAltName=DNS:secure.example"),
            *("-keyout", str(directory / "key"), "-out", str(directory / "certificate")),
        ],
        check=True,
        capture_output=True,
    )
    return directory
