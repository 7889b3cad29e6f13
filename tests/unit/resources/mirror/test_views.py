"""Thumbnails as they are asked for, and as a worker prepares them."""

import io
import json
import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.test import Client
from PIL import Image
from prometheus_client import REGISTRY

from resources import tasks
from resources.mirror import thumbnail_painter
from resources.mirror.file_headers import SAFE_HEADERS
from resources.mirror.media.sniff import recognise_content
from resources.mirror.media.thumbnails import Thumbnail
from resources.mirror.models import Blob
from resources.mirror.storage import blobs, uploads
from resources.mirror.storage.uploads import UploadRequest
from retry import contents, stores
from retry.contents import Prepared
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
        digest, kind = sha256(body).hexdigest(), recognise_content(body)
        given = {
            **{"size": len(body), "media_type": kind.media_type, "width": kind.width, "height": kind.height},
            **{"stored_at": NOW, "accessed_at": NOW, "uploaded_at": NOW, **fields},
        }
        return Blob.objects.create(digest=digest, name=blobs.keep_blob(body, digest), **given)

    return kept


@pytest.fixture(autouse=True, scope="module")
def _one_painter() -> Iterator[None]:
    yield
    thumbnail_painter.PAINTER.close()


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
    assert {name: served[name] for name in SAFE_HEADERS} == SAFE_HEADERS
    assert "s-maxage=2" in served["Cache-Control"]
    again = client.get(address, headers={"If-None-Match": served["ETag"]})
    assert (again.status_code, again["Content-Security-Policy"]) == (304, SAFE_HEADERS["Content-Security-Policy"])
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
    assert (gone.status_code, gone["Cache-Control"]) == (410, "public, max-age=1")
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
        thumbnail_painter.paint_thumbnail(Thumbnail(digest, 20, 20, "png"))
    return raised.value


def test_a_broken_image_is_a_failure_that_lasts(keep: Keep) -> None:
    found = failure(keep(files.CUT_SHORT["cut short.png"]).digest)

    assert (found.status, found.retry_seconds) == (502, 3600)
    assert found.detail == "The image is broken, or too much for its decoder."


def test_an_image_that_takes_too_long_is_a_failure_too(keep: Keep, settings: Any) -> None:
    thumbnail_painter.PAINTER.close()
    settings.THUMBNAIL_SECONDS = 0.001  # less than it takes to start a process
    before = lost("too long")

    assert failure(keep(files.PICTURES["a.png"]).digest).status == 504
    assert lost("too long") - before == 1


class Deadly(io.BytesIO):
    """An image that kills its painter."""

    def read(self, size: int | None = -1) -> bytes:
        assert thumbnail_painter.PAINTER.pid
        os.kill(thumbnail_painter.PAINTER.pid, signal.SIGKILL)
        return super().read(size)


def test_a_painters_child_that_dies_of_an_image_is_counted(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    body = files.PICTURES["a.png"]
    blob, before = keep(body), lost("died")
    monkeypatch.setattr(blobs, "open_blob", lambda _: Deadly(body))

    assert failure(blob.digest).status == 502
    assert lost("died") - before == 1


def lost(reason: str) -> float:
    return REGISTRY.get_sample_value("tarry_children_lost_total", {"kind": "thumbnail", "reason": reason}) or 0


@pytest.fixture
def held_elsewhere(keep: Keep, settings: Any, tmp_path: Path) -> Blob:
    """A picture that another machine has, and has not uploaded."""
    settings.STORAGES = {**settings.STORAGES, "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"}}
    blob = keep(files.PICTURES["a.png"], holder="there", uploaded_at=None)
    blobs.local_path(blob.digest).unlink()
    return blob


def upload(blob: Blob, work_key: str, token: int) -> None:
    """Uploads the file, as its machine does."""
    default_storage.save(blob.name, ContentFile(files.PICTURES["a.png"]))
    Blob.objects.filter(pk=blob.pk).update(uploaded_at=NOW)
    uploads.finish_upload_request(UploadRequest(blob.digest, token, NOW.timestamp()), is_there=True)


def test_a_file_of_another_machine_is_uploaded_while_the_client_waits_and_painted_then(
    client: Client, held_elsewhere: Blob, published: list[Any]
) -> None:
    address = f"/resources/{held_elsewhere.digest}/20x20.png"
    assert client.get(address).status_code == 302
    [(task, work_key, token, arguments, lane)] = published
    assert (task, arguments, lane) == ("resources.upload", (held_elsewhere.digest, "there"), "upload")

    upload(held_elsewhere, work_key, token)
    assert client.get(address).status_code == 302
    (task, work_key, token, arguments, _) = published[1]
    assert task == "resources.paint_thumbnail"
    tasks.paint_thumbnail(work_key, token, *arguments)
    assert client.get(address).status_code == 200


def test_what_was_painted_needs_no_file(client: Client, held_elsewhere: Blob, published: list[Any]) -> None:
    wanted = Thumbnail(held_elsewhere.digest, 20, 20, "png")
    painted = Prepared(b"picture", "image/png", 60, 0)
    stores.execute_call(contents.store_call(wanted.content_key, painted, 1, datetime.now(UTC), 0))
    assert client.get(f"/resources/{held_elsewhere.digest}/20x20.png").content == b"picture"
    assert not published


def test_a_painter_that_finds_the_file_on_another_machine_has_it_uploaded(
    held_elsewhere: Blob, published: list[Any]
) -> None:
    found = failure(held_elsewhere.digest)
    assert (found.status, found.retry_seconds) == (503, 2)
    assert [call[0] for call in published] == ["resources.upload"]


def test_bytes_that_are_nowhere_are_no_reason_to_ask_another_machine(keep: Keep, published: list[Any]) -> None:
    blob = keep(files.PICTURES["a.png"])
    blobs.local_path(blob.digest).unlink()
    assert failure(blob.digest).detail == "The file is missing from the storage."
    assert not published


def test_thumbnails_of_what_was_taken_down_go_from_the_cache(keep: Keep, redis_servers: RedisServers) -> None:
    down, other = keep(files.PICTURES["a.png"]), keep(files.PICTURES["a.jpeg"])
    keys = [Thumbnail(blob.digest, side, side, "png").content_key for blob in (down, other) for side in (20, 30)]
    for key in keys:
        painted = Prepared(b"picture", "image/png", 60, 0)
        stores.execute_call(contents.store_call(key, painted, 1, datetime.now(UTC), 0))

    tasks.forget_thumbnails(down.digest)
    assert [stores.run_steps(contents.read_content(key)) is None for key in keys] == [True, True, False, False]
