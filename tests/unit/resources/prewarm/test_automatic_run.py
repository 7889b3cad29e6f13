"""Automatic runs: what they begin, what they leave, and the count of what they prepared."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from django.test import Client
from redis.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError

from resources import old_rows, tasks
from resources.prewarm import automatic_run, run_records
from resources.prewarm.automatic_run import AutomaticRun, RunLimits
from resources.prewarm.models import PrewarmRecord
from resources.staticmap import StaticMap
from resources.tiles import layers, publication
from resources.tiles.models import Layer
from resources.tiles.tile_address import Tile
from resources.tiles.work import paint_work
from resources.traffic import prepared
from retry import claims, contents, popularity, stores
from retry.conf import StateShare
from retry.errors import StoreUnavailable
from tests.conftest import RedisServers

from ..conftest import Load, LoadUpstream
from .conftest import popular

pytestmark = [pytest.mark.usefixtures("redis_servers"), pytest.mark.django_db(transaction=True)]

BESIDE = {f"z5_{x}_{y}" for x in (14, 15, 16) for y in (9, 10, 11)} - {"z5_15_10"}


@pytest.fixture
def world(load: Load, published: list[Any]) -> list[Any]:
    """A layer of the whole world, whose tiles are painted singly; the works handed to workers."""
    load(max_zoom=6, fresh_seconds=600, bounds=[-180.0, -85.0, 180.0, 85.0])
    return published


def run(*, seconds: float = 60.0, most: int = 100) -> PrewarmRecord | None:
    return automatic_run.start_run(RunLimits(most, seconds, 300.0), datetime.now(UTC))


def begun(published: list[Any]) -> list[str]:
    """The places of the tiles, in the order of their beginning."""
    return [f"z{z}_{x}_{y}" for *_, (_, z, x, y, *_), _ in published]


def paint(published: list[Any]) -> None:
    for _, work_key, token, arguments, _ in published:
        tasks.paint_block(work_key, token, *arguments)
    published.clear()


def settle() -> PrewarmRecord:
    tasks.settle_prewarm()
    return PrewarmRecord.objects.get()


def test_what_was_requested_comes_first_then_what_lies_around_it(world: list[Any]) -> None:
    popular(z5_15_10=400, z2_0_0=4)
    run()
    places = begun(world)
    assert places[:2] == ["z5_15_10", "z2_0_0"], "a guess never goes before a request"
    assert set(places[2:10]) == BESIDE, "more is expected of those beside than of other zooms, and of a popular place"
    assert {"z4_7_5", "z6_30_20", "z6_31_21", "z1_0_0", "z3_1_1"} <= set(places[10:])
    assert {lane for *_, lane in world} == {"paint.warm"}


def test_the_budget_bounds_a_run_which_the_next_one_continues(world: list[Any]) -> None:
    popular(z5_15_10=400, z2_0_0=4)
    found = run(seconds=3)
    assert found
    assert (len(world), found.handed, found.considered - found.left) == (3, 3, 3), "unknown work takes a second"
    first = begun(world)
    paint(world)
    run(seconds=3)
    assert begun(world)
    assert not set(first) & set(begun(world))


def test_nothing_is_begun_while_a_client_or_a_refresh_waits(world: list[Any]) -> None:
    popular(z5_15_10=400)
    layer = layers.layer_snapshot("jams")
    assert layer
    stores.execute_call(claims.begin_call(paint_work(layer, Tile("jams", 6, 1, 1)), refresh=True))
    found = run()
    assert found
    assert (found.handed, found.busy) == (0, "paint")
    assert world == []


def test_a_site_without_requests_has_no_runs_to_show(world: list[Any]) -> None:
    assert run() is None
    assert not PrewarmRecord.objects.exists()


def ask_for_maps(weight: float, count: int) -> None:
    """Counts requests for so many static maps."""
    maps = [StaticMap(("jams",), 3, x, 0, 30, 20, "png") for x in range(count)]
    weights = dict.fromkeys((each.content_key for each in maps), weight)
    assert stores.execute_call(popularity.count_call("here", b"", b"", [], weights)) == 1


def test_a_flood_of_content_that_was_requested_once_is_not_prepared_again(world: list[Any]) -> None:
    ask_for_maps(1.0, count=20)
    popular(z2_0_0=1)
    assert run() is None
    assert world == []


def test_content_of_a_small_site_is_prepared_while_it_is_absent_and_served_as_it_is_once_stale(
    world: list[Any], redis_servers: RedisServers
) -> None:
    popular(z2_0_0=2)
    run(seconds=1)
    assert begun(world) == ["z2_0_0"]
    paint(world)
    make_stale("tile:jams:2:0:0:png")
    found = run()
    assert found
    assert "z2_0_0" not in begun(world)
    assert found.considered == found.rare + found.handed
    assert found.rare == 1


def test_stale_content_is_prepared_again_if_enough_requests_are_expected_while_it_is_fresh(world: list[Any]) -> None:
    popular(z2_0_0=20)
    run(seconds=1)
    paint(world)
    make_stale("tile:jams:2:0:0:png")
    run(seconds=1)
    assert begun(world)[0] == "z2_0_0"


def make_stale(content_key: str) -> None:
    """Lets ten minutes pass for content that was fresh for so long."""
    client = stores.fast_client("cache")
    name = contents.content_name(content_key)
    meta = json.loads(client.hget(name, "meta") or b"")
    client.hset(name, "meta", json.dumps({**meta, "stored": meta["stored"] - 601}))
    client.pexpire(name, meta["stale_ms"] - 1000)


def test_a_nearly_full_cache_gets_popular_content_alone(world: list[Any], redis_servers: RedisServers) -> None:
    popular(z5_15_10=400, z2_0_0=9)
    ask_for_maps(9.0, count=5)
    client = stores.patient_client("cache")
    client.config_set("maxmemory", client.info("memory")["used_memory"] + 1000)
    try:
        run()
    finally:
        client.config_set("maxmemory", 0)
    assert begun(world) == ["z5_15_10"]


ON_UPSTREAM = {**{f"z6_{number}_9": 20.0 for number in range(30)}, "z3_0_0": 9.0, "z4_0_0": 300.0}


def test_other_peoples_tile_servers_are_not_asked(upstream: LoadUpstream, published: list[Any]) -> None:
    upstream("jams")
    popular(**ON_UPSTREAM)
    assert run() is None
    assert published == []


def test_an_own_tile_server_is_asked_for_a_few_popular_tiles_alone(
    upstream: LoadUpstream, published: list[Any]
) -> None:
    upstream("jams", upstream_in_flight=8)
    popular(**ON_UPSTREAM)
    run()
    assert len(published) == automatic_run.MAX_FETCHED_PIECES
    assert {lane for *_, lane in published} == {"fetch.warm"}
    assert "/4/0/0" in str(published[0]), "the most popular first"
    assert "/3/0/0" not in str(published), "not popular enough"


def test_a_run_counts_what_was_prepared_and_how_long_that_took(world: list[Any]) -> None:
    popular(z5_15_10=400)
    run(seconds=2)
    assert (settle().prepared, settle().settled_at) == (0, None)
    paint(world[:1])
    found = settle()
    assert (found.prepared, found.failed, found.settled_at) == (1, 0, None)
    stores.fast_client("state").flushall()  # the second piece is lost
    found = settle()
    assert (found.handed, found.prepared, found.failed, found.prepared_kinds) == (2, 1, 1, {"tile": 1})
    assert found.seconds > 0
    assert found.settled_at


def test_pieces_that_stay_in_hand_are_given_up(world: list[Any]) -> None:
    popular(z5_15_10=400)
    run(seconds=1)
    later = datetime.now(UTC) + run_records.GIVE_UP_AFTER + timedelta(seconds=1)
    run_records.settle_runs(later)
    assert PrewarmRecord.objects.get(failed=1).settled_at == later


def test_fresh_content_is_left_alone(world: list[Any]) -> None:
    popular(z5_15_10=400)
    run(seconds=1)
    paint(world)
    found = run(most=3)
    assert found
    assert (found.considered, found.fresh, begun(world)) == (1, 1, [])


@pytest.fixture
def log(tmp_path: Any, settings: Any, world: list[Any]) -> Any:
    """The front's log, after a run that prepared one tile."""
    settings.TRAFFIC_LOG = tmp_path / "traffic.log"
    settings.NGINX_PID_FILE = tmp_path / "nginx.pid"
    popular(z5_15_10=400)
    run(seconds=1)
    paint(world)
    settle()
    return settings.TRAFFIC_LOG


def read_requests(log: Any, *lines: str) -> tuple[float, float]:
    """Counts lines of the log. Returns the requests of the last day and ever that found prepared tiles."""
    moment = datetime.now(UTC).timestamp()
    with log.open("a") as file:
        file.writelines(f"{moment:.3f} {line}\n" for line in lines)
    tasks.read_traffic()
    return prepared.load_found(["tile"], moment, 86_400.0)["tile"]


HOT, MAIN, WAITS = "200 HIT 9 0.0 GET", "200 MISS 9 0.0 GET", "302 - 9 0.0 GET"
TILE, OTHER = "/tiles/jams/5/15/10.png", "/tiles/jams/5/14/10.png"


def test_requests_are_counted_that_found_what_a_run_prepared(log: Any) -> None:
    lines = (f"{MAIN} {TILE}", f"{HOT} {TILE}", f"{WAITS} {TILE}", f"{HOT} {OTHER}")
    assert read_requests(log, *lines) == (2, 2)
    assert sum(one.number for one in popularity.load_totals() if one.kind == "tile") == 4, "none is counted twice"


def test_content_that_a_request_had_prepared_again_is_not_counted(log: Any, world: list[Any]) -> None:
    publication.store_speeds("jams", {"north": (5.0, 50.0)})
    layer = layers.layer_snapshot("jams")
    assert layer
    claimed = stores.execute_call(claims.begin_call(work := paint_work(layer, Tile("jams", 5, 15, 10)), refresh=True))
    assert isinstance(claimed, list)
    tasks.paint_block(work.key, int(claimed[1]), *work.arguments)  # type: ignore[arg-type]
    assert read_requests(log, f"{HOT} {TILE}") == (0, 0)
    assert not stores.fast_client("state").hlen("prewarm:prepared")


def test_requests_are_counted_while_it_is_not_known_what_they_found(
    log: Any, redis_servers: RedisServers, impatient: None
) -> None:
    redis_servers.cache.stop()
    try:
        assert read_requests(log, f"{HOT} {TILE}") == (0, 0)
    finally:
        redis_servers.cache.start()
    assert sum(one.number for one in popularity.load_totals() if one.kind == "tile") == 1


def test_a_process_that_dies_between_two_calls_leaves_no_note_out_of_order(
    redis_servers: RedisServers, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, send = stores.patient_client("state"), AbstractConnection.send_packed_command
    client.ping()  # connects
    sendings = iter([send])

    def send_once(connection: AbstractConnection, command: Any, check_health: bool = True) -> None:
        next(sendings, Mock(side_effect=RedisConnectionError))(connection, command, check_health)

    with monkeypatch.context() as patched:
        patched.setattr(AbstractConnection, "send_packed_command", send_once)
        with pytest.raises(StoreUnavailable):
            prepared.note_prepared([prepared.PreparedNote("tile:1", 1.0)])
    assert client.hlen("prewarm:prepared") == client.zcard("prewarm:prepared-at") == 1


def test_notes_of_prepared_content_are_bounded(redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "NOTED_CONTENTS", StateShare(1, record_bytes=1024**3 // 3))
    for number in range(10):
        prepared.note_prepared([prepared.PreparedNote(f"tile:{number}", float(number))])
    client = stores.fast_client("state")
    assert set(client.hkeys("prewarm:prepared")) == {b"tile:7", b"tile:8", b"tile:9"}
    assert client.zcard("prewarm:prepared-at") == 3


def test_an_outage_of_redis_fails_no_task(world: list[Any], redis_servers: RedisServers, impatient: None) -> None:
    PrewarmRecord.objects.create(began_at=datetime.now(UTC), budget_seconds=1, in_hand=[["a", ["b"], 0.0]])
    redis_servers.state.stop()
    try:
        tasks.prewarm()
        tasks.settle_prewarm()
    finally:
        redis_servers.state.start()
    assert PrewarmRecord.objects.get(settled_at=None)


def test_a_run_that_an_outage_ends_midway_is_recorded(world: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    popular(z5_15_10=400)
    monkeypatch.setattr(automatic_run, "surrounding_pieces", Mock(side_effect=StoreUnavailable("state: away")))
    with pytest.raises(StoreUnavailable):
        run()
    assert PrewarmRecord.objects.get().handed == 1
    paint(world)
    assert (settle().prepared, settle().failed) == (1, 0)


def kill_run(monkeypatch: pytest.MonkeyPatch, *, before_pieces: bool = False) -> None:
    """Runs as far as a worker that is killed after the popular pieces, or when it is about to begin them."""
    monkeypatch.setattr(automatic_run, "surrounding_pieces", Mock(side_effect=SystemExit))
    monkeypatch.setattr(AutomaticRun, "store", lambda _: None)
    if before_pieces:
        monkeypatch.setattr(AutomaticRun, "_begin", Mock(side_effect=SystemExit))
    with pytest.raises(SystemExit):
        run()


def test_the_pieces_of_a_killed_run_are_counted(world: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    popular(z5_15_10=400, z2_0_0=4)
    kill_run(monkeypatch)
    paint(world[:1])
    assert settle().handed == 0, "it may go on to begin its pieces"
    later = datetime.now(UTC) + run_records.ORPHANED_AFTER
    run_records.settle_runs(later)
    found = PrewarmRecord.objects.get()
    assert (found.handed, found.prepared, found.failed, found.left, found.settled_at) == (2, 1, 0, 0, None)
    assert prepared.find_prepared(["tile:jams:5:15:10:png"]), "the requests that it spares are counted"


def test_a_run_that_was_killed_before_its_first_piece_has_left_all_for_later(
    world: list[Any], monkeypatch: pytest.MonkeyPatch, admin_client: Client
) -> None:
    popular(z5_15_10=400, z2_0_0=4)
    kill_run(monkeypatch, before_pieces=True)
    run_records.settle_runs(datetime.now(UTC) + run_records.ORPHANED_AFTER)
    found = PrewarmRecord.objects.get()
    assert (found.considered, found.handed, found.left, found.failed) == (2, 0, 2, 0)
    assert found.settled_at
    page = admin_client.get("/admin/resources/prewarmrecord/").content.decode()
    assert '<td class="field-left">2</td>' in page


def test_a_run_that_was_taken_for_killed_changes_nothing_any_more(world: list[Any]) -> None:
    popular(z5_15_10=400)
    found = run(seconds=1)
    assert found
    PrewarmRecord.objects.update(prepared=1, settled_at=datetime.now(UTC))
    found.in_hand, found.settled_at = [], None
    run_records.write_start(found)
    assert PrewarmRecord.objects.get().settled_at


def test_runs_are_shown_for_a_month(db: None) -> None:
    now = datetime.now(UTC)
    for days in (1, 31):
        PrewarmRecord.objects.create(began_at=now - timedelta(days=days), settled_at=now, budget_seconds=1)
    list(old_rows.prune_rows(now))
    assert PrewarmRecord.objects.count() == 1


def test_the_admin_shows_runs_and_the_requests_that_they_spared(log: Any, admin_client: Client) -> None:
    read_requests(log, f"{HOT} {TILE}", f"{HOT} {TILE}", f"{HOT} {TILE}")
    page = admin_client.get("/admin/resources/prewarmrecord/").content.decode()
    assert '<th scope="row">tile</th><td>1</td><td>3</td><td>3</td>' in page
    assert "A run every 5 minutes with 1 minute of work at most, while no other work waits." in page
    assert '<td class="field-prepared">1</td>' in page
    assert admin_client.get("/admin/resources/prewarmrecord/add/").status_code == 403


def test_the_admin_says_when_there_are_no_runs(
    admin_client: Client, settings: Any, redis_servers: RedisServers
) -> None:
    settings.PREWARM_SECONDS = 0
    assert (
        "There are no runs (PREWARM_SECONDS=0)." in admin_client.get("/admin/resources/prewarmrecord/").content.decode()
    )


def test_a_layer_that_is_disabled_meanwhile_fails_no_task(world: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    popular(z5_15_10=400)
    known = automatic_run._list_layers()
    Layer.objects.update(enabled=False)
    monkeypatch.setattr(automatic_run, "_list_layers", lambda: known)
    tasks.prewarm()
    assert world == []
