"""The database is away: what is known goes on being shown, and what is not is refused for a second."""

import json
import runpy
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client

from resources.models import Layer
from resources.tiles import layers

from .conftest import Load

STATIC_MAP = "/staticmap?layers=jams&center=0,0&zoom=1&size=9x9"


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Takes the database away."""

    def failing(*_: object, **__: object) -> None:
        raise DatabaseError

    def begin() -> None:
        monkeypatch.setattr(Layer.objects, "filter", failing)

    return begin


@pytest.mark.parametrize(
    "address",
    ["/", "/layers/jams/", "/tiles/jams.json", "/tiles/jams/0/0/0.png", STATIC_MAP],
)
def test_a_database_that_was_never_there_is_told_as_a_problem(client: Client, away: Any, address: str) -> None:
    away()
    response = client.get(address)
    assert (response.status_code, response["Retry-After"]) == (503, "1")
    assert json.loads(response.content)["detail"] == "The database cannot be read now."


def test_the_map_shows_what_was_read_before_the_outage(client: Client, load: Load, away: Any) -> None:
    load()
    layers.read_first()
    away()
    response = client.get("/")
    assert response.status_code == 200
    assert "/tiles/jams/" in response.content.decode()


def test_the_first_snapshot_is_left_to_the_first_request_when_the_database_is_away(away: Any) -> None:
    away()
    layers.read_first()


def test_a_web_process_reads_the_layers_before_its_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bool] = []
    monkeypatch.setattr("django.core.wsgi.get_wsgi_application", lambda: None)
    monkeypatch.setattr(layers, "read_first", lambda: read.append(True))
    runpy.run_module("project.wsgi")
    assert read
