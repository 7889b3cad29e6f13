"""The cluster that all tests here share: started once, and well before and after each fault."""

from collections.abc import Iterator

import pytest

from ..chaos.table import HEAD
from ..support.crowd import Crowd
from . import world
from .hosts import Host
from .recoveries import Recoveries
from .stores import KINDS
from .world import Cluster

TEST_SECONDS = 600
"""The limit of a test, the start of the hosts for the first one included."""


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.timeout(TEST_SECONDS))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stores", choices=sorted(KINDS), default="plain", help="the Redis that all hosts share")


@pytest.fixture(scope="package")
def cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    with world.running(pytestconfig.getoption("stores")) as running:
        yield running


@pytest.fixture(scope="package")
def a(cluster: Cluster) -> Host:
    return cluster.hosts[0]


@pytest.fixture(scope="package")
def b(cluster: Cluster) -> Host:
    return cluster.hosts[1]


@pytest.fixture(scope="package")
def c(cluster: Cluster) -> Host:
    return cluster.hosts[2]


@pytest.fixture
def crowd(cluster: Cluster) -> Iterator[Crowd]:
    """Clients of the balancer."""
    with Crowd(cluster.base_url) as clients:
        yield clients


RECOVERIES = pytest.StashKey[Recoveries]()


@pytest.fixture(scope="package")
def recoveries(request: pytest.FixtureRequest) -> Recoveries:
    """The table of this run, `.pytest_cache/d/cluster/recoveries-KIND.md`, by the kind of its Redis."""
    folder = request.config.cache.mkdir("cluster")
    file = folder / f"recoveries-{request.config.getoption('--stores')}.md"
    return request.config.stash.setdefault(RECOVERIES, Recoveries(file))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints the table of faults and recoveries, and which answers were no content."""
    if made := config.stash.get(RECOVERIES, None):
        terminalreporter.section("recoveries")
        for line in (HEAD, *made.rows, "", *made.bad, "", f"The table is in {made.file}"):
            terminalreporter.line(line)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds the ends of all hosts' logs to a failed test's report."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(cluster, Cluster):
        report.sections.append(("logs of the hosts", cluster.logs()))
