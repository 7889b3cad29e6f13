"""The API of layers: updates of speeds, expiry, lists and descriptions."""

import gzip
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.files.storage import default_storage
from django.test import Client
from pytest_django import Settings

from resources import problems
from resources.tiles import compile_process, conf, layer_files, publication, speed_updates
from resources.tiles.data import compiler, speeds
from resources.tiles.errors import SupersededError
from resources.tiles.models import Layer
from tests.support.bounded_disk import bound_disk
from tests.unit.resources.api.conftest import HEADER, Caller, problem
from tests.unit.resources.conftest import LINES, PLAIN, LoadUpstream

PATH = "/api/layers/jams/speeds"
COMMITTED = pytest.mark.django_db(transaction=True)
"""Files of before are deleted when the change is committed."""


def in_service() -> dict[str, tuple[float | None, float | None]]:
    layer = Layer.objects.get(slug="jams")
    found = speeds.read_speeds(layer_files.read_file(layer.speeds_name))
    rows = speeds.speeds_to_rows(found, publication.segment_ids(layer))
    return {row.segment_id: (row.speed_kmh, row.free_flow_kmh) for row in rows}


def stored() -> list[str]:
    return sorted(default_storage.listdir("layers/jams")[1])


@COMMITTED
def test_rows_replace_their_segments_speeds_and_all_others_stay(layer: Layer, caller: Caller) -> None:
    answer = caller.send("north,10,50", "nowhere,1,2")
    after = Layer.objects.get()
    assert answer.status_code == 200
    assert answer.json() == {
        **{"layer": "jams", "rows": 2, "changed": 1, "segments": 3, "segments_with_speeds": 2},
        **{"unknown": 1, "unknown_examples": ["nowhere"], "refused": 0, "refused_examples": []},
        **{"version": after.version, "measured_at": None},
        "detail": "2 rows, 1 of them for unknown segments (nowhere). Changed segments: 1.",
    }
    assert after.version > layer.version
    assert after.data_version == layer.data_version
    assert in_service() == {"north": (10, 50), "south": (5, 50)}
    assert len(stored()) == 2


def test_replace_takes_the_speeds_of_the_others_away(layer: Layer, caller: Caller) -> None:
    answer = caller.send("west,10,50", query="?replace=true").json()
    assert (answer["changed"], answer["segments_with_speeds"]) == (3, 1)
    assert in_service() == {"west": (10, 50)}


@COMMITTED
@pytest.mark.parametrize("query", ["", "?replace=true"])
def test_the_same_speeds_again_make_no_new_version(layer: Layer, caller: Caller, query: str) -> None:
    first = caller.send("north,10,50", "south,7,50", query=query).json()
    again = caller.send("north,10,50", "south,7,50", query=query).json()
    assert again["version"] == first["version"] == Layer.objects.get().version
    assert again["changed"] == 0
    assert "Nothing changed" in again["detail"]
    assert len(stored()) == 2


def test_speeds_measured_again_note_the_time_without_a_new_version(layer: Layer, caller: Caller) -> None:
    header = HEADER.strip() + ",measured_at\n"
    first = caller.post(PATH, header + "north,10,50,2024-06-03T10:00:00Z").json()
    later = caller.post(PATH, header + "north,10,50,2024-06-03T11:00:00+00:00").json()
    earlier = caller.post(PATH, header + "south,9,50,2024-06-03T09:00:00Z").json()
    assert later["version"] == first["version"]
    assert later["measured_at"] == "2024-06-03T11:00:00Z"
    assert earlier["measured_at"] == later["measured_at"]
    assert Layer.objects.get().measured_at == datetime(2024, 6, 3, 11, tzinfo=UTC)


def test_rows_from_the_future_are_refused_and_all_others_taken(layer: Layer, caller: Caller) -> None:
    header, now = HEADER.strip() + ",measured_at\n", datetime.now(UTC).replace(microsecond=0)
    late, soon = (now + timedelta(hours=1)).isoformat(), (now + timedelta(minutes=2)).isoformat()
    answer = caller.post(PATH, f"{header}north,10,50,{soon}\nsouth,9,50,{late}\n").json()
    assert (answer["changed"], answer["refused"], answer["refused_examples"]) == (1, 1, ["south"])
    assert "1 of them refused as measured in the future (south)" in answer["detail"]
    assert in_service() == {"north": (10, 50), "south": (5, 50)}
    assert datetime.fromisoformat(answer["measured_at"]) == datetime.fromisoformat(soon)
    assert "in the future" in problem(caller.post(PATH, f"{header}south,9,50,{late}\n"), 422)


def test_a_moment_in_the_future_gives_way_to_the_next_that_is_sent(layer: Layer, caller: Caller) -> None:
    Layer.objects.update(measured_at=datetime.now(UTC) + timedelta(days=999))
    answer = caller.post(PATH, HEADER.strip() + ",measured_at\nnorth,10,50,2024-06-03T10:00:00Z\n").json()
    assert answer["measured_at"] == "2024-06-03T10:00:00Z"


@pytest.mark.parametrize("kind", ["application/x-ndjson", "application/jsonl; charset=utf-8"])
def test_json_lines_and_compressed_bodies_are_taken_too(layer: Layer, caller: Caller, kind: str) -> None:
    line = '{"segment_id": "north", "speed_kmh": 10.5, "free_flow_kmh": 50}\n'
    assert caller.post(PATH, gzip.compress(line.encode()), kind, Content_Encoding="gzip").json()["changed"] == 1
    assert in_service()["north"] == (10.5, 50)


def test_many_rows_are_read_in_a_child_process(layer: Layer, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    in_child = Mock(side_effect=compile_process.run_in_child)
    monkeypatch.setattr(speed_updates, "SMALL_UPLOAD_BYTES", 10)
    monkeypatch.setattr(compile_process, "run_in_child", in_child)
    assert caller.send("north,10,50").json()["changed"] == 1
    assert "Line 2" in problem(caller.send("north,x,50"), 422)
    assert in_child.call_count == 2


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (f"{HEADER}north,1,50\nsouth,fast,50\n".encode(), "Line 3"),
        (f"{HEADER}nowhere,1,50\n".encode(), "None of the 1 segment_ids"),
    ],
)
def test_a_bad_row_refuses_all_and_nothing_is_left(layer: Layer, caller: Caller, body: bytes, said: str) -> None:
    before = stored()
    detail = problem(caller.post(PATH, body), 422)
    assert said in detail
    assert "Nothing was changed" in detail
    assert Layer.objects.get().version == layer.version
    assert stored() == before


@pytest.mark.parametrize("kind", ["", "application/json", "multipart/form-data; boundary=x", "text/csv; charset=utf-7"])
def test_another_form_is_told_which_are_read(layer: Layer, caller: Caller, kind: str) -> None:
    problem(caller.post(PATH, b"x", kind), 415)


def test_another_compression_is_told_which_is_read(layer: Layer, caller: Caller) -> None:
    answer = caller.post(PATH, b"x", Content_Encoding="br")
    assert "gzip" in problem(answer, 415)
    assert answer["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize(
    "body",
    [b"no gzip", gzip.compress(HEADER.encode() * 99)[:-9], gzip.compress(b"a") + b"rest"],
    ids=["none of it", "cut short", "with a rest"],
)
def test_a_body_that_is_no_gzip_is_told(layer: Layer, caller: Caller, body: bytes) -> None:
    assert "gzip" in problem(caller.post(PATH, body, Content_Encoding="gzip"), 400)


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_a_body_that_is_too_large_is_refused_however_well_it_is_packed(
    layer: Layer, caller: Caller, settings: Any, encoding: str
) -> None:
    settings.LAYER_MAX_BYTES = 1_000_000
    body = b"0" * 1_000_001
    packed = gzip.compress(body) if encoding == "gzip" else body
    assert "1,000,000 bytes" in problem(caller.post(PATH, packed, Content_Encoding=encoding), 413)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (gzip.compress(b"") * 5000, "1,000 parts"),
        (gzip.compress(HEADER.encode()) + gzip.compress(b"") * 5000, "1,000 parts"),
        (b"\x1f\x8b\x08" + bytes(7) + b"\0\0\0\xff\xff" * 400_000, "1,000,000 bytes"),
    ],
    ids=["very many members", "very many behind one", "one that never says anything"],
)
def test_a_body_that_costs_more_than_it_says_is_refused(
    layer: Layer, caller: Caller, settings: Any, body: bytes, said: str
) -> None:
    settings.LAYER_MAX_BYTES = 1_000_000
    assert said in problem(caller.post(PATH, body, Content_Encoding="gzip"), 413)


def test_an_incompressible_body_may_be_as_large_as_any_other(layer: Layer, caller: Caller, settings: Any) -> None:
    settings.LAYER_MAX_BYTES = 1_000_000
    packed = gzip.compress(HEADER.encode() + random.Random(0).randbytes(1_000_000 - len(HEADER)))
    assert len(packed) > settings.LAYER_MAX_BYTES
    assert "UTF-8" in problem(caller.post(PATH, packed, Content_Encoding="gzip"), 422)


def test_layers_without_speeds_are_told(layer: Layer, caller: Caller) -> None:
    Layer.objects.update(kind="areas")
    assert "only lines have speeds" in problem(caller.send("north,1,50"), 409)
    assert "/api/layers" in problem(caller.send("north,1,50", slug="nowhere"), 404)


def test_a_layer_whose_first_speeds_come_by_the_api(layer: Layer, caller: Caller) -> None:
    Layer.objects.update(speeds_name="", speeds_known=0)
    assert caller.send("north,1,50").json()["segments_with_speeds"] == 1


@COMMITTED
def test_an_overtaken_update_is_done_again(layer: Layer, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    overtaking = [{"south": (1.0, 50.0)}, {"south": (2.0, 50.0), "west": (3.0, 50.0)}]
    write_speeds = layer_files.write_speeds_file

    def overtaken(slug: str, compiled: compiler.CompiledSpeeds) -> dict[str, Any]:
        written = write_speeds(slug, compiled)
        if overtaking:
            values = overtaking.pop(0)
            publication.store_speeds("jams", values)  # calls this once more, with nothing left to overtake or one
        return written

    monkeypatch.setattr(layer_files, "write_speeds_file", overtaken)
    assert caller.send("north,10,50").status_code == 200
    assert in_service()["north"] == (10, 50)
    assert in_service()["south"] in {(1, 50), (2, 50)}
    assert len(stored()) == 2


def test_an_update_always_overtaken_says_so(layer: Layer, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    overtaken = SupersededError("Other speeds arrived in the meantime.")
    monkeypatch.setattr(publication, "publish_layer", Mock(side_effect=overtaken))
    monkeypatch.setattr(speed_updates, "PATIENCE_SECONDS", 0.1)
    answer = caller.send("north,10,50")
    assert "Send these again" in problem(answer, 503)
    assert answer["Retry-After"] == "1"


def test_large_files_wait_while_others_are_read(layer: Layer, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed_updates, "SMALL_UPLOAD_BYTES", 0)
    monkeypatch.setattr(compile_process, "TURN_WAIT_SECONDS", 0)
    folder = conf.uploads_folder()
    with compile_process.take_upload_turn(folder, 2, 0), compile_process.take_upload_turn(folder, 2, 0):
        answer = caller.send("north,10,50")
    assert "in a moment" in problem(answer, 503)
    assert answer["Retry-After"] == "5"
    assert list(folder.glob("held-*")) == []


@COMMITTED
def test_speeds_for_a_replaced_geometry_are_matched_by_ids(
    layer: Layer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced = [LINES.replace(b"west", b"east")]
    put_over = speed_updates._apply_patch

    def late(*arguments: Any, **named: Any) -> Any:
        if replaced:
            publication.store_layer("jams", compiler.compile_layer("lines", replaced.pop()), {})
        return put_over(*arguments, **named)

    monkeypatch.setattr(speed_updates, "_apply_patch", late)
    answer = caller.send("east,10,50", "north,1,50").json()
    assert (answer["unknown"], answer["changed"]) == (0, 2)
    assert in_service()["east"] == (10, 50)


def test_a_lost_file_is_told_and_mended_by_all_speeds(layer: Layer, caller: Caller) -> None:
    default_storage.delete(layer.speeds_name)
    problem(caller.send("north,10,50"), 503)
    assert caller.send("north,10,50", query="?replace=true").status_code == 200
    assert in_service() == {"north": (10, 50)}


EXPIRE = "/api/layers/jams/expire"


def expire(caller: Caller, part: Any) -> Any:
    return caller.post(EXPIRE, json.dumps(part), "application/json")


def test_layers_are_listed_and_described_without_a_token(layer: Layer, stranger: Caller) -> None:
    answer = stranger.get("/api/layers")
    assert (answer.status_code, answer["Access-Control-Allow-Origin"], answer["Cache-Control"]) == (
        200,
        "*",
        "no-store",
    )
    described = stranger.get("/api/layers/jams").json()
    assert stranger.client.get(described["tilejson"]).status_code == 200
    head = stranger.client.head("/api/layers/jams")
    assert (head.status_code, head.content) == (200, b"")
    assert answer.json()["layers"] == [described]
    assert [described] == [
        {
            **{"slug": "jams", "title": "Jams", "kind": "lines", "min_zoom": 0, "max_zoom": 18},
            **{"bounds": [-0.3, 51.4, 0.2, 51.6], "version": layer.version, "measured_at": None},
            **{"segments": 3, "segments_with_speeds": 2, "upstream_in_flight": None},
            **{"tilejson": "http://testserver/tiles/jams.json"},
        }
    ]


@pytest.mark.parametrize("slug", ["nowhere", "jams%00"])
def test_layers_that_are_not_there_are_404(layer: Layer, caller: Caller, slug: str) -> None:
    problem(caller.get(f"/api/layers/{slug}"), 404)
    problem(caller.post(f"/api/layers/{slug}/expire", b"", ""), 404)


def test_a_layer_that_is_switched_off_is_listed_no_more_and_still_changed(layer: Layer, caller: Caller) -> None:
    Layer.objects.update(enabled=False)
    assert caller.get("/api/layers").json() == {"layers": []}
    problem(caller.get("/api/layers/jams"), 404)
    assert caller.send("north,1,50").status_code == 200


@pytest.mark.parametrize("kind", ["", "application/json", "application/x-www-form-urlencoded"])
def test_without_a_body_all_tiles_expire(layer: Layer, caller: Caller, kind: str) -> None:
    answer = caller.post(EXPIRE, b"", kind)
    after = Layer.objects.get()
    assert answer.json() == {"layer": "jams", "version": after.version}
    assert after.data_version == after.version > layer.version


def test_a_box_and_zooms_expire_as_a_part(layer: Layer, caller: Caller) -> None:
    answer = expire(caller, {"bbox": [177, -19, -178, -16], "min_zoom": 3, "max_zoom": 9})
    after = Layer.objects.get()
    assert answer.json()["version"] == after.version > after.data_version == layer.data_version
    assert after.expirations == [
        {"version": after.version, "bounds": [177.0, -19.0, -178.0, -16.0], "min_zoom": 3, "max_zoom": 9}
    ]


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"bbox": [0, 0, 999, 1]}, "degrees"),
        ({"bbox": "0,0,1,1"}, "bbox"),
        ({"min_zoom": 9, "max_zoom": 3}, "smallest first"),
        ({"zoom": 3}, "zoom"),
        ({"min_zoom": False}, "min_zoom"),
        ([], "dictionary"),
    ],
)
def test_a_bad_part_expires_nothing(layer: Layer, caller: Caller, part: Any, said: str) -> None:
    assert said in problem(expire(caller, part), 422)
    assert Layer.objects.get().version == layer.version


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000, b"1" * 5000, b"bbox=1"])
def test_a_body_that_is_no_json_or_too_large_expires_nothing(layer: Layer, caller: Caller, body: bytes) -> None:
    assert "JSON" in problem(caller.post(EXPIRE, body, "application/json"), 400)
    problem(caller.post(EXPIRE, b" " * 3_000_000, "application/json"), 413)
    assert Layer.objects.get().version == layer.version


def test_the_description_names_every_operation_and_its_problems(layer: Layer, client: Client) -> None:
    found = client.get("/api/openapi.json").json()
    assert set(found["paths"]) == {
        *("/api/layers", "/api/layers/{slug}", "/api/layers/{slug}/speeds", "/api/layers/{slug}/expire"),
        *("/api/resources", "/api/resources/{digest}", "/api/batches/{batch_id}", "/api/signed-urls"),
        *("/api/webhook-secret", "/api/feeds", "/api/feeds/{slug}", "/api/feeds/{slug}/entries"),
        *("/api/feeds/{slug}/fetch", "/api/feeds/{slug}/follow", "/api/feeds/{slug}/health"),
        *("/api/entries", "/api/entries/stream", "/api/search"),
    }
    post = found["paths"]["/api/layers/{slug}/speeds"]["post"]
    assert set(post["requestBody"]["content"]) == {"text/csv", "application/x-ndjson", "application/jsonl"}
    assert post["responses"]["422"]["content"].keys() == {"application/problem+json"}
    assert found["components"]["securitySchemes"] == {"Token": {"type": "http", "scheme": "bearer"}}
    assert found["paths"]["/api/feeds"]["get"]["security"] == [{}, {"Token": []}]


@pytest.mark.parametrize("path", ["/api", "/api/"])
def test_the_api_by_itself_leads_to_its_documentation(client: Client, path: str) -> None:
    assert client.get(path).headers["Location"] == "/api/docs"


def test_a_layer_of_another_servers_tiles_is_listed_without_its_address(client: Client, upstream: LoadUpstream) -> None:
    upstream(template=PLAIN)
    text = client.get("/api/layers").content.decode()
    [layer] = json.loads(text)["layers"]
    assert (layer["kind"], layer["upstream_in_flight"]) == ("upstream", None)
    assert "secret" not in text


def test_speeds_without_room_on_the_disk_are_refused_and_change_nothing(
    layer: Layer, caller: Caller, settings: Settings, tmp_path: Path
) -> None:
    before = stored()
    bound_disk(settings, tmp_path, 0)
    answer = caller.send("north,10,50")
    assert problem(answer, 503) == problems.NO_ROOM
    assert answer["Retry-After"] == str(problems.NO_ROOM_SECONDS)
    assert stored() == before
    bound_disk(settings, tmp_path, 1_000_000)
    assert caller.send("north,10,50").status_code == 200
