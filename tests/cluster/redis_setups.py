"""The ways in which Redis is set up for a cluster: plain servers, Redis Cluster, primaries with Sentinels."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import redis
from redis import Redis, RedisError
from redis.cluster import ClusterNode
from redis.sentinel import Sentinel

from .network import Network, Place
from .servers import RedisNode

STATE_PORT, CACHE_PORT, QUEUES_PORT, NODE_PORT, SENTINEL_PORT = 6379, 6380, 6381, 7000, 26379
REPLICAS_OFFSET = 10
"""From the port of a primary to that of its replica."""
STATE, CACHE = "state", "cache"
"""The names under which Sentinels know the primaries."""
FIRST_PARTITION = "{0}"
DOWN_MILLISECONDS = 1000
SETTLING_SECONDS = 30
LOST_SECONDS = 1.0
"""What a replica has missed when it is promoted."""
NODE_OPTIONS = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--appendonly", "no")
STATE_OPTIONS = ("--maxmemory-policy", "noeviction")
CACHE_OPTIONS = ("--maxmemory", "256mb", "--maxmemory-policy", "allkeys-lru")


class SiteRedis(Protocol):
    """The Redis of a site: the settings by which it is used, and a client of `state` for tests."""

    @property
    def environment(self) -> dict[str, str]: ...

    @property
    def state(self) -> "Redis | redis.RedisCluster": ...

    def servers(self) -> dict[str, list[RedisNode]]:
        """Those that answer, without replicas, by what they are for; the one with the first partition is the first."""

    def replica_of(self, primary: RedisNode) -> RedisNode | None:
        """The server that is promoted when the primary is gone."""

    def is_ready(self) -> bool:
        """Tells whether all keys are served, and each replica has the data of its primary."""


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

    def servers(self) -> dict[str, list[RedisNode]]:
        return {"state": [self.state_node], "cache": [self.cache_node]}

    def replica_of(self, primary: RedisNode) -> None:
        return None

    def is_ready(self) -> bool:
        return True


@contextmanager
def plain(network: Network, place: Place, directory: Path) -> Iterator[SiteRedis]:
    at = _first_port(network)
    state = RedisNode(place, directory / "state", at(STATE_PORT), *STATE_OPTIONS)
    cache = RedisNode(place, directory / "cache", at(CACHE_PORT), *CACHE_OPTIONS)
    with state, cache:
        yield PlainRedis(state, cache)


@dataclass(frozen=True)
class ClusteredRedis:
    """The nodes of a Redis Cluster for `state`, a server for `cache`, and one for Celery's queues."""

    nodes: Sequence[RedisNode]
    cache_node: RedisNode
    queues_node: RedisNode

    @property
    def environment(self) -> dict[str, str]:
        return {
            "REDIS_URL": "rediscluster://" + ",".join(node.address for node in self.nodes),
            "QUEUES_URL": f"redis://{self.queues_node.address}/0",
            "CACHE_URL": f"redis://{self.cache_node.address}/0",
        }

    @cached_property
    def state(self) -> redis.RedisCluster:
        startup = [ClusterNode(node.place.address, node.port) for node in self.nodes]  # type: ignore[no-untyped-call]
        return redis.RedisCluster(startup_nodes=startup)

    def servers(self) -> dict[str, list[RedisNode]]:
        primaries = [node for node in self.nodes if node.process and _replication(node)["role"] == "master"]
        primaries.sort(key=lambda node: not _serves(node, FIRST_PARTITION))
        return {"state": primaries, "cache": [self.cache_node], "queues": [self.queues_node]}

    def replica_of(self, primary: RedisNode) -> RedisNode | None:
        return next((node for node in self.nodes if node.process and _follows(node, primary)), None)

    def is_ready(self) -> bool:
        living = [node for node in self.nodes if node.process]
        states = {node.execute("CLUSTER INFO")["cluster_state"] for node in living}
        return states == {"ok"} and len(self.servers()["state"]) == 3 and all(map(_has_data, living))


@contextmanager
def cluster(network: Network, place: Place, directory: Path) -> Iterator[SiteRedis]:
    """Three primaries with a replica each, all slots served."""
    at = _first_port(network)
    nodes = [RedisNode(place, directory / f"node{n}", at(NODE_PORT + n), *NODE_OPTIONS) for n in range(6)]
    cache = RedisNode(place, directory / "cache", at(CACHE_PORT), *CACHE_OPTIONS)
    queues = RedisNode(place, directory / "queues", at(QUEUES_PORT), *STATE_OPTIONS)
    with ExitStack() as entered:
        for node in (*nodes, cache, queues):
            entered.enter_context(node)
        made = ["redis-cli", "--cluster", "create", *(node.address for node in nodes), "--cluster-yes"]
        command = [*place.prefix, *made, "--cluster-replicas", "1"]
        subprocess.run(command, check=True, capture_output=True, timeout=SETTLING_SECONDS)
        found = ClusteredRedis(nodes, cache, queues)
        wait_until(found.is_ready, "all slots are served, replicas have the data")
        yield found


@dataclass(frozen=True)
class WatchedRedis:
    """A primary and its replica for `state`, the same for `cache`, and three Sentinels that watch both."""

    nodes: Sequence[RedisNode]
    """Of `state`."""
    cache_nodes: Sequence[RedisNode]
    sentinels: Sequence[RedisNode]

    @property
    def environment(self) -> dict[str, str]:
        addresses = "redis+sentinel://" + ",".join(node.address for node in self.sentinels)
        return {"REDIS_URL": f"{addresses}/{STATE}", "CACHE_URL": f"{addresses}/{CACHE}"}

    @cached_property
    def state(self) -> Redis:
        addresses = [(node.place.address, node.port) for node in self.sentinels]
        found: Redis = Sentinel(addresses).master_for(STATE)  # type: ignore[no-untyped-call]
        return found

    def servers(self) -> dict[str, list[RedisNode]]:
        return {STATE: self._named(STATE, self.nodes), CACHE: self._named(CACHE, self.cache_nodes)}

    def replica_of(self, primary: RedisNode) -> RedisNode | None:
        return next((node for node in self.nodes if node.process and _follows(node, primary)), None)

    def is_ready(self) -> bool:
        living = [node for node in (*self.nodes, *self.cache_nodes) if node.process]
        is_agreed = all(len(named) == 1 for named in self.servers().values())
        return all(map(_knows_all, self.sentinels)) and is_agreed and all(map(_has_data, living))

    def _named(self, name: str, nodes: Sequence[RedisNode]) -> list[RedisNode]:
        """The one that all Sentinels name."""
        told = [one.execute("SENTINEL GET-MASTER-ADDR-BY-NAME", name) for one in self.sentinels]
        return [node for node in nodes if all(int(port) == node.port for _, port in told)]


@contextmanager
def sentinel(network: Network, place: Place, directory: Path) -> Iterator[SiteRedis]:
    at = _first_port(network)
    nodes = _pair(place, directory / "state", at(STATE_PORT), *STATE_OPTIONS)
    cache_nodes = _pair(place, directory / "cache", at(CACHE_PORT), *CACHE_OPTIONS)
    watched = "\n".join([_watched(STATE, nodes[0]), _watched(CACHE, cache_nodes[0])])
    sentinels = [
        RedisNode(place, directory / f"sentinel{n}", at(SENTINEL_PORT + n), "--sentinel", configuration=watched)
        for n in range(3)
    ]
    with ExitStack() as entered:
        for one in (*nodes, *cache_nodes, *sentinels):
            entered.enter_context(one)
        found = WatchedRedis(nodes, cache_nodes, sentinels)
        wait_until(found.is_ready, "the Sentinels know each other and the replicas")
        yield found


def _pair(place: Place, directory: Path, port: int, *options: str) -> list[RedisNode]:
    """A primary and its replica."""
    primary = RedisNode(place, directory / "primary", port, *options)
    follows = ("--replicaof", place.address, str(port))
    return [primary, RedisNode(place, directory / "replica", port + REPLICAS_OFFSET, *options, *follows)]


def _watched(name: str, primary: RedisNode) -> str:
    return "\n".join(
        [
            f"sentinel monitor {name} {primary.place.address} {primary.port} 2",
            f"sentinel down-after-milliseconds {name} {DOWN_MILLISECONDS}",
            f"sentinel failover-timeout {name} 5000",
        ]
    )


def fail_over(primary: RedisNode, replica: RedisNode) -> None:
    """Kills a primary whose replica has missed the last second, and waits until the replica serves in its place."""
    with silent(replica):
        primary.client.client_kill_filter(_type="replica")  # nothing is left on its way
        time.sleep(LOST_SECONDS)
        primary.kill()
    await_promotion(replica)


@contextmanager
def silent(node: RedisNode) -> Iterator[None]:
    """A server that holds its connections and answers nothing."""
    assert node.process is not None
    node.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        node.process.send_signal(signal.SIGCONT)


def await_promotion(replica: RedisNode) -> None:
    wait_until(lambda: _replication(replica)["role"] == "master", "the replica is promoted")


def wait_until(holds: Callable[[], object], what: str, seconds: float = SETTLING_SECONDS) -> None:
    """Waits until it holds; a server that is away for a moment does not hold."""
    deadline = time.monotonic() + seconds
    while not _holds(holds):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.05)


def _holds(holds: Callable[[], object]) -> bool:
    try:
        return bool(holds())
    except (RedisError, KeyError):
        return False


def _replication(node: RedisNode) -> dict[str, Any]:
    return node.client.info("replication")


def _follows(node: RedisNode, primary: RedisNode) -> bool:
    return bool(_replication(node).get("master_port") == primary.port)


def _has_data(node: RedisNode) -> bool:
    return bool(_replication(node).get("master_link_status", "up") == "up")


def _serves(node: RedisNode, key: str) -> bool:
    try:
        node.client.exists(key)
    except redis.ResponseError:  # another node has it
        return False
    return True


def _knows_all(sentinel: RedisNode) -> bool:
    states = [sentinel.execute("SENTINEL MASTER", name) for name in (STATE, CACHE)]
    return all(int(one["num-slaves"]) == 1 and int(one["num-other-sentinels"]) == 2 for one in states)


def _first_port(network: Network) -> Callable[[int], int]:
    """The usual ports in a namespace; on loopback, where another server may have them, others."""
    return lambda usual: usual if network.has_namespaces else usual + network.port % 1000 + 10_000
