"""The lanes of URLs: by the ending of their names, else by the recent files of their hosts."""

from datetime import timedelta
from typing import Any

import pytest

from resources.fetch.models import FetchTiming
from resources.mirror import hosts as mirror_hosts
from resources.mirror.hosts import LARGE_BYTES, MAX_HOSTS_AT_ONCE, SAMPLED_FILES
from resources.mirror.models import UrlLane
from tests.support.mirror_rows import NOW

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _knows_nothing() -> None:
    mirror_hosts.forget_hosts_here()


def sent(scope: str, *sizes: int, kind: str = "file", outcome: str = "fetched") -> None:
    """The oldest first."""
    FetchTiming.objects.bulk_create(
        FetchTiming(
            started_at=NOW + timedelta(seconds=number),
            scope=scope,
            kind=kind,
            lane="fast",
            seconds=1,
            wire_bytes=size,
            outcome=outcome,
        )
        for number, size in enumerate(sizes)
    )


def lane_of(url: str, host: str = "example.org") -> UrlLane:
    return mirror_hosts.choose_lanes([(url, host)])[0]


@pytest.mark.parametrize(
    ("name", "lane"),
    [
        ("a.mp4", UrlLane.LARGE),
        ("a.ZIP?x", UrlLane.LARGE),
        ("a.jpg", UrlLane.FAST),
        ("mp4", UrlLane.FAST),
        ("x.mp4/a", UrlLane.FAST),
    ],
)
def test_an_ending_tells_what_is_large(name: str, lane: UrlLane) -> None:
    assert lane_of(f"https://example.org/{name}") is lane


@pytest.mark.parametrize(
    ("sizes", "lane"),
    [
        ((), UrlLane.FAST),
        ((LARGE_BYTES, LARGE_BYTES), UrlLane.LARGE),
        ((LARGE_BYTES - 1,), UrlLane.FAST),
        ((1, 2 * LARGE_BYTES), UrlLane.LARGE),
        ((100 * LARGE_BYTES, *[1] * SAMPLED_FILES), UrlLane.FAST),
    ],
    ids=["nothing is known", "large", "small", "on average", "of late"],
)
def test_a_name_without_an_ending_waits_as_the_last_files_of_its_host_were_large(
    sizes: tuple[int, ...], lane: UrlLane
) -> None:
    sent("example.org", *sizes)
    sent("other.example", 2 * LARGE_BYTES)
    assert lane_of("https://example.org/a") is lane
    assert lane_of("https://example.org/a.jpg") is UrlLane.FAST


@pytest.mark.parametrize("other", [{"kind": "feed"}, {"outcome": "transient"}, {"outcome": "dropped"}])
def test_only_files_that_came_tell_of_others(other: dict[str, str]) -> None:
    sent("example.org", 2 * LARGE_BYTES, **other)
    assert lane_of("https://example.org/a") is UrlLane.FAST


@pytest.mark.parametrize("egress", ["one=127.0.0.1", "one=http://127.0.0.1:3128"])
def test_what_came_by_a_way_out_and_from_another_port_is_known_too(settings: Any, egress: str) -> None:
    settings.FETCH_EGRESS = [egress]
    sent("example.org:8443 via one", LARGE_BYTES)
    assert lane_of("https://example.org:8443/a") is UrlLane.LARGE


def test_a_list_of_very_many_hosts_looks_at_some_of_them(django_assert_num_queries: Any) -> None:
    hosts = [f"{number}.example.org" for number in range(MAX_HOSTS_AT_ONCE + 1)]
    for host in hosts:
        sent(host, LARGE_BYTES)
    with django_assert_num_queries(MAX_HOSTS_AT_ONCE):
        found = mirror_hosts.choose_lanes([(f"https://{host}/a", host) for host in (*hosts, *hosts)])
    assert found == [*[UrlLane.LARGE] * MAX_HOSTS_AT_ONCE, UrlLane.FAST] * 2
    with django_assert_num_queries(0):  # it is remembered
        assert lane_of(f"https://{hosts[0]}/b", hosts[0]) is UrlLane.LARGE


@pytest.mark.parametrize(
    ("media_type", "size", "lane"),
    [
        ("image/png", LARGE_BYTES - 1, UrlLane.FAST),
        ("image/png", LARGE_BYTES, UrlLane.LARGE),
        ("video/mp4", 1, UrlLane.LARGE),
    ],
)
def test_what_a_url_gave_tells_where_it_had_better_waited(media_type: str, size: int, lane: UrlLane) -> None:
    assert mirror_hosts.choose_content_lane(media_type, size) is lane
