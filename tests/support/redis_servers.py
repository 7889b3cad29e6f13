"""Real Redis servers for tests, on unix sockets in a directory of their own."""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import redis

from .stack import eventually, free_port


class RedisServer:
    """One server. It dies with the process that started it."""

    def __init__(self, socket: Path, *options: str) -> None:
        self.socket = socket
        self._options = options
        self.process: subprocess.Popen[bytes] | None = None
        self.client = redis.Redis(unix_socket_path=str(socket), socket_timeout=10)

    def start(self) -> None:
        command = ["redis-server", "--port", "0", "--unixsocket", str(self.socket), "--save", "", "--dir"]
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command, str(self.socket.parent), *self._options],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while not self._answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"redis-server did not start on {self.socket}")
            time.sleep(0.01)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False


class RedisNode:
    """One server on a port of loopback, of a Cluster or watched by Sentinels. It dies with its starter."""

    def __init__(self, directory: Path, *options: str, program: Sequence[str] = ("redis-server",)) -> None:
        self.port = free_port()
        self.directory = directory / str(self.port)
        self.directory.mkdir(parents=True)
        self._command = [*program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory)]
        self._options = options
        self.bus_port = 0
        self.client = redis.Redis(port=self.port, socket_timeout=5)
        self.start()

    def start(self) -> None:
        command = ["setpriv", "--pdeathsig", "KILL", *self._command, *self._options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        eventually(self._answers, 10, "redis-server answers")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False


class RedisCluster:
    """A Cluster of three primaries, each with a replica if asked for. What is in memory alone is lost with a node."""

    def __init__(self, directory: Path, *, replicas: bool = False) -> None:
        self.primaries = [_cluster_node(directory) for _ in range(3)]
        self.replicas = [_cluster_node(directory) for _ in self.primaries if replicas]
        try:
            self._join()
        except BaseException:
            self.stop()
            raise

    def _join(self) -> None:
        for number, node in enumerate(self.primaries):
            first, last = 16384 * number // 3, 16384 * (number + 1) // 3 - 1
            _command(node, "CLUSTER", "ADDSLOTSRANGE", first, last)
        for node in (*self.primaries[1:], *self.replicas):
            met = self.primaries[0]
            _command(node, "CLUSTER", "MEET", "127.0.0.1", met.port, met.bus_port)
        for primary, replica in zip(self.primaries, self.replicas, strict=False):
            name = _command(primary, "CLUSTER", "MYID")
            eventually(lambda: _replicates(replica, name), 10, "the replica follows")  # noqa: B023
        self.wait()

    @property
    def url(self) -> str:
        return "rediscluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.primaries)

    def wait(self) -> None:
        """Waits until all nodes know that all slots are served."""
        nodes = [node for node in (*self.primaries, *self.replicas) if node.process.poll() is None]
        eventually(lambda: all(_is_whole(node) for node in nodes), 20, "the Cluster is whole")
        following = [node for node in self.replicas if node in nodes]
        eventually(lambda: all(_follows(node) for node in following), 20, "the replicas have all")

    def stop(self) -> None:
        for node in (*self.primaries, *self.replicas):
            node.kill()


def _command(node: RedisNode, *words: object) -> Any:
    return node.client.execute_command(*words)  # type: ignore[no-untyped-call]


def _cluster_node(directory: Path) -> RedisNode:
    options: tuple[str, ...] = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--save", "")
    options += (
        "--repl-diskless-sync-delay",
        "0",
        "--cluster-require-full-coverage",
        "no",
        "--cluster-replica-validity-factor",
        "0",
    )
    node = RedisNode(directory, *options, "--cluster-port", str(bus_port := free_port()))
    node.bus_port = bus_port
    return node


def _replicates(replica: RedisNode, name: bytes) -> bool:
    try:
        _command(replica, "CLUSTER", "REPLICATE", name)
    except redis.ResponseError:  # it does not know the primary yet
        return False
    return True


def _follows(node: RedisNode) -> bool:
    known: dict[str, Any] = node.client.info("replication")
    return bool(known["role"] == "master" or known["master_link_status"] == "up")


def _is_whole(node: RedisNode) -> bool:
    known = _command(node, "CLUSTER", "INFO").decode().split()
    return {"cluster_state:ok", "cluster_slots_ok:16384"} <= set(known)


class RedisSentinels:
    """A primary and its replica, and three Sentinels that promote the replica within seconds."""

    def __init__(self, directory: Path, service: str) -> None:
        self.service = service
        self.primary = RedisNode(directory, "--save", "", "--repl-diskless-sync-delay", "0")
        self.replica = RedisNode(directory, "--save", "", "--replicaof", f"127.0.0.1 {self.primary.port}")
        self.sentinels = [self._sentinel(directory) for _ in range(3)]
        try:
            eventually(self._is_ready, 20, "the Sentinels know each other, and the replica")
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return "redis+sentinel://" + ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels) + f"/{self.service}"

    def stop(self) -> None:
        for node in (self.primary, self.replica, *self.sentinels):
            node.kill()

    def _sentinel(self, directory: Path) -> RedisNode:
        watched = ("--sentinel", "monitor", self.service, "127.0.0.1", str(self.primary.port), "2")
        after = ("--sentinel", "down-after-milliseconds", self.service, "1000")
        most = ("--sentinel", "failover-timeout", self.service, "3000")
        (directory / "sentinel.conf").write_text("")
        file = directory / f"sentinel-{free_port()}.conf"
        file.write_text("")
        return RedisNode(directory, *watched, *after, *most, program=("redis-server", str(file), "--sentinel"))

    def _is_ready(self) -> bool:
        found = [cast("dict[str, Any]", one.client.sentinel_masters())[self.service] for one in self.sentinels]
        follows = self.replica.client.info("replication")["master_link_status"] == "up"
        return follows and all(each["num-other-sentinels"] == 2 and each["num-slaves"] == 1 for each in found)
