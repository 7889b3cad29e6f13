"""The network of a cluster: a namespace for each machine and a bridge between them, or addresses of loopback.

Namespaces need root that may make them. Without them machines have addresses of their own, and cannot be cut off.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from itertools import count
from pathlib import Path
from string import ascii_lowercase

import psutil

_BRIDGE = re.compile(r"tarry(\d+)[a-z]")
CHOICE = "CLUSTER_NETWORK"
"""The variable that chooses `loopback` where there might be namespaces."""
LOOPBACK_PORTS = 20000
_NUMBERS = count()
"""Of the networks of this process: tests may have several at a time."""
NO_CUT = "machines cannot be cut off here: network namespaces need root that may make them (ip netns), and nft"


@dataclass(frozen=True, slots=True)
class Place:
    """A machine's place in the network. `prefix` runs a command there; `namespace` is empty on loopback."""

    address: str
    namespace: str = ""

    @property
    def prefix(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.namespace) if self.namespace else ()

    def pids(self) -> list[int]:
        """All processes in its namespace; none on loopback."""
        if not self.namespace:
            return []
        return [int(line) for line in _output("ip", "netns", "pids", self.namespace).split()]

    @contextmanager
    def cut_off(self, other: "Place | None" = None) -> Iterator[None]:
        """Drops all packets from and to the other place, or from and to any. Raises RuntimeError on loopback."""
        if not self.namespace:
            raise RuntimeError(NO_CUT)
        sent = f"ip daddr {other.address}" if other else 'oifname != "lo"'
        received = f"ip saddr {other.address}" if other else 'iifname != "lo"'
        rules = [
            "add table inet cut",
            "add chain inet cut out { type filter hook output priority 0; }",
            f"add rule inet cut out {sent} drop",
            "add chain inet cut in { type filter hook input priority 0; }",
            f"add rule inet cut in {received} drop",
        ]
        _run(*self.prefix, "nft", "\n".join(rules))
        try:
            yield
        finally:
            _run(*self.prefix, "nft", "delete table inet cut")


@dataclass(slots=True)
class Network:
    """The places of one run. `gateway` is the address of the tests, of what they serve, and of the balancer."""

    port: int
    """The port of every site and of the balancer."""
    net: IPv4Network
    gateway: str
    bridge: str = ""
    places: list[Place] = field(default_factory=list)

    @property
    def has_namespaces(self) -> bool:
        return bool(self.bridge)

    @property
    def sources(self) -> str:
        """The addresses that connections come from: on loopback the kernel gives all of them the same."""
        return str(self.net) if self.has_namespaces else "127.0.0.1/32"

    @property
    def balancers_address(self) -> str:
        """The address that the balancer's connections come from."""
        return self.gateway if self.has_namespaces else "127.0.0.1"

    def add(self, name: str) -> Place:
        """Makes a place for another machine."""
        address = str(self.net[len(self.places) + 1])
        place = Place(address, f"{self.bridge}-{name}" if self.bridge else "")
        if place.namespace:
            _make_namespace(place, self.bridge, len(self.places), self.net.prefixlen)
        self.places.append(place)
        return place


@contextmanager
def running() -> Iterator[Network]:
    """A network of this process: namespaces where they are permitted."""
    number = os.getpid()
    if not may_have_namespaces():
        net = IPv4Network("127.0.1.0/24")
        yield Network(LOOPBACK_PORTS + number % 10_000, net, str(net[254]))
        return
    _remove_left_networks()
    made = next(_NUMBERS)
    net = IPv4Network((0x0A400000 | (7 * number + made) % 0x4000 << 8, 24))
    network = Network(8000, net, str(net[254]), f"tarry{number}{ascii_lowercase[made % 26]}")
    try:
        _make_bridge(network)
        yield network
    finally:
        _remove_network(network.bridge)


def may_have_namespaces() -> bool:
    """Tells whether this process may make network namespaces, and cut them off."""
    if os.environ.get(CHOICE) == "loopback" or os.getuid() != 0 or not all(map(shutil.which, ("ip", "nft"))):
        return False
    name = f"tarry-trial-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return False
    trial = ["ip", "netns", "exec", name, "nft", "add table inet cut"]
    is_able = subprocess.run(trial, capture_output=True, check=False).returncode == 0
    _run("ip", "netns", "delete", name)
    return is_able


def _make_bridge(network: Network) -> None:
    _run("ip", "link", "add", network.bridge, "type", "bridge")
    _run("ip", "address", "add", f"{network.gateway}/{network.net.prefixlen}", "dev", network.bridge)
    _run("ip", "link", "set", network.bridge, "up")


def _make_namespace(place: Place, bridge: str, number: int, length: int) -> None:
    """Makes a namespace with loopback, and a cable to the bridge."""
    here = f"{bridge}v{number}"  # 15 bytes at the most
    _run("ip", "netns", "add", place.namespace)
    _run("ip", "link", "add", here, "type", "veth", "peer", "name", "eth0", "netns", place.namespace)
    _run("ip", "link", "set", here, "master", bridge, "up")
    inside = ("ip", "-n", place.namespace)
    _run(*inside, "link", "set", "lo", "up")
    _run(*inside, "address", "add", f"{place.address}/{length}", "dev", "eth0")
    _run(*inside, "link", "set", "eth0", "up")


def _remove_network(bridge: str) -> None:
    """Removes the bridge and its namespaces. Their processes have ended."""
    for line in _output("ip", "netns", "list").splitlines():
        if line.split()[0].startswith(f"{bridge}-"):
            _run("ip", "netns", "delete", line.split()[0])
    for path in Path("/sys/class/net").glob(f"{bridge}*"):  # the kernel takes a namespace's cables away a moment later
        subprocess.run(["ip", "link", "delete", path.name], capture_output=True, check=False, timeout=30)


def _remove_left_networks() -> None:
    """Removes those of killed runs."""
    for path in Path("/sys/class/net").glob("tarry[0-9]*"):
        found = _BRIDGE.fullmatch(path.name)
        if found and not psutil.pid_exists(int(found[1])):
            _remove_network(path.name)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stdout}{done.stderr}")


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
