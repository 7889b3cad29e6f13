"""Clients of Redis by URL: one server, the primary that Sentinels name, or the nodes of a Cluster. Reads no settings.

`redis://`, `rediss://` and `unix://` are redis-py's. `redis+sentinel://[user:password@]host:port,…/service[/db]` asks
Sentinels for the primary of a service, with `?sentinel_password=` where they have one. `rediscluster://[user:password@]
host:port,…` names some nodes of a Cluster, which tell of the others.

A Cluster's own pipelines take no scripts, and asynchronous ones of redis-py cost several times as much as pipelines.
"""

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any, cast
from urllib.parse import urlsplit

import hiredis
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.cluster
import redis.sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import AskError, ClusterDownError, RedisClusterException, RedisError, TryAgainError
from redis.retry import Retry

from . import server_urls
from .pipelines import Command, pack_commands
from .scripts import Reply
from .server_urls import CLUSTER, SENTINEL, ServerUrl

_MOVES = (AskError, TryAgainError, ClusterDownError)  # a MovedError is an AskError
"""Refusals of a node that does not have the slot now. Another look at the nodes finds the one that has."""

_AWAY = (redis.ConnectionError, redis.TimeoutError)
"""Errors of a node in whose place another one may answer by now."""

_MOVE_PAUSES = (0.0, 0.05)


@dataclass(slots=True)
class CircuitBreaker:
    """The breaker of one server in this process. Makes no calls; times are monotonic seconds.

    While it is closed, every call goes through. A failure opens it for `rest_seconds`. Then one call may try, and all
    others go on failing fast until that one has succeeded.
    """

    rest_seconds: float = 1.0
    _open_until: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def allows(self, now: float) -> bool:
        if not self._open_until:
            return True
        with self._lock:
            if now < self._open_until:
                return False
            self._open_until = now + self.rest_seconds  # this caller tries; the others rest on
            return True

    def failed(self, now: float) -> bool:
        """Opens the breaker, or keeps it open. Returns True if it was closed before."""
        with self._lock:
            was_closed = not self._open_until
            self._open_until = now + self.rest_seconds
            return was_closed

    def succeeded(self) -> None:
        self._open_until = 0.0


@lru_cache(maxsize=8)
def database_number(url: str) -> int | None:
    """Returns the number of the database that a URL names. Returns None for a Cluster, which has no numbers."""
    if server_urls.is_cluster(url):
        return None
    if url.startswith(f"{SENTINEL}:"):
        return ServerUrl.parse(url).database
    return int(parse_url(url).get("db", 0))  # type: ignore[no-untyped-call]


def make_client(url: str, timeout: float, retry: Retry, kind: "type[redis.Redis]" = redis.Redis) -> redis.Redis:
    """A client for threads, of a Cluster with redis-py's commands. Raises RedisError if no node of it answers."""
    limits: dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": retry}
    if urlsplit(url).scheme not in {SENTINEL, CLUSTER}:
        return kind.from_pool(UncountedPool.from_url(url, **limits))
    parts = ServerUrl.parse(url)
    if parts.scheme == CLUSTER:
        nodes = [redis.cluster.ClusterNode(*node) for node in parts.nodes]  # type: ignore[no-untyped-call]
        return cast(redis.Redis, Cluster(startup_nodes=nodes, require_full_coverage=False, **parts.login, **limits))
    asking: dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout, **parts.sentinel_login}
    sentinel = redis.sentinel.Sentinel(parts.nodes, sentinel_kwargs=asking)  # type: ignore[no-untyped-call]
    options = {"redis_class": kind, "db": parts.database, **parts.login, **limits}
    options["connection_class"] = SentinelConnection
    return cast(redis.Redis, sentinel.master_for(parts.service, **options))  # type: ignore[no-untyped-call]


def run_command(client: redis.Redis, command: Command) -> Reply:
    """Sends a command and returns its reply as it came. The client's retries follow a first failure.

    redis-py itself takes three times as long: it packs in Python, and counts for OpenTelemetry.
    """
    untyped: Any = client
    if isinstance(untyped, redis.cluster.RedisCluster):
        return cast(Reply, untyped.execute_command(*command))  # type: ignore[no-untyped-call]
    replies = _send_packed(untyped, [command])
    if replies is None:
        return cast(Reply, untyped.execute_command(*command))
    if isinstance(replies[0], redis.ResponseError):
        raise replies[0]
    return replies[0]


def run_pipeline(client: redis.Redis, commands: Sequence[Command]) -> list[Reply]:
    """Sends commands to one server in one trip and returns their replies, refusals in their places.

    The client's retries follow a first failure. Raises RedisError if the server is away.
    """
    replies = _send_packed(client, commands) if commands else []
    if replies is not None:
        return replies
    with client.pipeline(transaction=False) as pipeline:
        for command in commands:
            pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
        return list(pipeline.execute(raise_on_error=False))


def _send_packed(client: Any, commands: Sequence[Command]) -> list[Reply] | None:
    """Sends commands and returns their replies, refusals in their places.

    Returns None for a server that is away, if the client has retries; without these it raises RedisError.
    """
    pool = client.connection_pool
    connection = pool.get_connection()
    try:
        packed = b"".join(map(hiredis.pack_command, commands))
        connection.send_packed_command((packed,), check_health=False)
        return [_read_reply(connection) for _ in commands]
    except BaseException as error:
        connection.disconnect()  # else its replies would be the next caller's
        if not isinstance(error, _AWAY) or not connection.retry.get_retries():
            raise
    finally:
        pool.release(connection)
    return None


def _read_reply(connection: Any) -> Reply:
    try:
        return cast(Reply, connection.read_response())
    except redis.ResponseError as error:
        return error


class UncountedPool(redis.ConnectionPool):
    """redis-py's pool without its counts for OpenTelemetry, which take a quarter of the time of a call."""

    def get_connection(self, *_: Any, **__: Any) -> Any:
        self._checkpid()
        with self._lock:
            connection = self._available_connections.pop() if self._available_connections else self.make_connection()
            self._in_use_connections.add(connection)
        try:
            if not connection.is_connected or _is_unusable(connection):
                connection.disconnect()
                connection.connect()
        except BaseException:
            self.release(connection)
            raise
        return connection

    def release(self, connection: Any) -> None:
        self._checkpid()
        with self._lock:
            if connection in self._in_use_connections:  # else the process has forked
                self._in_use_connections.remove(connection)
                self._available_connections.append(connection)
                if connection.should_reconnect():  # the server is about to move
                    connection.disconnect()


def _is_unusable(connection: Any) -> bool:
    """Tells whether the server has closed the connection, or it still has something for an earlier caller."""
    with suppress(redis.ConnectionError, redis.TimeoutError, OSError):
        return bool(connection.can_read())
    return True


class SentinelConnection(redis.sentinel.SentinelManagedConnection):
    """Asks the Sentinels each time that it connects: redis-py's own tries a silent primary again."""

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        if not self._sock:
            self.connect()  # type: ignore[no-untyped-call]
        super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]


class Cluster(redis.cluster.RedisCluster):
    """redis-py's client of a Cluster, whose errors are all RedisErrors."""

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(**options)
        except RedisClusterException as error:
            raise redis.ConnectionError(str(error)) from error

    def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except RedisClusterException as error:
            raise redis.ConnectionError(str(error)) from error

    def pipeline(self, transaction: bool | None = None, shard_hint: Any = None) -> Any:
        """A pipeline that is no transaction: it may have keys of several nodes."""
        return _ClusterPipeline(super().pipeline())  # type: ignore[no-untyped-call]

    def run_at_nodes(self, slots: Sequence[int], commands: Sequence[Command], retry: Retry) -> list[Reply]:
        """Sends commands to the nodes of their slots. Returns their replies; the error of a node stands for its own.

        Without retries, a node that is away is asked once: others must not wait for it.
        """
        again = (*_MOVES, *_AWAY) if retry.get_retries() else _MOVES
        replies: dict[int, Reply] = {}
        left = list(range(len(commands)))
        for pause in (0.0, *_pauses(retry)):
            time.sleep(pause)
            replies |= self._ask_nodes(left, slots, commands)
            if any(isinstance(replies[place], (*_MOVES, *_AWAY)) for place in left):
                self._look_again()
            left = [place for place in left if isinstance(replies[place], again)]
            if not left:
                break
        return [replies[place] for place in range(len(commands))]

    def _ask_nodes(self, places: Sequence[int], slots: Sequence[int], commands: Sequence[Command]) -> dict[int, Reply]:
        replies: dict[int, Reply] = {}
        asked: dict[Any, list[int]] = {}
        for place in places:
            try:
                asked.setdefault(self.nodes_manager.get_node_from_slot(slots[place]), []).append(place)
            except RedisClusterException as error:
                replies[place] = redis.ConnectionError(str(error))
        for node, its in asked.items():
            replies |= zip(its, self._ask_node(node, [commands[place] for place in its]), strict=True)
        return replies

    def _ask_node(self, node: Any, commands: Sequence[Command]) -> list[Reply]:
        try:
            return run_commands(self.get_redis_connection(node), commands, (), Retry(NoBackoff(), 0))
        except RedisError as error:
            return [error] * len(commands)

    def first_at_nodes(self, slots: Sequence[int]) -> set[int]:
        """Returns the place of the first slot of each node. Leaves out slots of which none is known."""
        firsts: dict[Any, int] = {}
        for place, slot in enumerate(slots):
            with suppress(RedisClusterException):
                firsts.setdefault(self.nodes_manager.get_node_from_slot(slot), place)
        return set(firsts.values())

    def _look_again(self) -> None:
        """Asks the nodes which of them have which slots."""
        try:
            self.nodes_manager.initialize()
        except (RedisError, RedisClusterException):
            return  # the next call tells of it


class _ClusterPipeline:
    """redis-py's pipeline of a Cluster, whose errors are all RedisErrors."""

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline

    def __enter__(self) -> "_ClusterPipeline":
        return self

    def __exit__(self, *raised: object) -> None:
        self._pipeline.reset()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pipeline, name)

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        try:
            return cast("list[Any]", self._pipeline.execute(raise_on_error=raise_on_error))
        except RedisClusterException as error:
            raise redis.ConnectionError(str(error)) from error


def _pauses(retry: Retry) -> list[float]:
    """The pauses between the tries of a client of a Cluster. Two of them follow a slot that has moved."""
    attempts = retry.get_retries()
    return [*_MOVE_PAUSES, *(retry._backoff.compute(failures) for failures in range(1, attempts + 1))]


def run_commands(client: Any, commands: Sequence[Command], slots: Sequence[int], retry: Retry) -> list[Reply]:
    """Sends all commands and returns their replies, refusals in their places. Raises RedisError if a server is away.

    `slots` are those of the commands' keys. A Cluster needs them; there, an error stands for each reply of a node that
    is away.
    """
    if isinstance(client, Cluster):
        return client.run_at_nodes(slots, commands, retry)
    return run_pipeline(client, commands)


@dataclass(slots=True)
class ClusterClient:
    """The primaries of a Cluster for one event loop, each with a client of its own."""

    url: str
    timeout: float
    _primaries: list[tuple[int, int, str, int]] = field(default_factory=list)
    """First and last slot, host and port."""
    _clients: "dict[tuple[str, int], redis.asyncio.Redis]" = field(default_factory=dict)

    async def node_of(self, slot: int) -> "redis.asyncio.Redis":
        """The client of the primary of the slot. Raises redis.ConnectionError if none is known."""
        if not self._primaries:
            await self.look_again()
        for first, last, host, port in self._primaries:
            if first <= slot <= last:
                return self._client_at(host, port)
        raise redis.ConnectionError(f"no node of the Cluster has slot {slot}")

    async def any_node(self) -> "redis.asyncio.Redis":
        """The client of one of the primaries, to subscribe: each has all messages. Raises redis.ConnectionError."""
        return await self.node_of(random.randrange(REDIS_CLUSTER_HASH_SLOTS))

    async def look_again(self) -> None:
        """Asks the nodes in turn which of them have which slots. Raises nothing: the next call tells of an outage."""
        known = [(host, port) for _, _, host, port in self._primaries]
        for host, port in dict.fromkeys([*random.sample(known, len(known)), *ServerUrl.parse(self.url).nodes]):
            try:
                found = await self._client_at(host, port).execute_command("CLUSTER SLOTS")  # type: ignore[no-untyped-call]
            except (RedisError, OSError):
                continue
            self._primaries = [
                (first, last, node[0].decode() if node[0] else host, node[1]) for first, last, node, *_ in found
            ]
            return

    def _client_at(self, host: str, port: int) -> "redis.asyncio.Redis":
        if (host, port) not in self._clients:
            options: dict[str, Any] = {**ServerUrl.parse(self.url).login, "retry": AsyncRetry(NoBackoff(), 0)}
            options |= {"socket_timeout": self.timeout, "socket_connect_timeout": self.timeout}
            self._clients[host, port] = pack_commands(redis.asyncio.Redis(host=host, port=port, **options))
        return self._clients[host, port]

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()


class SentinelClient(redis.asyncio.Redis):
    """A client of the primary that Sentinels name. Closes its connections to them as well."""

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        for sentinel in self.connection_pool.sentinel_manager.sentinels:  # type: ignore[attr-defined]
            await sentinel.aclose()


AsyncClient = redis.asyncio.Redis | ClusterClient


def make_async_client(url: str, timeout: float, **options: Any) -> AsyncClient:
    """A new client for the running event loop, which fails fast. The caller closes it. A Cluster's has no options."""
    limits: dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout, **options}
    limits["retry"] = AsyncRetry(NoBackoff(), 0)
    if server_urls.is_cluster(url):
        return ClusterClient(url, timeout)
    if not url.startswith(f"{SENTINEL}:"):
        return pack_commands(redis.asyncio.Redis.from_url(url, **limits))
    parts = ServerUrl.parse(url)
    asking: dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout, **parts.sentinel_login}
    sentinel = redis.asyncio.sentinel.Sentinel(parts.nodes, sentinel_kwargs=asking)  # type: ignore[no-untyped-call]
    given = {"redis_class": SentinelClient, "db": parts.database, **parts.login, **limits}
    return pack_commands(sentinel.master_for(parts.service, **given))


def has_moved(reply: Reply) -> bool:
    """Tells whether a node of a Cluster refused the command since another has the slot."""
    return isinstance(reply, _MOVES)


def slot_of(key: str) -> int:
    return key_slot(key.encode())
