"""The ways in which Redis is set up for a cluster: plain servers, Redis Cluster, a primary with Sentinels."""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from redis import Redis, RedisError

from .network import Network, Place
from .servers import RedisNode

STATE_PORT, CACHE_PORT, NODE_PORT, SENTINEL_PORT = 6379, 6380, 7000, 26379
MASTER = "state"
"""The name under which Sentinels know the primary."""
DOWN_MILLISECONDS = 1000
SETTLING_SECONDS = 30
NODE_OPTIONS = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--appendonly", "no")
STATE_OPTIONS = ("--maxmemory-policy", "noeviction")
CACHE_OPTIONS = ("--maxmemory", "256mb", "--maxmemory-policy", "allkeys-lru")


class SiteRedis(Protocol):
    """The Redis of a site: the settings by which it is used, and a client of `state` and of `cache` for tests."""

    @property
    def environment(self) -> dict[str, str]: ...

    @property
    def state(self) -> Redis: ...

    @property
    def cache(self) -> Redis: ...


@dataclass(frozen=True, slots=True)
class PlainRedis:
    """One server for `state` and one for `cache`."""

    state_node: RedisNode
    cache_node: RedisNode

    @property
    def environment(self) -> dict[str, str]:
        return {
            "REDIS_URL": f"redis://{self.state_node.address}/0",
            "CACHE_URL": f"redis://{self.cache_node.address}/0",
        }

    @property
    def state(self) -> Redis:
        return self.state_node.client

    @property
    def cache(self) -> Redis:
        return self.cache_node.client


@contextmanager
def plain(network: Network, place: Place, directory: Path) -> Iterator[SiteRedis]:
    at = _first_port(network)
    state = RedisNode(place, directory / "state", at(STATE_PORT), *STATE_OPTIONS)
    cache = RedisNode(place, directory / "cache", at(CACHE_PORT), *CACHE_OPTIONS)
    with state, cache:
        yield PlainRedis(state, cache)


@dataclass(frozen=True, slots=True)
class RedisCluster:
    """The nodes of a Redis Cluster, each with its client."""

    nodes: Sequence[RedisNode]

    def state_of(self, node: RedisNode) -> str:
        """`ok` or `fail`, as the node sees the cluster."""
        return str(node.execute("CLUSTER INFO")["cluster_state"])

    def is_ready(self) -> bool:
        """Tells whether all slots are served, and each replica has the data of its primary."""
        found = [node.client.info("replication") for node in self.nodes]
        return self.is_well() and all(one.get("master_link_status", "up") == "up" for one in found)

    def primaries(self) -> list[RedisNode]:
        return [node for node in self.nodes if node.process and node.client.info("replication")["role"] == "master"]

    def is_well(self) -> bool:
        """Tells whether each living node sees all slots served."""
        return all(self.state_of(node) == "ok" for node in self.nodes if node.process)


@contextmanager
def cluster(network: Network, place: Place, directory: Path, *, replicas: int = 0) -> Iterator[RedisCluster]:
    """Three primaries with so many replicas each, all slots served."""
    at = _first_port(network)
    number = 3 * (1 + replicas)
    nodes = [RedisNode(place, directory / f"node{n}", at(NODE_PORT + n), *NODE_OPTIONS) for n in range(number)]
    with ExitStack() as entered:
        for node in nodes:
            entered.enter_context(node)
        made = ["redis-cli", "--cluster", "create", *(node.address for node in nodes), "--cluster-yes"]
        command = [*place.prefix, *made, "--cluster-replicas", str(replicas)]
        subprocess.run(command, check=True, capture_output=True, timeout=SETTLING_SECONDS)
        found = RedisCluster(nodes)
        wait_until(found.is_ready, "all slots are served, replicas have the data")
        yield found


@dataclass(frozen=True, slots=True)
class SentinelSetup:
    """A primary, its replica, and three Sentinels, which promote the replica when the primary is gone."""

    primary: RedisNode
    replica: RedisNode
    sentinels: Sequence[RedisNode]

    def named_primary(self) -> str:
        """The address of the primary, as the living Sentinels say; empty while they do not agree."""
        told = {self._told_by(one) for one in self.sentinels if one.process}
        return told.pop() if len(told) == 1 else ""

    def is_ready(self) -> bool:
        """Tells whether every Sentinel knows the replica and the two others, and the replica has the data."""
        states = [one.execute("SENTINEL MASTER", MASTER) for one in self.sentinels]
        is_known = all(int(one["num-slaves"]) == 1 and int(one["num-other-sentinels"]) == 2 for one in states)
        return is_known and self.replica.client.info("replication")["master_link_status"] == "up"

    def _told_by(self, sentinel: RedisNode) -> str:
        host, port = sentinel.execute("SENTINEL GET-MASTER-ADDR-BY-NAME", MASTER)
        return f"{_text(host)}:{_text(port)}"


@contextmanager
def sentinel(network: Network, place: Place, directory: Path) -> Iterator[SentinelSetup]:
    """A primary and its replica under three Sentinels that know each other."""
    at = _first_port(network)
    primary = RedisNode(place, directory / "primary", at(STATE_PORT), *STATE_OPTIONS)
    follows = ("--replicaof", place.address, str(primary.port))
    replica = RedisNode(place, directory / "replica", at(STATE_PORT + 10), *STATE_OPTIONS, *follows)
    watched = "\n".join(
        [
            f"sentinel monitor {MASTER} {place.address} {primary.port} 2",
            f"sentinel down-after-milliseconds {MASTER} {DOWN_MILLISECONDS}",
            f"sentinel failover-timeout {MASTER} 5000",
        ]
    )
    sentinels = [
        RedisNode(place, directory / f"sentinel{n}", at(SENTINEL_PORT + n), "--sentinel", configuration=watched)
        for n in range(3)
    ]
    with ExitStack() as entered:
        for one in (primary, replica, *sentinels):
            entered.enter_context(one)
        found = SentinelSetup(primary, replica, sentinels)
        wait_until(found.is_ready, "the Sentinels know each other and the replica")
        yield found


def wait_until(holds: Callable[[], object], what: str, seconds: float = SETTLING_SECONDS) -> float:
    """Waits until it holds; a server that is away for a moment does not hold. Returns the seconds that it took."""
    began = time.monotonic()
    while not _holds(holds):
        if time.monotonic() > began + seconds:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.05)
    return time.monotonic() - began


def _holds(holds: Callable[[], object]) -> bool:
    try:
        return bool(holds())
    except (RedisError, KeyError):
        return False


def _first_port(network: Network) -> Callable[[int], int]:
    """The usual ports in a namespace; on loopback, where another server may have them, others."""
    return lambda usual: usual if network.has_namespaces else usual + network.port % 1000 + 10_000


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
