"""The demo's sample feeds: served at an address of their own, where nothing else is."""

from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from project.nginx_config import FrontConfig, SampleFeeds

from .conftest import RunningFront

ROOT = Path(__file__).parents[2] / "feeds" / "demo" / "data" / "samples"


@pytest.fixture
def with_samples(front: FrontConfig, start: Callable[..., RunningFront]) -> RunningFront:
    port = front.listen.rpartition(":")[2]
    return start(samples=SampleFeeds(f"127.0.0.2:{port}", ROOT))


def ask(port: int, path: str) -> tuple[int, str, bytes]:
    with closing(HTTPConnection("127.0.0.2", port, timeout=10)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("harbour.atom", "application/atom+xml"),
        ("kitchen.rss", "application/rss+xml"),
        ("orchard.json", "application/feed+json"),
    ],
)
def test_samples_are_served_as_what_they_are(with_samples: RunningFront, name: str, media_type: str) -> None:
    assert ask(with_samples.port, f"/{name}") == (200, media_type, (ROOT / name).read_bytes())


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz", "/../loading.py", "/%2e%2e/feeds.opml", "/admin/"])
def test_nothing_else_is_there(with_samples: RunningFront, path: str) -> None:
    assert ask(with_samples.port, path)[0] in {400, 403, 404}


def test_samples_are_at_no_other_address(with_samples: RunningFront) -> None:
    assert with_samples.get("/harbour.atom").body != (ROOT / "harbour.atom").read_bytes()
