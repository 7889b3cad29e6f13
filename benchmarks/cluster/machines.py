"""Machines of one site by role, on stores of their own: one for clients, and so many that work."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cluster import hosts, network, stores, world
from tests.cluster.hosts import Host
from tests.cluster.network import Network
from tests.cluster.stores import Stores

CLIENTS_SIDE = "front,main,retry,work,beat"
SETTINGS = {
    "BACKLOG_LIMIT": "10000",
    "DEFAULT_RETRY_TIMEOUT": "30",
    "RETRY_MAX_WAITS": "4",
    "PROXY_TIMEOUT": "60",
    "MAIN_THREADS": "16",
}


@dataclass(frozen=True, slots=True)
class Machines:
    """The machine for clients, and the stores of all. It answers at `front.base_url`."""

    network: Network
    stores: Stores
    front: Host
    workers: Sequence[Host]

    def events(self, names: Sequence[str], event: str) -> list[float]:
        """The times of an event of slow content, on any machine that works."""
        found = (entry for host in self.workers for name in names for entry in host.events(name))
        return sorted(entry["time"] for entry in found if entry["event"] == event)


@contextmanager
def running(
    number: int, role: str, settings: Mapping[str, str], *, waits_for: str, kind: str = "plain"
) -> Iterator[Machines]:
    """So many machines of that role beside the one for clients.

    `waits_for` is a process that each of them runs. `kind` is that of their Redis.
    """
    with ExitStack() as entered:
        directory = Path(entered.enter_context(TemporaryDirectory(prefix="tarry-machines-", dir="/tmp")))
        net = entered.enter_context(network.running())
        found = entered.enter_context(stores.running(net, kind, directory))
        given = {**hosts.site_environment(net, found.environment), **SETTINGS, **settings}
        places = {name: net.add(name) for name in ["front", *(f"w{n}" for n in range(number))]}
        given["PUBLIC_URL"] = f"http://{places['front'].address}:{net.port}"
        made = [Host(name, place, given) for name, place in places.items()]
        made[0].environment["ROLES"] = CLIENTS_SIDE
        for host in made[1:]:
            host.environment["ROLES"] = role
        for host in made:
            entered.callback(host.end)
        world.release(given, directory)
        for host in made:
            host.begin_to_start()
        made[0].wait_until_ready()
        for host in made[1:]:
            wait_until_it_runs(host, waits_for)
        yield Machines(net, found, made[0], made[1:])


def wait_until_it_runs(host: Host, process: str) -> None:
    """Waits until that process of the machine has started; it may not take work yet."""
    deadline = time.monotonic() + hosts.START_SECONDS
    while not (host.runtime / "supervisor.sock").exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{host.name} does not start:\n{host.logs()}")
        time.sleep(0.1)
    host.pid(process)
