"""Thumbnails as they are asked for, and as a worker prepares them."""

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Protocol

import pytest
from django.test import Client
from PIL import Image

from resources import tasks
from resources.mirroring.contents.delivery import SAFE
from resources.mirroring.contents.thumbnail import Thumbnail
from resources.mirroring.contents.types import recognise
from resources.mirroring.knowing.models import Blob
from resources.mirroring.serving import preparing
from resources.mirroring.storing import blobs
from retry.errors import PreparationError
from tests.conftest import RedisServers
from tests.hostile import files

NOW = datetime(2026, 1, 1, tzinfo=UTC)
UNKNOWN = "0" * 64


class Keep(Protocol):
    def __call__(self, body: bytes, **fields: Any) -> Blob: ...


@pytest.fixture
def keep(db: None) -> Keep:
    """Keeps bytes and their row."""

    def kept(body: bytes, **fields: Any) -> Blob:
        digest, kind = sha256(body).hexdigest(), recognise(body)
        given = {
            **{"size": len(body), "media_type": kind.media_type, "width": kind.width, "height": kind.height},
            **{"stored_at": NOW, "accessed_at": NOW, "uploaded_at": NOW, **fields},
        }
        return Blob.objects.create(digest=digest, name=blobs.keep(body, digest), **given)

    return kept


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch, redis_servers: RedisServers) -> list[Any]:
    """What is handed over: task, work key, token, arguments, lane."""
    calls: list[Any] = []
    monkeypatch.setattr("retry.lanes.publish", lambda *call: calls.append(call))
    return calls


@pytest.fixture(autouse=True, scope="module")
def _one_painter() -> Iterator[None]:
    yield
    preparing.PAINTER.close()


def detail(response: Any) -> str:
    return str(json.loads(response.content)["detail"])


def test_a_thumbnail_is_deferred_painted_and_served(client: Client, keep: Keep, published: list[Any]) -> None:
    blob = keep(files.PICTURES["a.jpeg"])
    address = f"/resources/{blob.digest}/20x20.webp"
    assert client.get(address).status_code == 302
    [(task, work_key, token, arguments, lane)] = published
    assert (task, lane) == ("resources.paint_thumbnail", "paint.now")

    tasks.paint_thumbnail(work_key, token, *arguments)
    served = client.get(address)

    assert (served.status_code, served["Content-Type"]) == (200, "image/webp")
    assert Image.open(io.BytesIO(served.content)).size == (20, 15)
    assert {name: served[name] for name in SAFE} == SAFE
    assert "s-maxage=2" in served["Cache-Control"]
    again = client.get(address, headers={"If-None-Match": served["ETag"]})
    assert (again.status_code, again["Content-Security-Policy"]) == (304, SAFE["Content-Security-Policy"])
    assert len(published) == 1


def test_what_was_taken_down_has_no_thumbnails_any_more(client: Client, keep: Keep, published: list[Any]) -> None:
    blob = keep(files.PICTURES["a.jpeg"])
    address = f"/resources/{blob.digest}/20x20.webp"
    client.get(address)
    [(_, work_key, token, arguments, _)] = published
    tasks.paint_thumbnail(work_key, token, *arguments)
    assert client.get(address).status_code == 200

    Blob.objects.update(taken_down_at=NOW)

    gone = client.get(address)
    assert (gone.status_code, gone["Cache-Control"]) == (404, "public, max-age=1")
    assert failure(blob.digest).status == 404


@pytest.mark.parametrize("address", [f"/resources/{UNKNOWN}/20x20.webp", f"/resources/{UNKNOWN}/20x20.webp?fit=crop"])
def test_there_are_none_of_unknown_files(client: Client, db: None, published: list[Any], address: str) -> None:
    assert client.get(address).status_code == 404
    assert not published


@pytest.mark.parametrize(
    "name",
    ["20x20.gif", "20x20", "20x", "0x20.png", "9999x20.png", "20x20.png?fit=fill", "20x20.png?x=1", "a/b.png", ""],
)
def test_what_names_no_thumbnail_is_refused_at_once(client: Client, db: None, published: list[Any], name: str) -> None:
    response = client.get(f"/resources/{UNKNOWN}/{name}")

    assert (response.status_code, response["Content-Type"]) == (400, "application/problem+json")
    assert detail(response)


def test_sizes_that_are_not_listed_are_refused(client: Client, db: None, published: list[Any], settings: Any) -> None:
    settings.THUMBNAIL_SIZES = ["64x64"]

    assert client.get(f"/resources/{UNKNOWN}/20x20.png").status_code == 400
    assert client.get(f"/resources/{UNKNOWN}/64x64.png").status_code == 404


@pytest.mark.parametrize(
    ("name", "status"),
    [
        *(("drawing.svg", 415), ("page.html", 415), ("document.pdf", 415), ("texts.png", 415)),
        *(("large header.png", 422), ("large canvas.webp", 422)),
    ],
)
def test_what_no_thumbnail_is_made_of_is_refused_before_any_work(
    client: Client, keep: Keep, published: list[Any], name: str, status: int
) -> None:
    blob = keep({**files.RUNNING, **files.BOMBS}[name])
    response = client.get(f"/resources/{blob.digest}/20x20.png")

    assert response.status_code == status
    assert detail(response)
    assert not published


def test_a_file_of_too_many_bytes_is_refused(client: Client, keep: Keep, published: list[Any], settings: Any) -> None:
    settings.THUMBNAIL_MAX_BYTES = 100
    blob = keep(files.PICTURES["a.jpeg"])

    assert client.get(f"/resources/{blob.digest}/20x20.png").status_code == 422


def test_only_get_and_head_are_answered(client: Client, keep: Keep, published: list[Any]) -> None:
    blob = keep(files.PICTURES["a.jpeg"])

    assert client.post(f"/resources/{blob.digest}/20x20.png").status_code == 405
    assert client.head(f"/resources/{blob.digest}/20x20.png").status_code == 302


def failure(digest: str) -> PreparationError:
    with pytest.raises(PreparationError) as raised:
        preparing.paint_thumbnail(Thumbnail(digest, 20, 20, "png"))
    return raised.value


def test_a_broken_image_is_a_failure_that_lasts(keep: Keep) -> None:
    found = failure(keep(files.CUT_SHORT["cut short.png"]).digest)

    assert (found.status, found.retry_seconds) == (502, 3600)
    assert found.detail == "The image is broken, or too much for its decoder."


def test_an_image_that_takes_too_long_is_a_failure_too(keep: Keep, settings: Any) -> None:
    preparing.PAINTER.close()
    settings.THUMBNAIL_SECONDS = 0.001  # less than it takes to start a process

    assert failure(keep(files.PICTURES["a.png"]).digest).status == 504


def test_a_file_of_another_machine_is_waited_for(keep: Keep) -> None:
    blob = keep(files.PICTURES["a.png"])
    blobs.path_of(blob.digest).unlink()

    found = failure(blob.digest)
    assert (found.status, found.retry_seconds) == (503, 5)
