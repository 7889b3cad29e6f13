import json
from typing import Any

import pytest
from django.test import Client

from resources.models import Layer

from .conftest import Caller, problem

EXPIRE = "/api/layers/jams/expire"


def expire(caller: Caller, part: Any) -> Any:
    return caller.post(EXPIRE, json.dumps(part), "application/json")


def test_layers_are_listed_for_everybody(layer: Layer, stranger: Caller) -> None:
    answer = stranger.get("/api/layers")
    assert answer.status_code == 200
    assert answer["Access-Control-Allow-Origin"] == "*"
    assert answer["Cache-Control"] == "no-store"
    assert answer.json() == {
        "layers": [
            {
                "slug": "jams",
                "title": "Jams",
                "kind": "lines",
                "min_zoom": 0,
                "max_zoom": 18,
                "bounds": [-0.3, 51.4, 0.2, 51.6],
                "version": layer.version,
                "segments": 3,
                "segments_with_speeds": 2,
                "measured_at": None,
                "tilejson": "http://testserver/tiles/jams.json",
            }
        ]
    }


def test_one_layer_is_described(layer: Layer, stranger: Caller) -> None:
    described = stranger.get("/api/layers/jams").json()
    assert described == stranger.get("/api/layers").json()["layers"][0]
    assert stranger.client.get(described["tilejson"]).status_code == 200


def test_head_is_answered_as_get(layer: Layer, stranger: Caller) -> None:
    answer = stranger.client.head("/api/layers/jams")
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("slug", ["nowhere", "JAMS", "%0a", "a" * 300, "jams%00"])
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
        ({"bbox": [1, 2, 3]}, "four numbers"),
        ({"bbox": [0, 0, 999, 1]}, "degrees"),
        ({"bbox": "0,0,1,1"}, "bbox"),
        ({"bbox": [0, 0, float("nan"), 1]}, "degrees"),
        ({"min_zoom": 9, "max_zoom": 3}, "smallest first"),
        ({"min_zoom": -1}, "0 to 22"),
        ({"max_zoom": 10**30}, "0 to 22"),
        ({"zoom": 3}, "zoom"),
        ({"min_zoom": False}, "min_zoom"),
        ({"max_zoom": "3"}, "max_zoom"),
        ({"bounds": [0, 0, 1, 1]}, "bounds"),
        ([], "dictionary"),
        ("jams", "dictionary"),
    ],
)
def test_what_is_no_part_expires_nothing(layer: Layer, caller: Caller, part: Any, said: str) -> None:
    assert said in problem(expire(caller, part), 422)
    assert Layer.objects.get().version == layer.version


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000, b"1" * 5000, b"bbox=1"])
def test_what_is_not_json_expires_nothing(layer: Layer, caller: Caller, body: bytes) -> None:
    assert "JSON" in problem(caller.post(EXPIRE, body, "application/json"), 400)
    assert Layer.objects.get().version == layer.version


def test_a_body_that_is_too_large_expires_nothing(layer: Layer, caller: Caller) -> None:
    problem(caller.post(EXPIRE, b" " * 3_000_000, "application/json"), 413)
    assert Layer.objects.get().version == layer.version


def test_the_description_names_every_operation_and_its_problems(layer: Layer, client: Client) -> None:
    found = client.get("/api/openapi.json").json()
    assert set(found["paths"]) == {
        "/api/layers",
        "/api/layers/{slug}",
        "/api/layers/{slug}/speeds",
        "/api/layers/{slug}/expire",
        "/api/resources",
        "/api/resources/{digest}",
        "/api/batches/{batch_id}",
        "/api/signed-urls",
        "/api/webhook-secret",
        "/api/feeds",
        "/api/feeds/{slug}",
        "/api/feeds/{slug}/entries",
        "/api/feeds/{slug}/fetch",
        "/api/feeds/{slug}/follow",
        "/api/feeds/{slug}/health",
    }
    post = found["paths"]["/api/layers/{slug}/speeds"]["post"]
    assert set(post["requestBody"]["content"]) == {"text/csv", "application/x-ndjson", "application/jsonl"}
    assert post["responses"]["422"]["content"].keys() == {"application/problem+json"}
    assert found["components"]["securitySchemes"] == {"Token": {"type": "http", "scheme": "bearer"}}
    assert found["paths"]["/api/feeds"]["get"]["security"] == [{}, {"Token": []}]


@pytest.mark.parametrize("path", ["/api", "/api/"])
def test_the_api_by_itself_leads_to_its_documentation(client: Client, path: str) -> None:
    assert client.get(path).headers["Location"] == "/api/docs"
