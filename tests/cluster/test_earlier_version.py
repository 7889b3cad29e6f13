"""Three hosts of an earlier version, brought to this one while clients ask: each reads what the other has written."""

import io
import subprocess
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from ..support.layers import load_line
from ..support.stack import ROOT, eventually
from . import load, world
from .hosts import START_SECONDS, Host
from .load import Load
from .recoveries import Recoveries
from .world import Cluster


@dataclass(frozen=True, slots=True)
class Version:
    """An earlier version, by its commit. `at_once`: its hosts end before the first one of this version starts."""

    commit: str
    at_once: bool


VERSIONS = {"the one before": Version("e1f3e122", False), "without partitions of state": Version("91fae384", True)}


WRITES = """
from datetime import UTC, datetime
from feeds import addresses, catalogue, lifecycle
from feeds.models import Category, Entry
from feeds.opml import ListedFeed
now = datetime.now(UTC)
urls = "https://kept.invalid/feed", "https://gone.invalid/feed"
listed = [ListedFeed(addresses.read_address(url), url, categories=(("Earlier",),)) for url in urls]
for feed in catalogue.add_feeds(listed, now).feeds:
    said = {"title": "Of the earlier version", "id": feed.url}
    fields = dict.fromkeys(("identity", "likeness", "content", "dates"), "0" * 32)
    times = dict.fromkeys(("happened_at", "first_seen_at", "changed_at"), now)
    Entry.objects.create(feed=feed, title=said["title"], data=said, **fields, **times)
    if "gone" in feed.url:
        lifecycle.remove_feeds([feed.pk], now)
Category.objects.filter(title="Earlier").delete()
"""
"""Done by a host of the earlier version, in the database of this one."""


@pytest.fixture(scope="module", params=list(VERSIONS.values()), ids=list(VERSIONS))
def version(request: pytest.FixtureRequest) -> Version:
    found: Version = request.param
    return found


@pytest.fixture(scope="module")
def cluster(version: Version, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of an earlier version. It is this module's own."""
    command = ["git", "archive", version.commit]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False)
    if archive.returncode:
        pytest.skip(f"the history of the code is not here: {archive.stderr.decode().strip()}")
    code = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(code, filter="data")
    with world.running(root=code) as running:
        yield running


def test_hosts_are_upgraded_while_clients_ask(
    cluster: Cluster, version: Version, recoveries: Recoveries, tmp_path: Path
) -> None:
    hot = load_line(cluster.hosts[0], "underload", tmp_path)
    with load.running(cluster, hot) as running:
        known = content_of_now(running)
        (upgrade_at_once if version.at_once else upgrade_in_turn)(running, tmp_path)
        for host in cluster.hosts:
            host.wait_until_healthy(60)
        if not version.at_once:
            eventually(lambda: titles_in_sync(cluster) == ["Of the earlier version"], 60, "its entry is in the log")
        executed = {address: executions(cluster, address) for address in known}
        load.judge(running)  # which asks for all that was asked before
        recoveries.add(running.suffered, running.records)
    assert {address: executions(cluster, address) for address in known} == executed


def upgrade_in_turn(running: Load, directory: Path) -> None:
    world.release(running.cluster.settings, directory)
    running.cluster.hosts[-1].manage("shell", "-c", WRITES)
    for number, host in enumerate(running.cluster.hosts):
        with running.suffering(f"host {number + 1} of 3 upgraded"):
            host.upgrade()


def upgrade_at_once(running: Load, directory: Path) -> None:
    hosts = running.cluster.hosts
    with running.suffering("three hosts upgraded at once"):
        with ThreadPoolExecutor() as pool:
            list(pool.map(Host.drain, hosts))
        world.release(running.cluster.settings, directory)
        for host in hosts:  # by this thread: a host ends with the thread that started it
            host.begin_upgrade()
        for host in hosts:
            host.wait_until_healthy(START_SECONDS)


def content_of_now(running: Load) -> list[str]:
    """The addresses of slow content that clients have got from the earlier version."""
    time.sleep(5)
    return [record.address for record in running.records if record.kind == "cold" and not record.is_bad]


def titles_in_sync(cluster: Cluster) -> list[str]:
    answer = requests.get(f"{cluster.base_url}/api/entries", timeout=20)
    return [change["entry"]["title"] for change in answer.json()["changes"] if change["change"] == "entry"]


def executions(cluster: Cluster, address: str) -> int:
    return cluster.executions(address.removeprefix("/slow/").partition("?")[0])
