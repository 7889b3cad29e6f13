"""The machine of stores: PostgreSQL, Redis, a bucket by moto's server. All hosts of a cluster share them."""

import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import psycopg
from redis import Redis, RedisCluster

from ..support import postgres
from ..support.documentation import code_block
from ..support.moto_bucket import MotoBucket
from . import redis_setups
from .network import Network, Place
from .redis_setups import SiteRedis
from .servers import Server, accepts

KINDS: Mapping[str, Callable[[Network, Place, Path], AbstractContextManager[SiteRedis]]] = {
    "plain": redis_setups.plain,
    "cluster": redis_setups.cluster,
    "sentinel": redis_setups.sentinel,
}
"""The kinds of stores that a site can use, each with what starts its Redis."""
OPTIONS = ("fsync=off", "max_connections=200", "unix_socket_directories=")
KEEPALIVES = code_block("docs/operations.md", "text", "tcp_keepalives_idle").replace(" = ", "=").splitlines()
"""The documented ones: a host without power holds no lock for longer."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Running stores. `environment` are the settings by which a site uses them."""

    place: Place
    database: Server
    redis: SiteRedis
    bucket: MotoBucket
    bucket_server: Server
    database_url: str

    @property
    def environment(self) -> dict[str, str]:
        own = {"DATABASE_URL": self.database_url, "STORAGE_URL": self.bucket.storage_url}
        return {**own, **self.redis.environment}

    @property
    def state(self) -> Redis | RedisCluster:
        return self.redis.state

    def restart_database(self) -> None:
        """Restarts PostgreSQL as an administrator does: sessions are ended, nothing is lost."""
        self.database.stop(signal.SIGINT)
        self.database.start()

    @contextmanager
    def silent_bucket(self) -> Iterator[None]:
        """Meanwhile the bucket takes connections, and answers nothing."""
        assert self.bucket_server.process
        self.bucket_server.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.bucket_server.process.send_signal(signal.SIGCONT)


@contextmanager
def running(network: Network, kind: str, directory: Path) -> Iterator[Stores]:
    """The stores in a place of their own. Raises KeyError for an unknown kind."""
    start_redis = KINDS[kind]
    place = network.add("stores")
    with (
        _database(network, place) as (database, url),
        start_redis(network, place, directory / "redis") as found,
        _bucket(network, place, directory) as (bucket, bucket_server),
    ):
        yield Stores(place, database, found, bucket, bucket_server, url)


@contextmanager
def _database(network: Network, place: Place) -> Iterator[tuple[Server, str]]:
    port = 5432 if network.has_namespaces else network.port + 1
    directory = postgres.make_directory()
    try:
        data, prefix = postgres.make_data(directory)
        (data / "pg_hba.conf").write_text(f"host all all {network.sources} trust\n")
        named = [
            part for option in (*OPTIONS, *KEEPALIVES, f"listen_addresses={place.address}") for part in ("-c", option)
        ]
        start = [*(prefix or ["setpriv"]), "--pdeathsig", "QUIT", postgres.find_tool("postgres"), "-D", str(data)]
        url = f"postgres://tarry@{place.address}:{port}/postgres"

        def is_ready() -> bool:
            try:
                psycopg.connect(url.replace("postgres:", "postgresql:", 1), connect_timeout=2).close()
            except psycopg.OperationalError:
                return False
            return True

        log = directory / "log"
        with Server(place, [*start, "-p", str(port), *named], log, is_ready) as database:
            yield database, url
            if database.process:
                database.stop(signal.SIGQUIT)  # at once: nothing of it is kept
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _bucket(network: Network, place: Place, directory: Path) -> Iterator[tuple[MotoBucket, Server]]:
    port = 9000 if network.has_namespaces else network.port + 2
    command = [sys.executable, "-m", "moto.server", "-H", place.address, "-p", str(port)]
    host = f"{place.address}:{port}"
    with Server(
        place,
        ["setpriv", "--pdeathsig", "KILL", *command],
        directory / "moto.log",
        lambda: accepts(place.address, port),
    ) as server:
        client: Any = boto3.client(
            "s3",
            endpoint_url=f"http://{host}",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            region_name="us-east-1",
        )
        client.create_bucket(Bucket="site")
        try:
            yield MotoBucket("site", host, client), server
        finally:
            client.close()
