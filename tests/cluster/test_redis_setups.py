"""The Redis of a cluster by itself: slots served by three nodes, and replicas that take over from what was killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from . import network, redis_setups
from .network import Network, Place
from .redis_setups import wait_until


@pytest.fixture(scope="module")
def net() -> Iterator[Network]:
    with network.running() as made:
        yield made


@pytest.fixture(scope="module")
def place(net: Network) -> Place:
    return net.add("stores")


def test_three_nodes_serve_all_slots(net: Network, place: Place, tmp_path: Path) -> None:
    with redis_setups.cluster(net, place, tmp_path) as made:
        assert {made.state_of(node) for node in made.nodes} == {"ok"}
        assert len(made.primaries()) == 3
        made.nodes[0].kill()
        wait_until(lambda: made.state_of(made.nodes[1]) == "fail", "slots are missed without a replica")


def test_the_replica_of_a_killed_node_serves_its_slots(net: Network, place: Place, tmp_path: Path) -> None:
    with redis_setups.cluster(net, place, tmp_path, replicas=1) as made:
        before = made.primaries()
        before[0].kill()
        wait_until(lambda: len(made.primaries()) == 3 and made.is_well(), "a replica serves the slots")
        assert set(made.primaries()) - set(before)


def test_sentinels_promote_the_replica_of_a_killed_primary(net: Network, place: Place, tmp_path: Path) -> None:
    with redis_setups.sentinel(net, place, tmp_path) as made:
        assert made.named_primary() == made.primary.address
        made.primary.client.set("kept", "before")
        made.primary.client.wait(1, 1000)
        made.primary.kill()
        wait_until(lambda: made.named_primary() == made.replica.address, "all Sentinels name the replica")
        wait_until(lambda: made.replica.client.set("written", "after"), "the replica can be written to")
        assert made.replica.client.get("kept") == b"before"
