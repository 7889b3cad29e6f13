"""The primary of `state` killed, and its replica promoted: by Sentinels, and in a Redis Cluster."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.crowd import Crowd, Visit
from tests.support.redis_servers import RedisCluster, RedisSentinels
from tests.support.stack import Stack

from .faults.conftest import IMPATIENT, wait_until_clients_wait
from .slow.slow_content import SlowContent

pytestmark = pytest.mark.no_database

CLIENTS = 60
RECOVERY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class FailingSite:
    """A site, and the servers whose primary is killed."""

    stack: Stack
    servers: RedisSentinels | RedisCluster

    def kill_primary(self) -> None:
        node = (
            self.servers.primary if isinstance(self.servers, RedisSentinels) else self.servers.primaries[2]
        )  # it has the first partition
        node.kill()


@pytest.fixture(params=["sentinels", "cluster"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FailingSite]:
    """A site whose `state` fails over. With Sentinels its `cache` is known by Sentinels too."""
    if request.param == "sentinels":
        servers: RedisSentinels | RedisCluster = RedisSentinels(tmp_path, "state")
        cache = RedisSentinels(tmp_path, "cache")
        environment, others = {"CACHE_URL": cache.url}, [cache]
    else:
        servers, broker = RedisCluster(tmp_path, replicas=True), RedisSentinels(tmp_path, "broker")
        environment, others = {"QUEUES_URL": broker.url}, [broker]
    try:
        with Stack(**IMPATIENT, RETRY_REDIS_TIMEOUT="0.3", REDIS_URL=servers.url, **environment) as stack:
            yield FailingSite(stack, servers)
    finally:
        for each in (servers, *others):
            each.stop()


def bodies(visits: list[Visit]) -> list[bytes]:
    return [visit.body for visit in visits]


def test_clients_that_wait_are_served_after_the_fail_over(site: FailingSite) -> None:
    with Crowd(site.stack.base_url) as crowd:
        waiting = crowd.send([f"/slow/w{number}?gated=1&kind=cold" for number in range(CLIENTS)], patient=True)
        wait_until_clients_wait(site.stack, CLIENTS)
        site.kill_primary()
        for number in range(CLIENTS):
            site.stack.open_gate(f"w{number}")
        asked = crowd.send([f"/slow/during{number}?seconds=0.02&kind=cold" for number in range(CLIENTS)])
        for visit in waiting.result(RECOVERY_SECONDS) + asked.result(RECOVERY_SECONDS):
            assert visit.error == ""
            assert visit.status == 200 or visit.is_honest_refusal
        site.stack.wait_until_healthy(RECOVERY_SECONDS)
        expected = [SlowContent(f"after{number}").body for number in range(CLIENTS)]
        assert bodies(crowd.insist([f"/slow/after{number}" for number in range(CLIENTS)], RECOVERY_SECONDS)) == expected
        again = crowd.insist([f"/slow/w{number}?gated=1&kind=cold" for number in range(CLIENTS)], RECOVERY_SECONDS)
        assert {visit.status for visit in again} == {200}
