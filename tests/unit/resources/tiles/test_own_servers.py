"""Own servers: what layers say of the servers of their tiles, in force at the fetchers."""

import pytest

from resources import tasks
from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import DomainLimits
from resources.tiles import own_servers, publication
from resources.tiles.models import Layer
from retry import stores
from tests.conftest import RedisServers

from ..conftest import OTHER_TEMPLATE, TEMPLATE, LoadUpstream, run

HOST, OTHER_HOST = "tiles.example.org", "other.example"


def limits(scope: str = HOST) -> DomainLimits:
    return stores.run_steps(queue.read_limits_in_force([scope]))[0].limits


@pytest.mark.django_db(transaction=True)
def test_the_number_is_in_force_as_soon_as_a_layer_has_it_and_gone_with_the_layer(redis_servers: RedisServers) -> None:
    run("load_layer", "osm", "--upstream", TEMPLATE, "--in-flight", 64)
    assert limits() == DomainLimits(0, 64)
    run("load_layer", "osm", "--upstream", OTHER_TEMPLATE)
    assert [limits(), limits(OTHER_HOST)] == [DomainLimits(), DomainLimits(0, 64)]
    publication.delete_layers(Layer.objects.all())
    assert limits(OTHER_HOST) == DomainLimits()


def test_what_a_change_could_not_reach_is_mended_by_the_periodic_task(
    redis_servers: RedisServers, upstream: LoadUpstream
) -> None:
    upstream(upstream_in_flight=64)  # within the transaction of the test, so that nothing follows it
    assert limits() == DomainLimits()
    tasks.apply_fetch_limits()
    assert limits() == DomainLimits(0, 64)
    Layer.objects.all().delete()
    tasks.apply_fetch_limits()
    assert limits() == DomainLimits()


def test_subdomains_share_the_number_and_of_several_layers_the_least_counts(upstream: LoadUpstream) -> None:
    upstream("a", "https://{s:1234}.example.org/{z}/{x}/{y}.png", upstream_in_flight=30)
    upstream("b", "https://1.example.org/{z}/{x}/{y}.png", upstream_in_flight=5)
    upstream("c", OTHER_TEMPLATE)
    assert own_servers.find_own_servers() == {f"{name}.example.org": 5 if name == "1" else 7 for name in "1234"}
