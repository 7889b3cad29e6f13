"""Three hosts of an earlier version, brought to this one while clients ask: each version reads what the other wrote."""

import io
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..support.layers import load_line
from ..support.stack import ROOT
from . import load, world
from .load import Load
from .recoveries import Recoveries
from .world import Cluster

COMMITS = {"without partitions of state": "91fae384"}
"""Earlier versions, by what they lack."""


@pytest.fixture(scope="module", params=list(COMMITS.values()), ids=list(COMMITS))
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of an earlier version. It is this module's own."""
    archive = subprocess.run(["git", "archive", request.param], cwd=ROOT, capture_output=True, timeout=60, check=False)
    if archive.returncode:
        pytest.skip(f"the history of the code is not here: {archive.stderr.decode().strip()}")
    code = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(code, filter="data")
    with world.running(root=code) as running:
        yield running


def test_hosts_are_upgraded_one_after_the_other(cluster: Cluster, recoveries: Recoveries, tmp_path: Path) -> None:
    hot = load_line(cluster.hosts[0], "underload", tmp_path)
    with load.running(cluster, hot) as running:
        known = content_of_now(running)
        world.release(cluster.settings, tmp_path)
        for number, host in enumerate(cluster.hosts):
            with running.suffering(f"host {number + 1} of 3 upgraded"):
                host.upgrade()
        for host in cluster.hosts:
            host.wait_until_healthy(60)
        executed = {address: executions(cluster, address) for address in known}
        load.judge(running)  # which asks for all that was asked before
        recoveries.add(running.suffered, running.records)
    assert {address: executions(cluster, address) for address in known} == executed


def content_of_now(running: Load) -> list[str]:
    """The addresses of slow content that clients have got from the earlier version."""
    time.sleep(5)
    return [record.address for record in running.records if record.kind == "cold" and not record.is_bad]


def executions(cluster: Cluster, address: str) -> int:
    return cluster.executions(address.removeprefix("/slow/").partition("?")[0])
