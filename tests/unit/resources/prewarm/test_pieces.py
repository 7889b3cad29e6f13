"""Pieces of pre-warming: order by benefit, rules, estimates and progress."""

import math
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from resources.prewarm import pieces, tile_pieces
from resources.prewarm.pieces import (
    COLD_STATE,
    CacheState,
    LayerCosts,
    Piece,
    PieceCandidate,
    PrewarmRule,
    WorkEstimate,
    ZoomCost,
    advise_zooms,
)
from resources.prewarm.progress import RunProgress
from resources.tiles.layers import LayerView
from resources.tiles.models import Layer
from resources.tiles.tile_address import Tile
from retry import popularity, stores
from retry.contents import Content
from retry.popularity import PeriodHits
from retry.work import Work

from ..conftest import Load

HALF_LIFE, HORIZON = 21_600.0, 3600.0
amounts = st.floats(0, 1e6)
seconds = st.floats(0.001, 120)
left = st.floats(0, 100_000)


def worth(requests: float, cache_state: CacheState = COLD_STATE, cost: float = 0.1) -> float:
    return pieces.expected_benefit(PieceCandidate(requests, cache_state, cost), HALF_LIFE, HORIZON)


def test_a_steady_rate_gives_the_weight_that_it_is_told_from() -> None:
    arriving = 3.0
    weight = arriving * HALF_LIFE / math.log(2)  # the integral of each request's weight, by its age
    assert pieces.request_rate(weight, HALF_LIFE) == pytest.approx(arriving)


def test_content_without_requests_or_fresh_until_the_horizon_is_worth_nothing() -> None:
    assert worth(0) == worth(-1) == worth(100, CacheState(HORIZON, HORIZON)) == 0
    assert worth(100, CacheState(HORIZON - 60, HORIZON - 60)) > 0


def test_cold_comes_before_stale_before_fresh() -> None:
    for requests in (1, 10, 100):
        stale, soon = CacheState(0, HORIZON), CacheState(HORIZON / 2, HORIZON)
        assert worth(requests) > worth(requests, stale) > worth(requests, soon) > 0


def test_seldom_and_cheap_comes_before_popular_and_dear_by_what_a_second_spares() -> None:
    found = pieces.rank_candidates(
        [
            ("popular and dear", PieceCandidate(40, COLD_STATE, 8.0)),
            ("seldom and cheap", PieceCandidate(10, COLD_STATE, 0.1)),
            ("never", PieceCandidate(0, COLD_STATE, 0.1)),
            ("popular and cheap", PieceCandidate(40, COLD_STATE, 0.1)),
            ("another of its kind", PieceCandidate(40, COLD_STATE, 0.1)),
        ],
        HALF_LIFE,
        HORIZON,
    )
    expected = ["popular and cheap", "another of its kind", "seldom and cheap", "popular and dear"]
    assert [key for key, _ in found] == expected


def test_content_requested_all_the_time_spares_the_first_request_and_those_that_wait_with_it() -> None:
    per_second, cost = 2.0, 5.0
    requests = per_second * HALF_LIFE / math.log(2)
    assert worth(requests, cost=cost) * cost == pytest.approx(1 + per_second * cost, rel=0.01)


@given(amounts, seconds, left, left)
def test_the_probability_is_one(requests: float, cost: float, fresh: float, kept: float) -> None:
    arriving = pieces.request_rate(requests, HALF_LIFE)
    assert 0 <= pieces.cold_probability(CacheState(fresh, kept), arriving, HORIZON, cost) <= 1


@given(st.floats(0.01, 1e5), seconds, left)
def test_it_falls_with_the_freshness_that_is_left(requests: float, cost: float, fresh: float) -> None:
    arriving = pieces.request_rate(requests, HALF_LIFE)
    kept = fresh + HORIZON
    sooner = pieces.cold_probability(CacheState(fresh / 2, kept), arriving, HORIZON, cost)
    assert sooner >= pieces.cold_probability(CacheState(fresh, kept), arriving, HORIZON, cost) - 1e-12


NOW = datetime(2026, 11, 22, tzinfo=UTC)
HOUR = timedelta(hours=1)


def content(fresh_seconds: float = 60, version: int = 5, age: timedelta = HOUR) -> Content:
    return Content(b"", "image/png", '"a"', NOW - age, 0.1, None, version, fresh_seconds)


@pytest.mark.parametrize(
    ("rule", "found", "lacks"),
    [
        (PrewarmRule(), None, True),
        (PrewarmRule(), content(), False),
        (PrewarmRule(), content(fresh_seconds=0), True),
        (PrewarmRule(), content(version=4), True),
        (PrewarmRule(only_expired=True), None, False),
        (PrewarmRule(only_expired=True), content(version=4), True),
        (PrewarmRule(older_than=2 * HOUR), content(), False),
        (PrewarmRule(older_than=HOUR / 2), content(), True),
        (PrewarmRule(older_than=HOUR / 2, done_since=NOW - 2 * HOUR), content(), False),
        (PrewarmRule(done_since=NOW - 2 * HOUR), content(fresh_seconds=-60), False),
        (PrewarmRule(done_since=NOW - 2 * HOUR), content(version=4), True),
        (PrewarmRule(done_since=NOW - HOUR / 2), content(fresh_seconds=-60), True),
        (PrewarmRule(done_since=NOW - HOUR), None, True),
    ],
)
def test_a_rule_tells_whether_content_lacks_preparation(rule: PrewarmRule, found: Content | None, lacks: bool) -> None:
    assert rule.lacks(found, 5, NOW) is lacks


def stale(given_seconds: float, age: timedelta = HOUR) -> Content:
    return replace(content(fresh_seconds=0, age=age), given_seconds=given_seconds)


@pytest.mark.parametrize(
    ("requests", "kept_seconds", "lacking", "is_worth_it"),
    [
        pytest.param(1.1, 86_400, [None], True, id="absent content of a small site serves the next day"),
        pytest.param(1.1, 60, [None], False, id="absent content is gone before it is requested again"),
        pytest.param(1.1, 86_400, [stale(600)], False, id="stale content of a small site is served as it is"),
        pytest.param(6, 86_400, [stale(600)], True, id="a request within the freshness of five pieces of work"),
        pytest.param(6, 86_400, [stale(60)], False, id="content stale after a minute has to be far more popular"),
        pytest.param(6, 86_400, [stale(600, timedelta(seconds=60))], False, id="newer data made it stale in a minute"),
        pytest.param(1.1, 86_400, [stale(600), None], True, id="a block of tiles of which one is absent"),
        pytest.param(100, 86_400, [], False, id="nothing is lacking"),
        pytest.param(0, math.inf, [stale(math.inf)], False, id="nothing is requested"),
    ],
)
def test_a_piece_is_worth_its_work_if_requests_are_expected_for_what_it_prepares(
    requests: float, kept_seconds: float, lacking: list[Content | None], is_worth_it: bool
) -> None:
    work = Work("a", "a", "paint.warm", "paint.warm", "a", ())
    piece = Piece(work, (), "staticmap", requests=requests, kept_seconds=kept_seconds)
    assert pieces.is_worth_its_work(piece, lacking, NOW, HALF_LIFE) is is_worth_it


def test_the_state_of_content_follows_its_version_and_freshness() -> None:
    assert pieces.state_of_content(None, 5) == COLD_STATE
    assert pieces.state_of_content(content(), 5).fresh_seconds == 60
    assert pieces.state_of_content(content(version=4), 5).fresh_seconds == 0
    assert pieces.state_of_content(content(version=4), 5).kept_seconds > 0


def test_a_piece_has_all_tiles_of_its_block_and_main_would_name_its_work_alike(load: Load) -> None:
    layer = LayerView.of(load(metatiles={"12": 8}))
    found = tile_pieces.make_tile_piece(layer, Tile("jams", 12, 2046, 1361))
    assert (found.work.lane, found.group, found.zoom) == ("paint.warm", "jams", 12)
    assert "tile:jams:12:2046:1361:png" in {each.content_key for each in found.wanted}
    assert {each.address for each in found.wanted} >= {"/tiles/jams/12/2046/1361.png"}
    assert len(found.wanted) > 1
    assert tile_pieces.make_tile_piece(layer, Tile("jams", 12, 2047, 1361)).work == found.work


@pytest.mark.django_db
def test_a_tile_of_another_server_is_a_piece_of_its_own_in_the_slowest_lane_of_fetching() -> None:
    row = Layer.objects.create(slug="osm", kind="upstream", upstream="https://tiles.example.org/{z}/{x}/{y}.png")
    found = tile_pieces.make_tile_piece(LayerView.of(row), Tile("osm", 3, 3, 2))
    assert (found.work.lane, found.work.refresh_lane) == ("fetch.warm", "fetch.warm")
    assert [each.address for each in found.wanted] == ["/tiles/osm/3/3/2.png"]


def zoom(number: int, seconds: float, share: float | None, requests: int = 0, hit: float | None = None) -> ZoomCost:
    rest = None if hit is None else 100 - hit
    return ZoomCost(number, WorkEstimate(4**number, 4**number, seconds, 1000.0), share, requests, hit, rest)


def test_zooms_that_have_most_of_the_demand_are_to_be_prepared_entirely() -> None:
    [first, rest] = advise_zooms("jams", [zoom(0, 1, 50), zoom(1, 2, 42), zoom(2, 3, 5), zoom(3, 90_000, 3)])
    assert first == (
        "Zoom 0–1 of this layer: 5 tiles, 2.0 KB, 3.0 s to refresh entirely, 92 % of requests. "
        "manage.py prewarm --layer jams --zoom 0-1 prepares them all."
    )
    assert rest.startswith("Zoom 2–3 of this layer: 80 tiles")
    assert rest.endswith("by --popular.")


def test_zooms_that_take_too_long_are_left_to_popular_tiles() -> None:
    [said] = advise_zooms("jams", [zoom(14, 4000, 100)])
    assert "--popular" in said


def test_a_zoom_where_many_wait_is_named() -> None:
    said = list(advise_zooms("jams", [zoom(0, 1, 100, requests=200, hit=60.0)]))
    assert said[-1] == "Zoom 0: the hot cache answered 60 % of 200 requests, 40 % had to wait."


def test_nothing_is_advised_from_nothing() -> None:
    [said] = advise_zooms("jams", [zoom(0, 1, None)])
    assert "No requests are known yet" in said


@pytest.mark.usefixtures("redis_servers")
def test_the_layers_page_in_the_admin_shows_its_costs_and_popular_places(admin_client: Client, load: Load) -> None:
    layer = load(max_zoom=12)
    period = popularity.period_number(time.time(), time.time())
    found = [
        PeriodHits("tile/parts", "jams/9", "hot", True, period, 1500),
        PeriodHits("tile/parts", "jams/9", "waiting", True, period, 500),
    ]
    weights = {"tile:jams:9:255:170:png": 90.0, "tile:jams:12:2046:1361:png": 30.0}
    assert stores.execute_call(popularity.count_call("here", b"", b"", found, weights)) == 1
    shown = admin_client.get(f"/admin/resources/layer/{layer.pk}/change/").content.decode()
    assert "75.0 %</td>" in shown
    assert "<td>2,000</td>" in shown
    assert "resources/fetch.css" in shown
    assert "25.0 %</td>" in shown
    assert "manage.py prewarm --layer jams --zoom 0-12 prepares them all" in shown
    assert shown.count("° north, ") == 1
    assert "wider views, up to zoom" in shown


COSTS = LayerCosts({4: 0.5, 10: 2.0}, {4: 1000.0})


def test_an_estimate_is_by_pieces_of_work_and_by_tiles() -> None:
    assert WorkEstimate.of(4, 256, 4, COSTS) == WorkEstimate(256, 4, 2.0, 256_000.0)


def test_a_zoom_of_which_nothing_is_known_is_like_the_nearest() -> None:
    assert COSTS.seconds_at(5) == 0.5
    assert COSTS.seconds_at(7) == 0.5
    assert COSTS.seconds_at(8) == 2.0
    assert LayerCosts({}, {}).seconds_at(3) == pieces.UNKNOWN_WORK_SECONDS
    assert pieces.nearest_value({}, 3) is None


def test_estimates_add_up_and_an_unknown_size_makes_the_whole_unknown() -> None:
    known = WorkEstimate(1, 2, 3.0, 4.0)
    assert pieces.sum_estimates([known, known]) == WorkEstimate(2, 4, 6.0, 8.0)
    assert pieces.sum_estimates([known, WorkEstimate(1, 1, 1.0, None)]).size_bytes is None


def test_it_is_told_in_words() -> None:
    said = pieces.describe_estimate(WorkEstimate(5461, 100, 76.0, 41_000_000.0), workers=2)
    assert said == "5,461 tiles in 100 pieces of work, about 38 s, about 41.0 MB"
    assert (
        pieces.describe_estimate(WorkEstimate(1, 1, 1.0, None))
        == "1 tile in 1 piece of work, about 1.0 s, size not known"
    )


def test_progress_tells_the_rate_and_what_is_left() -> None:
    progress = RunProgress(total=100, began=0.0)
    assert progress.seconds_left(0.0) is None
    for second in range(1, 21):
        progress.settle(16, float(second))
    assert progress.tiles_per_second(20.0) == pytest.approx(16, rel=0.1)
    assert progress.seconds_left(20.0) == pytest.approx(80, rel=0.1)
    assert progress.describe(20.0).startswith("20 of 100 pieces, 16.")


def test_the_rate_is_that_of_late() -> None:
    progress = RunProgress(total=None, began=0.0)
    for second in range(1, 1001):
        progress.settle(0 if second < 900 else 10, float(second))
    assert progress.tiles_per_second(1000.0) == pytest.approx(10, rel=0.1)
    assert len(progress._moments) < 70
    assert progress.seconds_left(1000.0) is None


def surroundings(z: int, x: int, y: int, side: int) -> dict[int, set[tuple[int, int]]]:
    """The first tiles of the blocks, by zoom."""
    found: dict[int, set[tuple[int, int]]] = {}
    for near in pieces.list_surroundings(z, x, y, side):
        found.setdefault(near.z, set()).add((near.x // side * side, near.y // side * side))
    return found


def test_a_block_has_eight_beside_it_one_further_out_and_four_further_in() -> None:
    found = surroundings(6, 8, 12, 4)
    assert found[6] == {(4, 8), (8, 8), (12, 8), (4, 12), (12, 12), (4, 16), (8, 16), (12, 16)}
    assert found[5] == {(4, 4)}
    assert found[7] == {(16, 24), (20, 24), (16, 28), (20, 28)}


def test_a_neighbour_is_worth_more_than_another_zoom() -> None:
    shares = Counter((near.z, near.share) for near in pieces.list_surroundings(6, 8, 12, 4))
    assert shares == {(6, pieces.NEIGHBOUR_SHARE): 8, (5, pieces.ZOOM_SHARE): 1, (7, pieces.ZOOM_SHARE): 4}


def test_the_map_goes_on_at_the_antimeridian_and_ends_at_the_poles() -> None:
    assert surroundings(3, 0, 0, 2)[3] == {(6, 0), (2, 0), (6, 2), (0, 2), (2, 2)}


def test_the_only_block_of_a_zoom_has_none_beside_it() -> None:
    assert list(surroundings(0, 0, 0, 1)) == [1]
    assert set(surroundings(2, 0, 0, 4)) == {1, 3}
