"""`manage.py prewarm` against real Redis servers; a thread stands for the painters."""

import itertools
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from threading import Event, Thread
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.management import CommandError, call_command

from resources import tasks
from resources.database import run_then_disconnect
from resources.prewarm import plan, runner, tile_pieces
from resources.prewarm.area import TileCoverage, area_of_bounds
from resources.prewarm.models import PrewarmRecord
from resources.prewarm.pieces import Piece
from resources.prewarm.runner import PieceClaims
from resources.tiles import layers, publication
from resources.tiles.layers import LayerView
from resources.tiles.models import Layer
from resources.tiles.tile_address import Tile
from resources.tiles.work import paint_work
from resources.traffic.prepared import find_prepared
from retry import claim_state, claims, contents, lanes, stores, worker
from retry.claim_state import ClaimBegun
from retry.errors import PreparationError
from retry.rooms import FrontClient
from retry.work import Work

from .conftest import Painters, painted_aside, popular

pytestmark = [pytest.mark.usefixtures("redis_servers"), pytest.mark.django_db(transaction=True)]


def prewarm(*arguments: object) -> str:
    out = StringIO()
    call_command("prewarm", *map(str, arguments), stdout=out, stderr=out)
    return out.getvalue()


def test_an_area_is_painted_once_in_the_slowest_lane_and_then_it_is_fresh(painters: Painters) -> None:
    assert "0 fresh already" in prewarm("--layer", "jams", "--zoom", "0-8", "--concurrency", 1)
    assert {lane for _, lane in painters.published} == {"paint.warm"}
    assert painters.zooms == sorted(painters.zooms)
    assert set(painters.zooms) == set(range(9))
    number = len(painters.published)
    assert f"0 pieces prepared (0 tiles), {number} fresh already" in prewarm("--layer", "jams", "--zoom", "0-8")
    assert len(painters.published) == number
    assert stores.run_steps(contents.read_content("tile:jams:8:127:85:png")) is not None


def test_the_most_popular_come_first_and_with_popular_alone(painters: Painters) -> None:
    popular(z12_2046_1361=40, z9_255_170=400, z0_0_0=1, z12_1_1=900)
    prewarm("--popular", 10, "--concurrency", 1)
    assert painters.zooms == [9, 12, 0]
    popular(z12_2046_1362=20, z11_1023_681=10)
    prewarm("--zoom", "10-12", "--popular", 2)
    assert painters.zooms[3:] == [12]


def test_a_layer_that_gets_other_blocks_meanwhile_is_painted_whole(painters: Painters) -> None:
    Layer.objects.update(metatiles={"12": 8})
    layer = snapshot()
    coverage = TileCoverage(area_of_bounds(layer.bounds), range(12, 13), layer.padding)
    found = tile_pieces.area_pieces("jams", coverage, [tile_pieces.TileVariant()])
    first = next(found)
    Layer.objects.update(metatiles={"12": 2})
    keys = {wanted.content_key for piece in [first, *found] for wanted in piece.wanted}
    assert keys == {f"tile:jams:12:{x}:{y}:png" for x, y in coverage.tiles(12)}
    Layer.objects.update(max_zoom=11)
    assert list(tile_pieces.area_pieces("jams", coverage, [tile_pieces.TileVariant()])) == []


def test_nothing_is_begun_for_a_layer_disabled_meanwhile(painters: Painters, monkeypatch: pytest.MonkeyPatch) -> None:
    find, findings, next_is_found = runner._next_pieces, itertools.count(1), Event()

    def found(pieces: Iterator[Piece]) -> list[Piece]:
        batch = find(pieces)
        if next(findings) == 2:
            next_is_found.set()
        return batch

    def publish(task: str, work_key: str, token: int, arguments: Any, lane: str) -> None:
        painters.published.append((work_key, lane))
        painted_aside(work_key, token, *arguments)
        assert next_is_found.wait(10)
        run_then_disconnect(lambda: Layer.objects.update(enabled=False))

    popular(z12_2046_1361=40, z9_255_170=400, z5_15_10=4, z4_7_5=4)
    monkeypatch.setattr(runner, "_next_pieces", found)
    monkeypatch.setattr(lanes, "publish_work", publish)
    monkeypatch.setattr(runner, "PIECES_PER_BATCH", 1)
    said = prewarm("--popular", 10, "--concurrency", 1)
    assert "1 pieces prepared (1 tiles), 0 fresh already, 0 by others, 1 of layers that are gone, 0 failed" in said
    assert len(painters.zooms) == 2, "what had its turn already is begun"


def test_what_is_stale_is_painted_and_what_is_not_there_is_left_alone_with_expired(painters: Painters) -> None:
    prewarm("--zoom", "0-3")
    number = len(painters.published)
    publication.store_speeds("jams", {"north": (1.0, 50.0), "south": (5.0, 50.0)})
    Layer.objects.get().save()
    prewarm("--expired")
    assert set(painters.zooms[number:]) == {0, 1, 2, 3}
    assert len(painters.published) == 2 * number


def test_the_admin_has_a_record_of_a_run(painters: Painters) -> None:
    prewarm("--zoom", "3")
    found = PrewarmRecord.objects.get()
    assert (found.started_by, found.prepared, found.prepared_kinds) == ("command", 2, {"tile": 2})
    assert found.seconds > 0
    assert find_prepared(["tile:jams:3:3:2:png", "tile:jams:4:7:5:png"]) == {"tile:jams:3:3:2:png"}


def test_older_than_paints_what_is_fresh_again(painters: Painters) -> None:
    prewarm("--zoom", "3")
    assert "2 fresh already" in prewarm("--zoom", "3", "--older-than", "3600")
    forget_what_was_done()
    assert "2 pieces prepared" in prewarm("--zoom", "3", "--older-than", "0.000001")


def test_a_killed_run_goes_on_with_the_rest_even_where_done_work_has_expired(
    painters: Painters, monkeypatch: pytest.MonkeyPatch
) -> None:
    Layer.objects.update(fresh_seconds=0)
    assert "There is no stopped run with these options" in prewarm("--zoom", "0-4", "--continue")
    number = len(painters.published)
    forget_what_was_done()
    with monkeypatch.context() as killed:
        killed.setattr(plan, "forget_run", lambda name: None)
        prewarm("--zoom", "0-4")
    done = len(painters.published)
    stores.fast_client("cache").delete(contents.content_name("tile:jams:3:3:2:png"))
    forget_what_was_done()
    assert f"1 pieces prepared (1 tiles), {number - 1} fresh already" in prewarm("--zoom", "0-4", "--continue")
    assert len(painters.published) == done + 1
    forget_what_was_done()
    assert "0 fresh already" in prewarm("--zoom", "0-4"), "without --continue all is expired"


def snapshot() -> LayerView:
    found = layers.layer_snapshot("jams")
    assert found
    return found


def claim(work: Work) -> int:
    """Claims the work as a client's request does. Returns its token."""
    claimed = claim_state.read_claim_state(stores.execute_call(claims.begin_call(work, refresh=False)))
    assert isinstance(claimed, ClaimBegun)
    return claimed.token


def forget_what_was_done() -> None:
    """The done marks, which are in force for ten seconds."""
    client = stores.fast_client("state")
    for name in client.scan_iter("retry:{0}:done:*"):
        client.delete(name)


def test_work_claimed_elsewhere_is_waited_for_not_repeated(painters: Painters, monkeypatch: pytest.MonkeyPatch) -> None:
    work = replace(paint_work(snapshot(), Tile("jams", 3, 3, 2)), lane="paint.warm")
    token = claim(work)
    waited_for, end = Event(), PieceClaims._end

    async def told_end(*given: Any) -> Any:
        waited_for.set()
        return await end(*given)

    def paint_then() -> None:
        waited_for.wait(10)
        painters.publish(work.task, work.key, token, work.arguments, work.lane)

    monkeypatch.setattr(PieceClaims, "_end", told_end)
    Thread(target=paint_then).start()
    assert "1 pieces prepared (1 tiles), 0 fresh already, 1 by others" in prewarm("--zoom", "3")
    assert [key for key, _ in painters.published].count(work.key) == 1
    assert len(painters.published) == 2


def test_a_killed_painter_is_replaced_and_waited_for(painters: Painters, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[str] = []

    def publish(task: str, work_key: str, token: int, arguments: Any, lane: str) -> None:
        if killed:
            painters.publish(task, work_key, token, arguments, lane)
            return
        killed.append(work_key)
        assert claims.read_started(stores.execute_call(claims.start_call(work_key, token, "killed"))).outcome
        stores.fast_client("state").zadd("retry:{0}:leases", {work_key: 1})  # it was not renewed
        assert worker.sweep_claims() == 1

    monkeypatch.setattr(lanes, "publish_work", publish)
    assert "2 pieces prepared (2 tiles)" in prewarm("--zoom", "3", "--concurrency", 1)
    assert painters.published[0] == (killed[0], "paint.warm")
    assert stores.run_steps(contents.read_content("tile:jams:3:3:2:png")) is not None
    assert stores.run_steps(contents.read_content("tile:jams:3:4:2:png")) is not None


def test_failures_are_told_and_the_command_fails(painters: Painters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "paint", Mock(side_effect=PreparationError("No paint.", status=502)))
    with pytest.raises(CommandError, match="2 pieces failed") as told:
        prewarm("--zoom", "3")
    assert told.value.returncode == 1


def test_a_dry_run_tells_how_much_it_is_from_what_was_recorded_and_does_nothing(painters: Painters) -> None:
    said = prewarm("--zoom", "0-8", "--dry-run")
    assert "jams, zoom 8:" in said
    assert "To be done: 19 of 19 pieces of work (19 tiles)" in said
    assert painters.published == []
    popular(z3_3_2=40)
    prewarm("--zoom", "3")
    said = prewarm("--zoom", "3", "--dry-run")
    assert "size not known" not in said
    assert "about 2.0 s" not in said, "a second each is for what nobody has done yet"
    assert "To be done: 0 of 2 pieces of work (0 tiles)" in said


def test_a_daemon_goes_on_after_failures_and_can_be_ended(painters: Painters, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[float] = []

    def sleep(seconds: float) -> None:
        rounds.append(seconds)
        if len(rounds) == 1:
            Layer.objects.update(enabled=False)
        if len(rounds) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    with pytest.raises(CommandError, match="Stopped") as told:
        prewarm("--layer", "jams", "--zoom", "3", "--every", 300)
    assert told.value.returncode == 130
    assert len(painters.published) == 2
    assert all(200 < seconds <= 300 for seconds in rounds)


def test_a_daemon_can_be_ended_between_two_runs(painters: Painters, monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(seconds: float) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(time, "sleep", sleep)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(CommandError, match="Stopped") as told:
            prewarm("--zoom", "3", "--every", 300)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert told.value.returncode == 130


def test_prune_removes_tiles_that_no_client_can_get(painters: Painters) -> None:
    prewarm("--zoom", "0-5")
    Layer.objects.update(min_zoom=3)
    assert "11 tiles in the cache, 5 removed" in prewarm("--prune")
    assert stores.run_steps(contents.read_content("tile:jams:2:1:1:png")) is None
    Layer.objects.all().delete()
    prewarm("--prune")
    assert list(stores.fast_client("cache").scan_iter("retry:content:tile:*")) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--layer", "none"], "There is no layer none"),
        (["--zoom", "x"], "not a zoom"),
        (["--zoom", "20"], "No layer that is meant has the zooms"),
        (["--geojson", "/nowhere.geojson"], "No such file"),
        (["--geojson", "/dev/zero"], "at most 20,000,000 bytes"),
        (["--popular", "0"], "popular: not a whole number from 1 to a million"),
        (["--rate", "-1"], "rate: not a number above 0"),
        (["--older-than", "nan"], "older-than: not seconds, more than 0"),
    ],
)
def test_bad_options_are_told_at_once(painters: Painters, arguments: list[str], told: str) -> None:
    with pytest.raises(CommandError, match=told):
        prewarm(*arguments)


def test_an_area_can_be_a_file(painters: Painters, tmp_path: Path) -> None:
    path = tmp_path / "area.geojson"
    path.write_text('{"type": "Polygon", "coordinates": [[[50, 0], [60, 0], [60, 9], [50, 0]]]}')
    assert "0 pieces prepared" in prewarm("--geojson", path)


def test_an_interrupt_ends_work_in_hand_and_can_be_resumed(painters: Painters, monkeypatch: pytest.MonkeyPatch) -> None:
    def publish_and_interrupt(*given: Any) -> None:
        if len(painters.published) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        painters.publish(*given)

    monkeypatch.setattr(lanes, "publish_work", publish_and_interrupt)
    with pytest.raises(CommandError, match="--continue") as told:
        prewarm("--zoom", "0-6", "--concurrency", 1)
    assert told.value.returncode == 130
    assert 6 <= len(painters.published) < 10
    stopped = len(painters.published)
    monkeypatch.setattr(lanes, "publish_work", painters.publish)
    assert f"{stopped} fresh already" in prewarm("--zoom", "0-6", "--continue")
    keys = [key for key, _ in painters.published]
    assert len(keys) == len(set(keys)), "nothing was painted twice"


def test_nothing_is_begun_while_a_client_waits(painters: Painters, monkeypatch: pytest.MonkeyPatch) -> None:
    work = paint_work(snapshot(), Tile("jams", 12, 2046, 1361))
    token = claim(work)
    began: list[bool] = []

    def publish(*given: Any) -> None:
        began.append(bool(stores.fast_client("state").zcard("retry:{0}:queued:paint.now")))
        painters.publish(*given)

    asked = PieceClaims.must_yield

    async def must_yield(*given: Any) -> bool:
        found = await asked(*given)
        if found:
            painters.paint(work, token)
        return found

    monkeypatch.setattr(lanes, "publish_work", publish)
    monkeypatch.setattr(PieceClaims, "must_yield", must_yield)
    assert "2 pieces prepared" in prewarm("--zoom", "3")
    assert began == [False, False]


def test_prepared_tiles_fill_the_hot_cache(painters: Painters, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    async def fill(self: FrontClient, host: str, address: str) -> bool:
        asked.append((host, address))
        return True

    monkeypatch.setattr(FrontClient, "fill", fill)
    settings.PREWARM_FRONT, settings.PUBLIC_URL = "unix:/nowhere/front.sock", "https://maps.example"
    assert "2 tiles in the hot cache" in prewarm("--zoom", "3")
    assert sorted(asked) == [("maps.example", "/tiles/jams/3/3/2.png"), ("maps.example", "/tiles/jams/3/4/2.png")]
