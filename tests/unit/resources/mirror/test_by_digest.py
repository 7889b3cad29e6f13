"""Mirrored files by digest as main answers for them, with nginx before it and without."""

import os
from pathlib import Path
from typing import Any, cast

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import OperationalError

from resources.mirror import links
from resources.mirror.models import Blob
from resources.mirror.storage import blobs
from resources.mirror.storage.takedown import take_down_blob
from retry.headers import http_date
from tests.conftest import RedisServers

from .conftest import NOW, URL, Give, Keep, Reader

BODY = b"0123456789"
FRONT = {"X-Front": "asked"}
UNKNOWN = "ab" * 32

pytestmark = pytest.mark.django_db


def test_a_blob_is_served_for_good_by_its_digest(client: Reader, keep: Keep) -> None:
    blob = keep(BODY)
    response = client.get(f"/resources/{blob.digest}")
    assert (response.status_code, response.body) == (200, BODY)
    assert response["ETag"] == f'"{blob.digest}"'
    assert response["Cache-Control"].startswith("public, max-age=31536000, s-maxage=2, ")
    assert response["Cache-Control"].endswith(", immutable")
    assert response["Content-Type"] == "image/png"
    assert response["Content-Length"] == "10"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"].startswith("sandbox;")
    assert response["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("media_type", ["text/html", "image/svg+xml", "application/pdf", "application/octet-stream"])
def test_what_is_not_plainly_a_medium_is_a_download_of_its_own_type(
    client: Reader, keep: Keep, media_type: str
) -> None:
    response = client.get(f"/resources/{keep(BODY, media_type=media_type).digest}")
    assert response["Content-Type"] == media_type
    assert response["Content-Disposition"].startswith("attachment")
    assert response.body == BODY


@pytest.mark.parametrize("known", ['"{}"', 'W/"{}"', "*"])
def test_who_has_it_is_told_so(client: Reader, keep: Keep, known: str) -> None:
    blob = keep(BODY)
    response = client.get(f"/resources/{blob.digest}", headers={"If-None-Match": known.format(blob.digest)})
    assert (response.status_code, response.content) == (304, b"")
    assert response["ETag"] == f'"{blob.digest}"'
    assert "s-maxage=2" in response["Cache-Control"]


def test_without_nginx_parts_are_cut_here(client: Reader, keep: Keep) -> None:
    address = f"/resources/{keep(BODY).digest}"
    part = client.get(address, headers={"Range": "bytes=2-4"})
    assert (part.status_code, part.body, part["Content-Range"]) == (206, b"234", "bytes 2-4/10")
    beyond = client.get(address, headers={"Range": "bytes=10-"})
    assert (beyond.status_code, beyond["Content-Range"]) == (416, "bytes */10")


def test_nginx_gets_small_blobs_whole_and_cuts_parts_itself(client: Reader, keep: Keep) -> None:
    response = client.get(f"/resources/{keep(BODY).digest}", headers={**FRONT, "Range": "bytes=2-4"})
    assert (response.status_code, response.body) == (200, BODY)
    assert response["Accept-Ranges"] == "bytes"


def test_nginx_reads_large_blobs_by_itself(client: Reader, keep: Keep, settings: Any) -> None:
    settings.MIRROR_HOT_BYTES = 9
    blob = keep(BODY)
    response = client.get(f"/resources/{blob.digest}", headers=FRONT)
    digest = blob.digest
    assert response["X-Accel-Redirect"] == f"/delivered/here/{digest[:2]}/{digest[2:4]}/{digest}"
    assert response.content == b""
    assert not response.has_header("Cache-Control")
    assert response["X-Delivered-Cache-Control"].endswith("immutable")
    assert response["ETag"] == f'"{digest}"'


def is_linked(blob: Blob) -> bool:
    return Path(default_storage.path(f"served/{blob.digest[:2]}/{blob.digest}.png")).exists()


@pytest.mark.parametrize("known", ["", '"{}"'])
def test_nginx_is_offered_files_whatever_the_client_has(client: Reader, keep: Keep, known: str) -> None:
    blob = keep(BODY)
    client.get(f"/resources/{blob.digest}", headers={**FRONT, "If-None-Match": known.format(blob.digest)})
    assert is_linked(blob)


def test_only_nginx_is_offered_files_and_none_that_are_gone(client: Reader, keep: Keep, give: Give) -> None:
    blob, gone = keep(BODY), keep(b"gone", taken_down_at=NOW)
    give(blob)
    client.get(f"/resources/{blob.digest}")
    client.get(links.sign_url(URL), headers=FRONT)
    client.get(f"/resources/{gone.digest}", headers=FRONT)
    assert not is_linked(blob)
    assert not is_linked(gone)


def test_a_file_is_as_old_as_nginx_believes_and_what_is_held_as_old_as_its_row(
    client: Reader, keep: Keep, settings: Any
) -> None:
    blob = keep(BODY)
    os.utime(blobs.local_path(blob.digest), (0, 86_400.9))
    assert client.get(f"/resources/{blob.digest}")["Last-Modified"] == "Fri, 02 Jan 1970 00:00:00 GMT"
    settings.STORAGES = {**settings.STORAGES, "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"}}
    blob = keep(b"held")
    assert client.get(f"/resources/{blob.digest}")["Last-Modified"] == http_date(blob.stored_at)


@pytest.mark.parametrize("address", [UNKNOWN, UNKNOWN.upper(), "", "x", f"{UNKNOWN}x", f"{UNKNOWN}/", "a/b/c"])
def test_what_there_is_not_is_not_found(client: Reader, address: str) -> None:
    response = client.get(f"/resources/{address}")
    assert response.status_code in {404, 400}
    assert response["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_nothing_is_changed_here(client: Reader, keep: Keep, method: str) -> None:
    assert getattr(client, method)(f"/resources/{keep(BODY).digest}").status_code == 405


def test_what_was_taken_down_is_gone_and_displaces_what_caches_hold(client: Reader, keep: Keep, give: Give) -> None:
    blob = keep(BODY)
    give(blob)
    signed = links.sign_url(URL)
    assert client.get(signed).status_code == 200
    take_down_blob(blob.digest)
    for address in (f"/resources/{blob.digest}", signed):
        response = client.get(address)
        assert (response.status_code, response["Cache-Control"]) == (410, "public, max-age=1")


def test_bytes_that_are_not_where_their_row_says_are_no_error_of_the_clients(client: Reader, keep: Keep) -> None:
    blob = keep(BODY)
    blobs.remove_blob(blob)
    assert client.get(f"/resources/{blob.digest}").status_code == 503


def test_what_another_machine_holds_is_waited_for_and_asked_of_it(
    client: Reader, keep: Keep, bucket_of_any_kind: None, redis_servers: RedisServers
) -> None:
    blob = keep(BODY, holder="there")
    blobs.remove_local_blob(blob.digest)
    response = client.get(f"/resources/{blob.digest}")
    assert response.status_code == 302
    [member] = cast(list[bytes], redis_servers.state.client.zrange("mirror:upload:there", 0, -1))
    assert member.decode().startswith(f"{blob.digest} ")


def test_what_is_held_here_is_served_before_it_is_uploaded(
    client: Reader, keep: Keep, bucket_of_any_kind: None
) -> None:
    blob = keep(BODY)
    assert client.get(f"/resources/{blob.digest}").body == BODY


def test_without_a_bucket_that_signs_links_the_storage_is_streamed(
    client: Reader, keep: Keep, bucket_of_any_kind: None
) -> None:
    blob = keep(BODY, uploaded_at=NOW)
    blobs.remove_local_blob(blob.digest)
    assert client.get(f"/resources/{blob.digest}").status_code == 503
    default_storage.save(blob.name, ContentFile(BODY))
    assert client.get(f"/resources/{blob.digest}").body == BODY
    assert client.get(f"/resources/{blob.digest}", headers={"Range": "bytes=-3"}).body == b"789"


def test_the_database_that_is_away_is_told(client: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(Blob.objects, "filter", fail)
    assert client.get(f"/resources/{UNKNOWN}").status_code == 503
