"""The limit of one kind of fetch on the whole site: it decides nothing for a fetch of another kind."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.support import guarded_server
from tests.support.guarded_server import GuardedServer, Question
from tests.support.stack import Stack, eventually

from .conftest import MIRRORED_BYTES, ORIGIN_ADDRESS


@pytest.fixture
def origin() -> Iterator[GuardedServer]:
    with guarded_server.running(ORIGIN_ADDRESS) as server:
        server.size = MIRRORED_BYTES
        yield server


def test_a_feed_that_is_too_large_to_be_mirrored_is_read(stack: Stack, origin: GuardedServer) -> None:
    headers = {"Authorization": f"Bearer {stack.manage('create_token', 'both', '--mirror', '--feeds').strip()}"}

    def ask(method: str, path: str, **body: Any) -> Any:
        address = f"{stack.base_url}/api/{path}"
        return requests.request(method, address, headers=headers, json=body or None, timeout=30).json()

    url = f"{origin.url}/large"
    batch = ask("POST", "resources", urls=[url])["batch"]
    eventually(lambda: origin.asked == [Question("GET", "/large")], 30, "the file is being fetched")
    slug = ask("POST", "feeds", url=url)["slug"]
    eventually(lambda: ask("GET", f"feeds/{slug}/entries")["entries"], 60, "the feed is read")
    assert not ask("GET", f"batches/{batch}")["settled"], "the feed had a request of its own"
    origin.gate.set()
    eventually(lambda: ask("GET", f"batches/{batch}")["settled"], 60, "the list is settled")
    [item] = ask("GET", f"batches/{batch}")["items"]
    assert f"{MIRRORED_BYTES:,} bytes" in item["reason"]
    requests.delete(f"{stack.base_url}/api/feeds/{slug}", headers=headers, timeout=30)
