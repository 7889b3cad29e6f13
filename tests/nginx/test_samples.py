"""The demo's sample feeds: served at an address of their own, where nothing else is."""

from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from ..support.stack import free_port
from .conftest import RunningFront, Start

ROOT = Path(__file__).parents[2] / "feeds" / "demo" / "data" / "samples"


PORT = free_port()


@pytest.fixture
def with_samples(start: Start) -> RunningFront:
    return start(samples=f"127.0.0.2:{PORT}")


def ask(path: str) -> tuple[int, str, bytes]:
    with closing(HTTPConnection("127.0.0.2", PORT, timeout=10)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        *(("harbour.atom", "application/atom+xml"), ("kitchen.rss", "application/rss+xml")),
        ("orchard.json", "application/feed+json"),
    ],
)
def test_samples_are_served_there_only_with_their_types(with_samples: RunningFront, name: str, media_type: str) -> None:
    assert ask(f"/{name}") == (200, media_type, (ROOT / name).read_bytes())
    assert with_samples.get(f"/{name}").body != (ROOT / name).read_bytes()


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz", "/../loading.py", "/%2e%2e/feeds.opml", "/admin/"])
@pytest.mark.usefixtures("with_samples")
def test_nothing_else_is_there(path: str) -> None:
    assert ask(path)[0] in {400, 403, 404}
