import io
from typing import Any

import pytest
from django.test import Client
from PIL import Image

from resources import tasks
from resources.models import Layer
from resources.tiles.keeping import storing
from tests.conftest import RedisServers
from tests.resources.conftest import AREAS, Load

ASKED = {"layers": "land,jams", "center": "51.5,0", "zoom": "10", "size": "300x200"}


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was handed to workers: name of the task, work key, token, arguments, lane."""
    calls: list[Any] = []
    monkeypatch.setattr("retry.lanes.publish", lambda *call: calls.append(call))
    return calls


@pytest.fixture
def both(load: Load) -> list[Layer]:
    return [load("land", "areas", AREAS), load("jams")]


def paint(call: tuple[Any, ...]) -> None:
    task, work_key, token, arguments, _lane = call
    assert task == tasks.paint_static_map.name
    tasks.paint_static_map(work_key, token, *arguments)


def test_a_cold_picture_is_deferred_painted_and_then_there(
    client: Client, both: list[Layer], published: list[Any], redis_servers: RedisServers
) -> None:
    deferred = client.get("/staticmap", ASKED)
    assert deferred.status_code == 302
    paint(published[0])
    served = client.get("/staticmap", ASKED)
    assert (served.status_code, served["Content-Type"]) == (200, "image/png")
    assert Image.open(io.BytesIO(served.content)).size == (300, 200)


def test_the_order_of_parameters_makes_no_other_picture(
    client: Client, both: list[Layer], published: list[Any], redis_servers: RedisServers
) -> None:
    client.get("/staticmap", ASKED)
    client.get("/staticmap", dict(reversed(ASKED.items())))
    assert len(published) == 1


def test_a_change_of_any_layer_makes_the_picture_stale_not_absent(
    client: Client, both: list[Layer], published: list[Any], redis_servers: RedisServers
) -> None:
    client.get("/staticmap", ASKED)
    paint(published[0])
    storing.store_speeds("jams", {"north": (5, 50)})
    answer = client.get("/staticmap", ASKED)
    assert answer.status_code == 200
    assert "detail=" in answer["Cache-Status"]
    assert len(published) == 2


def test_a_layer_that_went_away_meanwhile_is_404(
    client: Client, both: list[Layer], published: list[Any], redis_servers: RedisServers
) -> None:
    client.get("/staticmap", ASKED)
    storing.delete_layers([both[0]])
    paint(published[0])
    answer = client.get("/staticmap", ASKED)
    assert answer.status_code == 404


@pytest.mark.parametrize(
    ("changed", "status", "word"),
    [
        ({"size": "9999x1"}, 400, "size"),
        ({"center": "nan,nan"}, 400, "center"),
        ({"colour": "red"}, 400, "colour"),
        ({"layers": "land,unknown"}, 404, "unknown"),
        ({"zoom": "20"}, 404, "zoom 20"),
    ],
)
def test_what_cannot_be_is_told_at_once(
    client: Client, both: list[Layer], changed: dict[str, str], status: int, word: str
) -> None:
    answer = client.get("/staticmap", {**ASKED, **changed})
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert word in answer.json()["detail"]


def test_a_query_that_is_not_text_is_refused(client: Client, both: list[Layer]) -> None:
    assert client.get("/staticmap?layers=%FF&center=%00&zoom=10&size=1x1").status_code == 400


@pytest.mark.parametrize("query", ["zoom=1&" * 3000, "&".join(f"p{number}=1" for number in range(2000))])
def test_a_query_of_thousands_of_parameters_is_refused(client: Client, query: str) -> None:
    assert client.get(f"/staticmap?{query}").status_code == 400
