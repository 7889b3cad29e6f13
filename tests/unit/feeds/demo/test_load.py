"""The demo's feeds."""

import threading
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from feeds.demo import load as demo_load
from feeds.models import Entry, Feed
from feeds.pages import render
from feeds.parser import reader
from tests.hostile.origin import Origin, answer
from tests.support.feed_scans import gather

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
ORIGIN = "127.0.0.2:8000"


@pytest.fixture
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_load, "is_online", lambda _hosts: False)


@pytest.mark.parametrize("is_online", [True, False])
def test_samples_come_only_where_there_is_no_way_out(monkeypatch: pytest.MonkeyPatch, is_online: bool) -> None:
    monkeypatch.setattr(demo_load, "is_online", lambda _hosts: is_online)
    demo_load.load_demo_feeds(print, NOW, ORIGIN)
    samples = Feed.objects.filter(is_sample=True)
    assert [row.url for row in samples.order_by("url")] == (
        [] if is_online else [f"http://{ORIGIN}/{name}" for name in ("harbour.atom", "kitchen.rss", "orchard.json")]
    )
    assert Feed.objects.filter(is_sample=False).count() == 11


@pytest.mark.usefixtures("_offline")
def test_no_samples_come_where_nobody_serves_them() -> None:
    demo_load.load_demo_feeds(print, NOW, "")
    assert not Feed.objects.filter(is_sample=True).exists()


@pytest.mark.usefixtures("feed_redis", "_offline")
def test_samples_are_read_and_served_where_there_is_no_way_out(origin: Origin) -> None:
    def load(address: str) -> None:
        demo_load.load_demo_feeds(print, datetime.now(UTC), address)
        Feed.objects.filter(is_sample=False).delete()  # no test asks these

    for path in (demo_load.DATA_FOLDER / "samples").iterdir():
        url = origin.does(f"/{path.name}", answer(body=path.read_bytes()))
    load(urlsplit(url).netloc)
    gather()
    page = next(iter(render.prepare_page("/feeds/category/samples/").values())).body.decode()
    assert all(title in page for title in demo_load.SAMPLE_TITLES.values())
    assert page.count("<article") == Entry.objects.count() > len(demo_load.SAMPLE_TITLES)


@pytest.mark.usefixtures("_offline")
def test_what_an_admin_has_deleted_stays_deleted(tmp_path: Path) -> None:
    memory = tmp_path / "loaded"
    memory.write_text("land\n")
    demo_load.load_demo_feeds_once(print, memory, NOW, ORIGIN)
    Feed.objects.all().delete()
    demo_load.load_demo_feeds_once(print, memory, NOW, ORIGIN)
    assert not Feed.objects.exists()
    assert memory.read_text() == "feeds\nland\n"


@pytest.mark.parametrize("path", sorted((demo_load.DATA_FOLDER / "samples").iterdir()), ids=lambda path: path.name)
def test_a_sample_is_a_sound_feed_that_says_what_it_is(path: Path) -> None:
    found = reader.parse_feed(path.read_bytes(), "", f"http://{ORIGIN}/{path.name}", NOW)
    assert found.feed.title == demo_load.SAMPLE_TITLES[path.name]
    assert found.reader in {"tree", "json"}
    assert found.entries
    assert not found.notes


def test_a_host_that_nobody_can_reach_is_no_way_out() -> None:
    assert not demo_load.is_online(["host.invalid"])


def test_a_look_up_that_never_ends_keeps_no_process_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    release, before = threading.Event(), set(threading.enumerate())
    monkeypatch.setattr(demo_load, "_connects", lambda _host: release.wait(60))
    monkeypatch.setattr(demo_load, "PROBE_SECONDS", 0.05)
    try:
        assert not demo_load.is_online(["one.example", "two.example"])
        hanging = set(threading.enumerate()) - before
        assert [thread.daemon for thread in hanging] == [True, True]
    finally:
        release.set()
