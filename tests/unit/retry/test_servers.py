"""Clients of Redis Clusters and of Sentinels: the protocol on both, and fail-overs."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pytest_django import Settings
from redis.backoff import NoBackoff
from redis.connection import UnixDomainSocketConnection
from redis.exceptions import ConnectionError as ConnectionLostError
from redis.exceptions import ResponseError
from redis.retry import Retry

from retry import claims, contents, popularity, servers, stores
from retry.claim_state import ClaimBegun, ClaimTaken, WorkUnknown, read_claim_state
from retry.contents import Prepared
from retry.errors import StoreUnavailable
from retry.scripts import ScriptCall
from retry.server_urls import ServerUrl
from retry.work import Work
from retry.worker import age_lanes, prepare, sweep_claims
from tests.conftest import RedisServers
from tests.support import claim_calls
from tests.support.redis_servers import RedisCluster, RedisSentinels
from tests.support.stack import eventually

WORK = Work("paint:a:1", "paint:a", "paint.now", "paint.refresh", "tests.paint", ("a", 1))
WORKS = [replace(WORK, key=f"paint:{number}:1") for number in range(60)]
TILE = Prepared(b"tile", "image/png", 60, 60)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    cluster = RedisCluster(tmp_path_factory.mktemp("cluster"), replicas=True)
    yield cluster
    cluster.stop()


def forget_servers() -> None:
    """Closes the clients of the servers that the settings name, and forgets their failures."""
    for client in (stores.fast_client("state"), stores.patient_client("state")):
        client.close()
    stores._make_client.cache_clear()
    stores.BREAKERS.clear()


@pytest.fixture
def on_cluster(cluster: RedisCluster, redis_servers: RedisServers, settings: Settings) -> Iterator[RedisCluster]:
    """The claims of tests are in the Cluster, which is empty, and messages in the one server."""
    settings.REDIS_URL, settings.QUEUES_URL = cluster.url, f"unix://{redis_servers.state.socket}"
    settings.STATE_PARTITIONS = 16
    for node in cluster.primaries:
        node.client.flushall()
    stores.BREAKERS.clear()
    yield cluster
    forget_servers()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis+sentinel://a:1,b:2/site/3", ServerUrl("redis+sentinel", (("a", 1), ("b", 2)), "site", {}, 3, {})),
        (
            "redis+sentinel://me:a%2Fb@[::1]:1/site?sentinel_password=c",
            ServerUrl(
                "redis+sentinel", (("::1", 1),), "site", {"username": "me", "password": "a/b"}, 0, {"password": "c"}
            ),
        ),
        ("rediscluster://:b@a:1", ServerUrl("rediscluster", (("a", 1),), "", {"password": "b"}, 0, {})),
    ],
)
def test_the_parts_of_a_url_are_read(url: str, said: ServerUrl) -> None:
    assert ServerUrl.parse(url) == said


@pytest.mark.parametrize(
    "url", ["redis+sentinel://a:1", "rediscluster://a", "rediscluster://a:1/site", "redis+sentinel://a:1/site/x"]
)
def test_a_url_that_lacks_a_part_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        ServerUrl.parse(url)


@pytest.mark.parametrize(
    ("url", "number"),
    [
        ("redis://a", 0),
        ("rediss://a:1/2", 2),
        ("redis://a/2?db=3", 3),
        ("unix:///run/cache.sock", 0),
        ("unix://:long@/run/cache.sock?db=4", 4),
        ("redis+sentinel://a:1,b:2/site/3", 3),
        ("rediscluster://a:1", None),
    ],
)
def test_the_number_of_the_database_is_that_of_the_client(url: str, number: int | None) -> None:
    assert servers.database_number(url) == number
    if number is not None:
        client = servers.make_client(url, 1, Retry(NoBackoff(), 0))
        assert client.connection_pool.connection_kwargs.get("db", 0) == number


@pytest.mark.usefixtures("on_cluster")
def test_works_of_all_partitions_are_claimed_started_and_ended() -> None:
    tokens = {work.key: claim_calls.begun(work).token for work in WORKS}
    assert len({claims.partition_of_work(key) for key in tokens}) == 16
    assert claims.count_queued(["paint.now"]) == {"paint.now": len(WORKS)}
    for work in WORKS:
        prepare(work.key, tokens[work.key], lambda: {})
    assert claims.count_queued(["paint.now"]) == {"paint.now": 0}
    assert claims.load_durations(["paint:a"]).keys() == {"paint:a"}
    assert isinstance(claim_calls.begin(WORK), ClaimBegun)


def test_the_keys_of_all_works_are_spread_over_the_nodes(on_cluster: RedisCluster) -> None:
    for work in WORKS:
        claim_calls.begun(work)
    held = [len(list(node.client.scan_iter("retry:*:claim:*"))) for node in on_cluster.primaries]
    assert sum(held) == len(WORKS)
    assert min(held) >= len(WORKS) // 8


@pytest.mark.usefixtures("on_cluster")
def test_the_sweeper_passes_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[str] = []
    monkeypatch.setattr("retry.lanes.publish_work", lambda task, key, *rest: published.append(key))
    for work in WORKS:
        claim_calls.begun(work)
        root = f"retry:{{{claims.partition_of_work(work.key)}}}"
        stores.fast_client("state").zadd(f"{root}:claims", {work.key: 1})
    assert not claims.is_swept()
    assert sweep_claims() == len(WORKS)
    assert sorted(published) == sorted(work.key for work in WORKS)
    assert claims.is_swept()


@pytest.mark.usefixtures("on_cluster")
@pytest.mark.anyio
async def test_calls_of_one_trip_go_to_the_nodes_of_their_keys() -> None:
    client = stores.async_client("state")
    try:
        calls = [claims.begin_call(work, refresh=False) for work in WORKS]
        replies = await stores.execute_all(client, "state", calls)
        assert all(isinstance(read_claim_state(reply), ClaimBegun) for reply in replies)
        again = await stores.execute_all(client, "state", [claims.look_call(work.key) for work in WORKS])
        assert all(isinstance(read_claim_state(reply), ClaimTaken) for reply in again)
    finally:
        await client.aclose()


@pytest.mark.usefixtures("on_cluster")
def test_popularity_is_counted_in_one_step() -> None:
    hit = popularity.PeriodHits("tile", "map", "hot", True, 1, 3)
    assert stores.execute_call(popularity.count_call("log", b"", b"1", [hit], {"tile:map:1": 3.0})) == 1
    assert popularity.load_position("log") == b"1"
    assert round(popularity.weighted_requests("tile:map:1"), 2) == 3
    assert [one.content_key for one in popularity.most_popular_contents("tile", 1)] == ["tile:map:1"]


@contextmanager
def own_cluster(
    directory: Path, redis_servers: RedisServers, settings: Settings, *, replicas: bool = False
) -> Iterator[RedisCluster]:
    """A Cluster as `state`, of which nodes may be killed."""
    cluster = RedisCluster(directory, replicas=replicas)
    settings.REDIS_URL, settings.QUEUES_URL = cluster.url, f"unix://{redis_servers.state.socket}"
    settings.STATE_PARTITIONS = 16
    stores.BREAKERS.clear()
    try:
        yield cluster
    finally:
        forget_servers()
        cluster.stop()


def test_a_node_that_is_away_holds_up_its_own_partitions_alone_until_its_replica_is_promoted(
    tmp_path: Path, redis_servers: RedisServers, settings: Settings
) -> None:
    with own_cluster(tmp_path, redis_servers, settings, replicas=True) as cluster:
        for work in WORKS:
            claim_calls.begun(work)
        cluster.primaries[0].kill()
        states = [_state_of(work) for work in WORKS]
        assert ClaimTaken in states
        assert StoreUnavailable in states
        eventually(lambda: StoreUnavailable not in [_state_of(work) for work in WORKS], 20, "the replica is promoted")
        eventually(lambda: asyncio.run(_states_at_once()) == {list}, 5, "each node knows that")


@pytest.mark.parametrize("lost", ["the first partition", "another one"])
def test_partitions_that_answer_are_swept_and_counted_while_a_node_is_away(
    lost: str, tmp_path: Path, redis_servers: RedisServers, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[str] = []
    monkeypatch.setattr("retry.lanes.publish_work", lambda task, key, *rest: published.append(key))
    with own_cluster(tmp_path, redis_servers, settings) as cluster:
        for work in WORKS:
            claim_calls.begun(work)
            root = f"retry:{{{claims.partition_of_work(work.key)}}}"
            stores.fast_client("state").zadd(f"{root}:claims", {work.key: 1})
        node = cluster.primaries[servers.slot_of("retry:{0}") * 3 // 16384 - (lost == "another one")]
        node.kill()
        there = [work.key for work in WORKS if _state_of(work) is not StoreUnavailable]
        assert 0 < len(there) < len(WORKS)
        assert sweep_claims() == len(there)
        assert sorted(published) == sorted(there)
        assert age_lanes() == 0
        assert not claims.is_swept()
        assert claims.count_queued(["paint.now"]) == {"paint.now": len(there)}
        if lost == "another one":
            assert claims.count_queued(["fetch.ingest"]) == {"fetch.ingest": 0}
        else:
            assert claims.count_queued(["paint.now", "fetch.ingest"]) == {"paint.now": len(there)}
            with pytest.raises(StoreUnavailable):
                claims.count_queued(["fetch.ingest"])


def _state_of(work: Work) -> type:
    try:
        return type(claim_calls.look(work))
    except StoreUnavailable as error:
        return type(error)


async def _states_at_once() -> set[type]:
    client = stores.async_client("state")
    try:
        replies = await stores.execute_all(client, "state", [claims.look_call(work.key) for work in WORKS])
        return {type(reply) for reply in replies}
    finally:
        await client.aclose()


def test_sentinels_lead_to_the_new_primary_whose_tokens_are_newer(
    tmp_path: Path, redis_servers: RedisServers, settings: Settings
) -> None:
    sentinels = RedisSentinels(tmp_path, "site")
    settings.REDIS_URL, settings.QUEUES_URL = sentinels.url, f"unix://{redis_servers.state.socket}"
    stores.BREAKERS.clear()
    try:
        sweep_claims()
        token = claim_calls.begun(WORK).token
        store = contents.store_call("a", TILE, token, datetime.now(UTC), 0)
        assert stores.execute_call(store) == 1
        sentinels.primary.client.wait(1, 1000)
        sentinels.primary.kill()
        eventually(lambda: _state_of(WORK) in {ClaimTaken, WorkUnknown}, 20, "the replica is promoted")
        stores.execute_patiently(claims.abandon_call(WORK.key, token))
        later = claim_calls.begun(WORK).token
        assert later > token + 50_000_000  # a minute: the clock of the new server may be behind
        assert asyncio.run(_look_by_events(claims.look_call(WORK.key)))
    finally:
        forget_servers()
        sentinels.stop()


async def _look_by_events(call: ScriptCall) -> bool:
    client = stores.async_client("state")
    try:
        (reply,) = await stores.execute_all(client, "state", [call])
        return isinstance(read_claim_state(reply), ClaimTaken)
    finally:
        await client.aclose()


@pytest.mark.usefixtures("redis_servers")
def test_a_pipeline_has_a_refusal_in_its_place_and_all_other_replies() -> None:
    client = stores.patient_client("state")
    commands = [("SET", "pipe:a", "x"), ("INCR", "pipe:a"), ("GET", "pipe:a")]
    done, refused, value = servers.run_pipeline(client, commands)
    assert (done, value) == (b"OK", b"x")
    assert isinstance(refused, ResponseError)
    assert servers.run_pipeline(client, []) == []


@pytest.mark.usefixtures("redis_servers")
def test_a_pipeline_whose_connection_is_lost_follows_the_retries_of_its_client() -> None:
    patient, fast = stores.patient_client("state"), stores.fast_client("state")
    for client in (patient, fast):
        client.ping()
    with patch.object(UnixDomainSocketConnection, "read_response", autospec=True, side_effect=_broken_once()):
        assert servers.run_pipeline(patient, [("ECHO", "a"), ("ECHO", "b")]) == [b"a", b"b"]
    with (
        patch.object(UnixDomainSocketConnection, "read_response", autospec=True, side_effect=_broken_once()),
        pytest.raises(ConnectionLostError),
    ):
        servers.run_pipeline(fast, [("GET", "pipe:b")])
    assert servers.run_pipeline(fast, [("ECHO", "c")]) == [b"c"]


def _broken_once() -> Callable[..., object]:
    read, broken = UnixDomainSocketConnection.read_response, list[bool]()

    def read_response(connection: UnixDomainSocketConnection, *arguments: Any, **options: Any) -> object:
        if not broken:
            broken.append(True)
            raise ConnectionLostError("lost")
        return read(connection, *arguments, **options)

    return read_response
