"""A fetcher that stands still for longer than its leases: another one does its work, and it overwrites nothing."""

import time
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest
import requests

from tests.support import file_server
from tests.support.fetcher_processes import FurtherFetcher
from tests.support.stack import Stack, eventually

from .conftest import IMPATIENT


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A site of its own: another test counts the files of that of the package."""
    with Stack(**IMPATIENT) as running:
        yield running


def test_a_fetcher_that_was_frozen_overwrites_no_newer_file(stack: Stack) -> None:
    token = stack.manage("create_token", "frozen", "--mirror").strip()
    with file_server.running() as origin:
        report = MirrorReport(stack, token, f"{origin.url}/file")
        origin.files["/file"] = b"old"
        origin.gate.clear()
        batch = report.send()
        eventually(lambda: origin.asked == ["/file"], 20, "the first fetcher asks")
        stack.freeze("fetch")
        try:
            origin.gate.set()
            time.sleep(0.5)  # the answer is in the first fetcher's socket
            origin.files["/file"] = b"new"
            with FurtherFetcher(stack):
                eventually(lambda: report.digest(batch), 40, "another fetcher has stored the file")
        finally:
            stack.thaw("fetch")
        other = MirrorReport(stack, token, f"{origin.url}/other")
        origin.files["/other"] = b"other"
        other_batch = other.send()
        eventually(lambda: other.digest(other_batch), 20, "the first fetcher goes on")
        assert origin.asked == ["/file", "/file", "/other"]
        assert report.digest(batch) == sha256(b"new").hexdigest()


class MirrorReport:
    """A reported URL, by the API."""

    def __init__(self, stack: Stack, token: str, url: str) -> None:
        self._api = f"{stack.base_url}/api/resources"
        self._batches = f"{stack.base_url}/api/batches"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._url = url

    def send(self) -> str:
        """Returns the batch."""
        sent = requests.post(self._api, json={"urls": [self._url]}, headers=self._headers, timeout=20)
        return str(sent.json()["batch"])

    def digest(self, batch: str) -> Any:
        """Returns the digest of the stored file; nothing while it is not settled."""
        found = requests.get(f"{self._batches}/{batch}", headers=self._headers, timeout=20).json()
        return found["items"][0]["digest"] if found["settled"] else None
