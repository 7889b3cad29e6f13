"""A host of the site: `python -m project.run` at its place in the network, with directories of its own."""

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ..support.prepared_data import PREPARED_DATA
from ..support.processes import END_SECONDS, family, wait_until_ended
from ..support.stack import ROOT, Stack, answers, eventually
from .network import Network, Place

SMALL_NUMBERS = {"PAINT_WORKERS": "1", "MAIN_WORKERS": "1", "MAIN_THREADS": "8", "FETCH_SLOTS": "20"}
"""Three hosts share two cores here."""
IMPATIENT = {
    "DEFAULT_RETRY_TIMEOUT": "10",
    "RETRY_LEASE_SECONDS": "5",
    "FETCH_LEASE_SECONDS": "5",
    "FETCH_BACKOFF_MAX_SECONDS": "5",
    "FETCH_DELAY_SECONDS": "0.05",
    "MIRROR_RETRY_SECONDS": "2",
    "MIRROR_ATTEMPTS": "20",
    "MIRROR_GRACE_SECONDS": "1",
    "PREWARM_SECONDS": "0",
    "LAYER_BLOCK_SECONDS": "0",
    "FEEDS_SCAN_SECONDS": "2",
    "RETRY_SKIP_SECONDS": "0",
}
HOT_SECONDS = 3
DRAIN_SECONDS = 3
START_SECONDS = 240
"""Three hosts start at once, with thirty processes, perhaps beside other work."""
METRICS_TOKEN, SECRET_KEY = (
    "of-the-cluster",
    "of the cluster, for tests only, and long enough for no check to complain of it",
)


def site_environment(network: Network, stores: Mapping[str, str]) -> dict[str, str]:
    """The settings that are the same on all hosts."""
    addresses = [network.gateway, *(str(network.net[number]) for number in range(1, 12))]
    return {
        **SMALL_NUMBERS,
        **IMPATIENT,
        **stores,
        "HOT_SECONDS": str(HOT_SECONDS),
        "DRAIN_SECONDS": str(DRAIN_SECONDS),
        "RELEASE": "0",
        "SECRET_KEY": SECRET_KEY,
        "METRICS_TOKEN": METRICS_TOKEN,
        "PUBLIC_URL": f"http://{network.gateway}:{network.port}",
        "ALLOWED_HOSTS": ",".join(addresses),
        "TRUSTED_PROXIES": network.balancers_address,
        "FETCH_ALLOW_PRIVATE": str(network.net),
        "PORT": str(network.port),
    }


class Host(Stack):
    """A stack with its own address, and the stores of the cluster. It is started and ended like any other."""

    def __init__(self, name: str, place: Place, settings: Mapping[str, str], root: Path = ROOT) -> None:
        super().__init__()
        self.root = root
        self.name, self.place, self.prefix = name, place, place.prefix
        self.port = int(settings["PORT"])
        self.host = f"{place.address}:{self.port}"
        self.base_url = f"http://{self.host}"
        self.metrics_token = settings["METRICS_TOKEN"]
        self.environment |= {**settings, "MACHINE": name, "LISTEN": place.address, "MACHINE_URL": self.host}

    @property
    def secret_key(self) -> str:
        return self.environment["SECRET_KEY"]

    def managed(self) -> dict[str, str]:
        return {**super().managed(), "PUBLIC_URL": self.environment["PUBLIC_URL"]}

    def crash(self) -> None:
        """Kills every process of the host at once: those of its namespace, too, which have other parents."""
        for pid in self.place.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._end_commands()  # which were in the namespace as well
        super().crash()

    def drain(self, seconds: float = 60) -> None:
        """Asks it to end, as an upgrade does, and waits until it has."""
        assert self._process
        members = family(self._process.pid)
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(seconds)
        self._process = None
        assert wait_until_ended(members, END_SECONDS) == []

    def upgrade(self) -> None:
        """Ends it, and starts it with the code of these tests."""
        self.drain()
        self.begin_upgrade()
        self.wait_until_healthy(START_SECONDS)

    def begin_upgrade(self) -> None:
        """Starts it with the code of these tests after it has ended, and returns at once."""
        self._end_commands()
        self.root = ROOT
        self.begin_to_start()

    def _end_commands(self) -> None:
        if self._commands is not None:
            self._commands.kill()
            self._commands.wait()
            self._commands = None
            self._commands_socket.unlink(missing_ok=True)

    def wait_until_ready(self, seconds: float = START_SECONDS) -> None:
        """Waits until balancers may send clients."""
        eventually(lambda: answers(f"{self.base_url}/healthz/ready", 200), seconds, f"{self.name} is ready")


def start_all(hosts: Sequence[Host]) -> None:
    """Starts them side by side, and waits until all parts of all are well."""
    for host in hosts:
        host.begin_to_start()
    for host in hosts:
        host.wait_until_healthy(START_SECONDS)
        PREPARED_DATA.take(host.data)  # static files: another cluster need not collect them
