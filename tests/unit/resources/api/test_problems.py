"""Problems of the API: unknown addresses, methods, failing stores and unexpected errors."""

from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from django.core.files.storage import default_storage
from django.db import OperationalError, connection
from django.test import Client

from resources.bucket import Bucket
from resources.tiles import layers, work
from resources.tiles.models import Layer
from resources.tokens.models import ApiToken

from .conftest import Caller, problem


@pytest.mark.parametrize(
    "path", ["/api/nothing", "/api/layers/", "/api/layers/a/b/c", "/api/docs/x", "/api/%0a", "/api//", "/api/é"]
)
@pytest.mark.parametrize("method", ["get", "post", "delete", "options"])
def test_unknown_addresses_are_told_where_the_known_ones_are(path: str, method: str) -> None:
    answer = getattr(Client(enforce_csrf_checks=True), method)(path)
    assert "/api/docs" in problem(answer, 404)


READ = ("/api/layers", "/api/layers/jams", "/api/docs", "/api/openapi.json", "/api/", "/api")
CHANGED = ("/api/layers/jams/speeds", "/api/layers/jams/expire", "/api/signed-urls")


@pytest.mark.parametrize(
    ("path", "allowed"), [*((path, "GET, HEAD") for path in READ), *((path, "POST") for path in CHANGED)]
)
def test_other_methods_are_told_which_are_answered(path: str, allowed: str) -> None:
    client = Client(enforce_csrf_checks=True)
    methods = ("put", "delete", "get") if allowed == "POST" else ("post", "put", "delete")
    for method in methods:
        answer = getattr(client, method)(path)
        assert "nswered here" in problem(answer, 405)
        assert answer["Allow"] == allowed


def test_the_database_being_away_is_a_503(layer: Layer, caller: Caller, stranger: Caller) -> None:
    layers.snapshot.forget()
    with connection.execute_wrapper(Mock(side_effect=OperationalError("the server closed the connection"))):
        answers = [
            caller.send("north,1,50"),
            caller.post("/api/layers/jams/expire", b"", ""),
            stranger.get("/api/layers"),
            stranger.get("/api/layers/jams"),
        ]
    for answer in answers:
        assert "database" in problem(answer, 503)
        assert answer["Retry-After"] == "1"


@pytest.mark.parametrize("method", ["_save", "_open"])
@pytest.mark.parametrize(
    "failure",
    [
        OSError(28, "No space left on device"),
        EndpointConnectionError(endpoint_url="http://s3.example"),
        ClientError({"Error": {"Code": "AccessDenied"}}, "PutObject"),
    ],
    ids=["disk", "unreachable", "denied"],
)
def test_the_storage_failing_is_a_503_and_nothing_changes(
    layer: Layer, caller: Caller, monkeypatch: pytest.MonkeyPatch, method: str, failure: Exception
) -> None:
    storage = type(default_storage._wrapped)  # type: ignore[attr-defined]
    monkeypatch.setattr(storage, "errors", Bucket.errors, raising=False)
    monkeypatch.setattr(storage, method, Mock(side_effect=failure))
    answer = caller.send("north,1,50")
    assert "storage" in problem(answer, 503)
    assert answer["Retry-After"] == "5"
    assert Layer.objects.get().version == layer.version


def test_an_unexpected_error_is_told_without_its_traceback(
    layer: Layer, caller: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(work, "expire_layer", Mock(side_effect=ZeroDivisionError("secret")))
    assert "secret" not in problem(caller.post("/api/layers/jams/expire", b"", ""), 500)
    assert "ZeroDivisionError" in caplog.text


def test_too_many_arguments_are_refused_and_no_error(stranger: Caller, caplog: pytest.LogCaptureFixture) -> None:
    answer = stranger.get(f"/api/feeds?{'q&' * 1500}")
    assert "at most 1,000 arguments" in problem(answer, 400)
    assert caplog.text == ""


def test_tokens_are_asked_for_before_anything_is_looked_up(layer: Layer, stranger: Caller) -> None:
    for slug in ("jams", "nowhere"):
        answer = stranger.send("x", slug=slug)
        problem(answer, 401)
        assert "Access-Control-Allow-Origin" not in answer, "pages of other sites may not read it"
    assert ApiToken.objects.count() == 0
