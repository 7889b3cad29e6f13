"""A cluster under load while a host or a store fails: content or 503 with Retry-After, and nothing lost or doubled."""

import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from uuid import uuid4

import pytest
import requests

from ..chaos import means
from ..support.layers import load_line
from ..support.stack import eventually
from . import load, network, redis_setups
from .hosts import Host
from .load import Load
from .recoveries import Recoveries
from .redis_setups import SiteRedis
from .servers import RedisNode
from .world import Cluster

OFF_SECONDS, CUT_SECONDS, SKEW_SECONDS, SKEWED_SECONDS, SILENT_SECONDS = 10, 30, 30, 10, 30


@pytest.fixture(scope="module")
def hot(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a tile of a painted layer."""
    return load_line(cluster.hosts[0], "underload", tmp_path_factory.mktemp("line"))


@pytest.fixture
def running(cluster: Cluster, hot: str, recoveries: Recoveries) -> Iterator[Load]:
    """A load on a cluster that is well before and afterwards."""
    for host in cluster.hosts:
        host.wait_until_healthy()
    with load.running(cluster, hot) as made:
        yield made
        recoveries.add(made.suffered, made.records)
    for host in cluster.hosts:
        host.wait_until_healthy(60)


def test_a_host_whose_processes_are_killed_and_started_again(running: Load, b: Host) -> None:
    killed = time.monotonic()
    b.crash()
    running.note("all processes of a host killed", killed, time.monotonic())
    with running.suffering("the host started again"):
        b.start()
    load.judge(running, broken_at=[killed])


def test_a_host_that_loses_its_power_and_comes_back(running: Load, cluster: Cluster, b: Host) -> None:
    if not cluster.network.has_namespaces:
        pytest.skip(network.NO_CUT)
    with b.place.cut_off():  # it says goodbye to nobody
        off = time.monotonic()
        b.crash()
        time.sleep(OFF_SECONDS)
        running.note("a host without power", off, off)
    with running.suffering("the host switched on again"):
        b.start()
    load.judge(running, broken_at=[off])


def test_a_host_that_is_cut_off_from_the_stores_and_back(running: Load, cluster: Cluster, b: Host) -> None:
    if not cluster.network.has_namespaces:
        pytest.skip(network.NO_CUT)
    with running.suffering("host cut off from the stores"), b.place.cut_off(cluster.stores.place):
        time.sleep(CUT_SECONDS)
    load.judge(running)


def test_the_primary_of_state_killed_and_its_replica_promoted_without_the_last_second(
    running: Load, cluster: Cluster
) -> None:
    lose_primary(running, cluster.stores.redis, 0)


def test_a_node_of_state_killed_that_has_not_the_first_partition(running: Load, cluster: Cluster) -> None:
    lose_primary(running, cluster.stores.redis, 1)


@pytest.mark.parametrize("number", [0, 1])
def test_a_primary_of_state_that_is_silent_and_back(running: Load, cluster: Cluster, number: int) -> None:
    redis = cluster.stores.redis
    primary, replica = primary_with_replica(redis, number)
    with running.suffering(f"primary {number + 1} of `state` silent, its replica promoted"):
        with redis_setups.silent(primary):
            redis_setups.await_promotion(replica)
            eventually(lambda: is_prepared_anew(cluster), SILENT_SECONDS, "painters ask the promoted one")
        redis_setups.wait_until(redis.is_ready, "the silent primary follows the promoted one")
    load.judge(running)


def is_prepared_anew(cluster: Cluster) -> bool:
    """Asks for content that nobody has asked for before."""
    address = f"{cluster.hosts[0].base_url}/slow/{uuid4().hex}?seconds=0.2"
    try:
        return requests.get(address, timeout=8).status_code == 200
    except requests.Timeout:
        return False


def primary_with_replica(redis: SiteRedis, number: int) -> tuple[RedisNode, RedisNode]:
    """Skips the test where no replica would take over."""
    primary = next(iter(redis.servers()["state"][number:]), None)
    replica = redis.replica_of(primary) if primary else None
    if primary is None or replica is None:
        pytest.skip("no replica would take over; see --stores")
    return primary, replica


def lose_primary(running: Load, redis: SiteRedis, number: int) -> None:
    """Kills that primary of `state`, and starts it again once its replica has taken over."""
    primary, replica = primary_with_replica(redis, number)
    with running.suffering(f"primary {number + 1} of `state` killed, its replica promoted without the last second"):
        redis_setups.fail_over(primary, replica)
    primary.start()
    redis_setups.wait_until(redis.is_ready, "the killed primary follows the promoted one")
    load.judge(running)


def test_postgresql_restarted(running: Load, cluster: Cluster) -> None:
    with running.suffering("PostgreSQL restarted"):
        cluster.stores.restart_database()
    load.judge(running)


def test_a_host_whose_clock_is_set_ahead_and_back(running: Load, cluster: Cluster, b: Host) -> None:
    if cluster.clock is None:
        pytest.skip(means.NO_CLOCK)
    with running.suffering(f"clock of a host {SKEW_SECONDS} s ahead"):
        cluster.clock.step(SKEW_SECONDS)
        eventually(lambda: abs(seconds_ahead(b) - SKEW_SECONDS) < 3, 10, "its answers are dated so")
        time.sleep(SKEWED_SECONDS)
    with running.suffering("clock set back"):
        cluster.clock.step(0)
        eventually(lambda: abs(seconds_ahead(b)) < 3, 10, "its answers are dated so")
    load.judge(running)


def seconds_ahead(host: Host) -> float:
    answer = requests.get(f"{host.base_url}/healthz/live", timeout=10)
    return parsedate_to_datetime(answer.headers["Date"]).timestamp() - time.time()


def test_all_hosts_restarted_one_after_the_other(running: Load, cluster: Cluster) -> None:
    with running.suffering("three hosts restarted"):
        for host in cluster.hosts:
            host.drain()
            host.start()
            eventually(lambda: all(one.health()[0] == 200 for one in cluster.hosts), 60, "all are well again")
    load.judge(running)
    assert [record for record in running.records if record.is_bad] == []
