"""Three hosts, a machine of stores and a balancer: what all tests of a cluster share."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..chaos import means
from ..chaos.means import Clock
from ..support.stack import ROOT
from . import balancer, hosts, network, stores
from .hosts import Host
from .network import Network
from .stores import Stores

NAMES = ("a", "b", "c")
RELEASE_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running site of several hosts. `base_url` is the balancer's."""

    network: Network
    stores: Stores
    hosts: Sequence[Host]
    base_url: str
    settings: Mapping[str, str]
    clock: Clock | None
    """The clock of the second host; None where there is no compiler for it."""

    def metric(self, name: str, **labels: str) -> float:
        """The sum over all hosts that run."""
        return sum(host.metric(name, **labels) for host in self.hosts)

    def executions(self, name: str, event: str = "start") -> int:
        """The number of times slow content of that name was begun (or finished) on any host."""
        return sum(host.executions(name, event) for host in self.hosts)

    def logs(self) -> str:
        return "\n".join(f"=== {host.name}\n{host.logs()}" for host in self.hosts)


@contextmanager
def running(kind: str = "plain", names: Sequence[str] = NAMES, *, root: Path = ROOT) -> Iterator[Cluster]:
    """A cluster with stores of that kind, released once, all hosts healthy and behind the balancer.

    `root` is the code that its hosts run.
    """
    directory = Path(tempfile.mkdtemp(prefix="tarry-cluster-", dir="/tmp"))
    with ExitStack() as entered:
        entered.callback(shutil.rmtree, directory, ignore_errors=True)
        net = entered.enter_context(network.running())
        found = entered.enter_context(stores.running(net, kind, directory))
        settings = hosts.site_environment(net, found.environment)
        made = [Host(name, net.add(name), settings, root) for name in names]
        for host in made:
            entered.callback(host.end)
        clock = entered.enter_context(means.own_clock(directory))
        made[1].environment |= clock.environment if clock else {}
        release(settings, directory, root)
        hosts.start_all(made)
        base_url = entered.enter_context(balancer.running(net, made, directory))
        yield Cluster(net, found, made, base_url, settings, clock)


def release(settings: Mapping[str, str], directory: Path, root: Path = ROOT) -> None:
    """Releases the site once, as an operator does on a machine of its own."""
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/bin",
        "DATA_DIR": f"{directory}/release",
        "RUNTIME_DIR": f"{directory}/r",
    }
    given = {
        **environment,
        "DEMO": "0",
        "DJANGO_SETTINGS_MODULE": "tests.flows.settings",
        **settings,
        "MACHINE": "release",
    }
    command = [sys.executable, "-m", "project.release"]
    done = subprocess.run(
        command, cwd=root, env=given, capture_output=True, text=True, timeout=RELEASE_SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the site could not be released:\n{done.stdout}{done.stderr}")
