"""In which lane URLs wait: by the ending of their names, else by what their hosts have sent of late."""

from datetime import timedelta
from typing import Any

import pytest

from resources.fetching.keeping.models import FetchTiming
from resources.mirroring.knowing import lanes
from resources.mirroring.knowing.lanes import LARGE_BYTES, LAST_FILES, MOST_HOSTS_AT_ONCE
from resources.mirroring.knowing.models import Lane
from tests.resources.mirroring.rows import NOW

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _knows_nothing() -> None:
    lanes.forget_all_here()


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


def lane_of(url: str, host: str = "example.org") -> Lane:
    return lanes.lanes_of([(url, host)])[0]


@pytest.mark.parametrize(
    ("name", "lane"),
    [("a.mp4", Lane.LARGE), ("a.ZIP?x", Lane.LARGE), ("a.jpg", Lane.FAST), ("mp4", Lane.FAST), ("x.mp4/a", Lane.FAST)],
)
def test_an_ending_tells_what_is_large(name: str, lane: Lane) -> None:
    assert lane_of(f"https://example.org/{name}") is lane


@pytest.mark.parametrize(
    ("sizes", "lane"),
    [
        ((), Lane.FAST),
        ((LARGE_BYTES, LARGE_BYTES), Lane.LARGE),
        ((LARGE_BYTES - 1,), Lane.FAST),
        ((1, 2 * LARGE_BYTES), Lane.LARGE),
        ((100 * LARGE_BYTES, *[1] * LAST_FILES), Lane.FAST),
    ],
    ids=["nothing is known", "large", "small", "on average", "of late"],
)
def test_a_name_without_an_ending_waits_as_the_last_files_of_its_host_were_large(
    sizes: tuple[int, ...], lane: Lane
) -> None:
    sent("example.org", *sizes)
    sent("other.example", 2 * LARGE_BYTES)
    assert lane_of("https://example.org/a") is lane
    assert lane_of("https://example.org/a.jpg") is Lane.FAST


@pytest.mark.parametrize("other", [{"kind": "feed"}, {"outcome": "transient"}, {"outcome": "dropped"}])
def test_only_files_that_came_tell_of_others(other: dict[str, str]) -> None:
    sent("example.org", 2 * LARGE_BYTES, **other)
    assert lane_of("https://example.org/a") is Lane.FAST


@pytest.mark.parametrize("egress", ["one=127.0.0.1", "one=http://127.0.0.1:3128"])
def test_what_came_by_a_way_out_and_from_another_port_is_known_too(settings: Any, egress: str) -> None:
    settings.FETCH_EGRESS = [egress]
    sent("example.org:8443 via one", LARGE_BYTES)
    assert lane_of("https://example.org:8443/a") is Lane.LARGE


def test_a_list_of_very_many_hosts_looks_at_some_of_them(django_assert_num_queries: Any) -> None:
    hosts = [f"{number}.example.org" for number in range(MOST_HOSTS_AT_ONCE + 1)]
    for host in hosts:
        sent(host, LARGE_BYTES)
    with django_assert_num_queries(MOST_HOSTS_AT_ONCE):
        found = lanes.lanes_of([(f"https://{host}/a", host) for host in (*hosts, *hosts)])
    assert found == [*[Lane.LARGE] * MOST_HOSTS_AT_ONCE, Lane.FAST] * 2
    with django_assert_num_queries(0):  # it is remembered
        assert lane_of(f"https://{hosts[0]}/b", hosts[0]) is Lane.LARGE


@pytest.mark.parametrize(
    ("media_type", "size", "lane"),
    [("image/png", LARGE_BYTES - 1, Lane.FAST), ("image/png", LARGE_BYTES, Lane.LARGE), ("video/mp4", 1, Lane.LARGE)],
)
def test_what_a_url_gave_tells_where_it_had_better_waited(media_type: str, size: int, lane: Lane) -> None:
    assert lanes.lane_of_contents(media_type, size) is lane
