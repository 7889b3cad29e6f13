"""Mirrored files by digest and by signed URL, and their thumbnails, with nginx before main and without."""

import io
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from PIL import Image
from prometheus_client import REGISTRY

from resources import locks, tasks
from resources.mirror import links, lookup, thumbnail_painter, views
from resources.mirror.ingest import wanted_urls
from resources.mirror.ingest.settlement import FetchTarget
from resources.mirror.ingest.wanted_urls import WantedUrl
from resources.mirror.lookup import UrlStatus
from resources.mirror.media.sniff import recognise_content
from resources.mirror.media.thumbnails import Thumbnail
from resources.mirror.models import Blob, MirroredHost, Resource, UrlState
from resources.mirror.public_files import SAFE_HEADERS
from resources.mirror.storage import blobs, uploads
from resources.mirror.storage.uploads import UploadRequest
from retry import claims, contents, stores
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.headers import http_date
from tests.conftest import RedisServers
from tests.hostile import files

from .conftest import NOW, URL, Give, Keep, Reader, raising

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
    assert response["Content-Disposition"] == f'inline; filename="{blob.digest[:16]}.png"'
    assert response["Content-Length"] == "10"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"].startswith("sandbox;")
    assert response["Access-Control-Allow-Origin"] == "*"


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
def test_only_nginx_is_offered_files_and_none_that_are_gone(client: Reader, keep: Keep, give: Give, known: str) -> None:
    blob, gone = keep(BODY), keep(b"gone", taken_down_at=NOW)
    give(blob)
    client.get(f"/resources/{blob.digest}")
    client.get(links.sign_url(URL), headers=FRONT)
    client.get(f"/resources/{gone.digest}", headers=FRONT)
    assert not is_linked(blob)
    assert not is_linked(gone)
    client.get(f"/resources/{blob.digest}", headers={**FRONT, "If-None-Match": known.format(blob.digest)})
    assert is_linked(blob)


def test_a_file_is_as_old_as_nginx_says_and_a_held_one_as_its_row(client: Reader, keep: Keep, settings: Any) -> None:
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


def test_bytes_that_are_not_where_their_row_says_are_no_error_of_the_clients(client: Reader, keep: Keep) -> None:
    blob = keep(BODY)
    blobs.remove_blob(blob)
    assert client.get(f"/resources/{blob.digest}").status_code == 503


def test_what_another_machine_holds_is_waited_for_and_asked_of_it(
    client: Reader, keep: Keep, bucket_of_any_kind: None, redis_servers: RedisServers
) -> None:
    blob = keep(BODY, holder="there")
    locks.hold_machine_name("there", "its id")
    blobs.remove_local_blob(blob.digest)
    assert client.get(f"/resources/{blob.digest}").status_code == 302
    [member] = cast(list[bytes], redis_servers.state.client.zrange("mirror:upload:there", 0, -1))
    assert member.decode().startswith(f"{blob.digest} ")


@pytest.mark.parametrize(("address", "is_sent_by_main"), [("10.0.0.2", True), ("", False)])
@pytest.mark.usefixtures("bucket_of_any_kind")
def test_a_front_on_another_machine_gets_large_held_files_from_main(
    client: Reader, keep: Keep, settings: Any, address: str, is_sent_by_main: bool
) -> None:
    settings.MIRROR_HOT_BYTES, settings.MAIN_LISTEN = 9, "10.0.0.1:8100"
    found = client.get(f"/resources/{keep(BODY).digest}", headers=FRONT, REMOTE_ADDR=address)
    assert found.status_code == 200
    assert ("X-Accel-Redirect" not in found, "X-Delivered-Large" in found) == (is_sent_by_main, is_sent_by_main)
    assert found.body == (BODY if is_sent_by_main else b"")


def test_a_storage_that_signs_no_links_is_streamed(client: Reader, keep: Keep, bucket_of_any_kind: None) -> None:
    blob = keep(BODY, uploaded_at=NOW)
    blobs.remove_local_blob(blob.digest)
    assert client.get(f"/resources/{blob.digest}").status_code == 503
    default_storage.save(blob.name, ContentFile(BODY))
    assert client.get(f"/resources/{blob.digest}").body == BODY
    assert client.get(f"/resources/{blob.digest}", headers={"Range": "bytes=-3"}).body == b"789"


def test_the_database_that_is_away_is_told(client: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Blob.objects, "filter", raising(OperationalError("away")))
    assert client.get(f"/resources/{UNKNOWN}").status_code == 503


def test_a_signed_url_is_answered_and_not_kept_beyond_the_hot_window(client: Reader, keep: Keep, give: Give) -> None:
    blob = keep(BODY)
    give(blob)
    response = client.get(links.sign_url(f"{URL}?utm_source=x"))
    assert (response.status_code, response.body) == (200, BODY)
    assert response["Cache-Control"].startswith("public, max-age=2, s-maxage=2, ")
    assert response["Content-Location"] == f"/resources/{blob.digest}"


@pytest.mark.parametrize("url", [URL, URL.ljust(2000, "x")], ids=["short", "the longest"])
def test_an_unknown_url_is_fetched_while_the_client_waits(client: Reader, published: list[Any], url: str) -> None:
    assert client.get(links.sign_url(url)).status_code == 302
    [(task, work_key, _, arguments, lane)] = published
    assert (task, lane, arguments[0]) == ("resources.mirror", "fetch.fast", url)
    assert work_key == f"fetch:mirror:{arguments[1]}"


def test_forged_and_malformed_addresses_are_refused_in_words(client: Reader) -> None:
    signature, encoded = links.sign_url(URL).split("/")[2:]
    statuses = {
        f"/resources/{signature[::-1]}/{encoded}": 403,
        f"/resources/{signature}/{encoded}A": 400,
        f"/resources/{signature}x/{encoded}": 400,
        f"/resources/{signature}/": 400,
    }
    for address, status in statuses.items():
        response = client.get(address)
        assert (response.status_code, json.loads(response.content)["status"]) == (status, status), address


@pytest.mark.parametrize(
    ("failure", "status", "told"),
    [
        ("permanent", 404, 404),
        ("permanent", 403, 502),
        ("expired", None, 404),
        ("refused", None, 502),
        ("too slow", None, 504),
        ("taken down", 200, 410),
        ("ours", None, 502),
        ("blocked", None, 502),
    ],
)
def test_what_failed_for_good_is_told(client: Reader, give: Give, failure: str, status: int | None, told: int) -> None:
    give(Blob(digest=""), state=UrlState.FAILED, failure=failure, status=status, detail="10.0.0.1 answered")
    response = client.get(links.sign_url(URL))
    assert response.status_code == told
    assert not response.has_header("Retry-After")
    assert (b"10.0.0.1" in response.content) == (failure in {"permanent", "expired", "too slow"})


def test_what_failed_is_tried_again_after_its_pause_once_for_all(
    client: Reader, give: Give, published: list[Any]
) -> None:
    failed = {"state": UrlState.FAILED, "failure": "transient", "status": 500, "detail": "500"}
    row = give(Blob(digest=""), due_at=datetime.now(UTC) + timedelta(hours=1), **failed)
    early = client.get(links.sign_url(URL))
    assert early.status_code == 502
    assert 3590 < int(early["Retry-After"]) <= 3600
    Resource.objects.update(due_at=datetime.now(UTC))
    lookup.forget_statuses([row.pk])
    assert [client.get(links.sign_url(URL)).status_code for _ in range(2)] == [302, 302]
    assert len(published) == 1
    asked = WantedUrl(row.pk, URL, "example", None, datetime.now(UTC))
    assert wanted_urls.want_due_urls([asked], datetime.now(UTC)) == 0


@pytest.mark.parametrize(("site", "host", "checked"), [(False, None, False), (True, None, True), (True, False, False)])
def test_what_may_have_changed_is_served_and_wanted_where_that_is_on(
    client: Reader, keep: Keep, give: Give, settings: Any, *, site: bool, host: bool | None, checked: bool
) -> None:
    settings.MIRROR_RECHECK = site
    MirroredHost.objects.create(host="example", recheck=host)
    fresh, stale = (
        give(keep(BODY[:size]), f"{URL}?{size}", due_at=datetime.now(UTC) + timedelta(hours=left))
        for size, left in ((1, 1), (2, -1))
    )
    responses = [client.get(links.sign_url(row.url)) for row in (fresh, stale)]
    assert [response.body for response in responses] == [BODY[:1], BODY[:2]]
    # Only the ETag tells content that was stored earlier, from another URL.
    assert {response.has_header("Last-Modified") for response in responses} == {not checked}
    assert all(response["Cache-Control"].startswith("public, max-age=2,") for response in responses)
    states = dict(Resource.objects.values_list("pk", "state"))
    assert states == {fresh.pk: "stored", stale.pk: "wanted" if checked else "stored"}


def signed_address(hours: int) -> str:
    return links.sign_url(
        f"{URL}?Key-Pair-Id=k&Signature=s&Expires={int(datetime.now(UTC).timestamp()) + 3600 * hours}"
    )


@pytest.mark.parametrize("status", [403, None])
def test_what_failed_with_an_old_signature_is_tried_with_a_new_one(
    client: Reader, give: Give, published: list[Any], status: int | None
) -> None:
    over, ago = f"{URL}?Key-Pair-Id=k&Signature=s&Expires=1700000000", datetime.now(UTC) - timedelta(hours=2)
    failed = {"state": UrlState.FAILED, "failure": "expired", "status": status, "fetched_at": ago}
    give(Blob(digest=""), over, expires_at=ago, due_at=ago + timedelta(days=1) if status else None, **failed)
    assert client.get(links.sign_url(over)).status_code == 404
    newer = signed_address(1)
    assert client.get(newer).status_code == 302
    [row] = Resource.objects.all()
    assert links.sign_url(row.url) == newer
    assert row.state == "wanted"


def test_what_is_refused_costs_no_writes_and_keeps_its_referer(client: Reader, give: Give) -> None:
    now, referer = datetime.now(UTC), "https://page.example/"
    failed = {"state": UrlState.FAILED, "failure": "permanent", "status": 403, "due_at": now + timedelta(days=1)}
    row = give(Blob(digest=""), referer=referer, rounds=1, **{**failed, "fetched_at": now - timedelta(minutes=40)})
    with CaptureQueriesContext(connection) as asked:
        codes = [client.get(links.sign_url(URL)).status_code for _ in range(2)] + [
            client.get(signed_address(1)).status_code
        ]
    assert codes == [502] * 3
    assert not [query for query in asked if not query["sql"].startswith("SELECT")]
    Resource.objects.update(fetched_at=now - timedelta(hours=2))
    assert client.get(links.sign_url(URL)).status_code == 502  # the same request
    assert client.get(signed_address(1)).status_code == 302
    row.refresh_from_db()
    assert (row.state, row.referer) == ("wanted", referer)


def test_what_waits_with_an_old_signature_is_fetched_with_the_newer_one(give: Give) -> None:
    over, fresh = (f"{URL}?Key-Pair-Id=k&Signature=s&Expires={moment}" for moment in (1700000000, 4000000000))
    row = give(Blob(digest=""), over, state=UrlState.WANTED)
    for asked in (over, URL, fresh):
        assert FetchTarget.read((asked, row.pk)).source.url == asked
    Resource.objects.update(url=fresh)
    assert [FetchTarget.read((asked, row.pk)).source.url for asked in (over, URL)] == [fresh, fresh]
    sooner = fresh.replace("4000000000", "3900000000")
    assert FetchTarget.read((sooner, row.pk)).source.url == fresh


def test_a_file_whose_signature_is_over_costs_no_writes(client: Reader, keep: Keep, give: Give, settings: Any) -> None:
    settings.MIRROR_RECHECK = True
    give(keep(BODY), due_at=NOW, expires_at=NOW)
    with CaptureQueriesContext(connection) as asked:
        assert [client.get(links.sign_url(URL)).body for _ in range(2)] == [BODY, BODY]
    assert not [query for query in asked if not query["sql"].startswith("SELECT")]


def test_a_file_that_is_fetched_again_goes_before_that_of_a_learnt_name(
    client: Reader, keep: Keep, give: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = give(keep(BODY), state=UrlState.WANTED)
    learnt = give(keep(BODY[:5]), f"{URL}?learnt")
    monkeypatch.setattr(views, "candidate_digests", lambda *_: (own.pk, learnt.pk))
    assert client.get(links.sign_url(URL)).body == BODY


def test_what_may_have_changed_is_served_while_the_database_takes_no_writes(
    client: Reader, keep: Keep, give: Give, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MIRROR_RECHECK = True
    give(keep(BODY))
    monkeypatch.setattr(wanted_urls, "want_due_urls", raising(OperationalError("read-only")))
    assert client.get(links.sign_url(URL)).body == BODY


def test_what_failed_for_now_is_told_until_its_pause_is_over(client: Reader, give: Give, published: list[Any]) -> None:
    give(Blob(digest=""), state=UrlState.WANTED, failure="transient", status=500, due_at=NOW)
    address = links.sign_url(URL)
    assert client.get(address).status_code == 302
    [(_, work_key, token, _, _)] = published
    started = claims.read_started(stores.execute_call(claims.start_call(work_key, token, "x")))
    error = PreparationError("The origin: 500.", status=504, retry_seconds=60)
    stores.execute_call(claims.finish_failed_call(work_key, started.token, error, luck=0.5))
    response = client.get(address)
    assert response.status_code == 504
    assert int(response["Retry-After"]) > 1


def test_a_url_whose_blob_has_gone_is_fetched_again(client: Reader, published: list[Any], give: Give) -> None:
    give(Blob(digest=UNKNOWN))
    assert client.get(links.sign_url(URL)).status_code == 302


def test_seen_is_what_says_how_a_url_stands(client: Reader, keep: Keep, give: Give) -> None:
    blob = keep(BODY)
    row = give(blob, state=UrlState.WANTED, blob_digest="")
    lookup.note_statuses({row.url_digest: UrlStatus(UrlState.STORED, blob.digest)})
    assert client.get(links.sign_url(URL)).status_code == 200


def test_what_is_stored_is_served_while_its_url_is_fetched_again(client: Reader, keep: Keep, give: Give) -> None:
    assert wanted_urls.refetch_urls([give(keep(BODY)).url_digest], NOW) == 1
    assert client.get(links.sign_url(URL)).body == BODY


@pytest.fixture
def keep_picture(keep: Keep) -> Keep:
    """Keeps a file as a fetch does: with the type and the size that its bytes have."""

    def kept(body: bytes, **fields: Any) -> Blob:
        return keep(body, **{**asdict(recognise_content(body)), "uploaded_at": NOW, **fields})

    return kept


@pytest.fixture(autouse=True, scope="module")
def _one_painter() -> Iterator[None]:
    yield
    thumbnail_painter.PAINTER.close()


def detail(response: Any) -> str:
    return str(json.loads(response.content)["detail"])


def test_a_thumbnail_is_served_until_it_is_taken_down(client: Reader, keep_picture: Keep, published: list[Any]) -> None:
    blob = keep_picture(files.PICTURES["a.jpeg"])
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

    Blob.objects.update(taken_down_at=NOW)
    gone = client.get(address)
    assert (gone.status_code, gone["Cache-Control"]) == (410, "public, max-age=1")
    assert failure(blob.digest).status == 404


def test_a_popular_thumbnail_is_prepared_from_its_key_until_it_is_taken_down(keep_picture: Keep, settings: Any) -> None:
    blob = keep_picture(files.PICTURES["a.jpeg"])
    key = Thumbnail(blob.digest, 20, 20, "webp", "crop").content_key
    piece = views.warm_thumbnail(key, 5.0)
    assert piece
    assert (piece.work.lane, piece.work.arguments) == ("paint.warm", (blob.digest, 20, 20, "webp", "crop"))
    assert piece.wanted[0].address == f"/resources/{blob.digest}/20x20.webp?fit=crop"
    settings.THUMBNAIL_SIZES = ["30x30"]
    assert views.warm_thumbnail(key, 5.0) is None
    settings.THUMBNAIL_SIZES = []
    assert views.warm_thumbnail(Thumbnail("0" * 64, 20, 20, "webp").content_key, 5.0) is None
    Blob.objects.update(taken_down_at=NOW)
    assert views.warm_thumbnail(key, 5.0) is None


@pytest.mark.parametrize("name", ["", "/20x20.png"], ids=["the file", "a thumbnail"])
def test_only_get_and_head_are_answered(client: Reader, keep_picture: Keep, published: list[Any], name: str) -> None:
    address = f"/resources/{keep_picture(files.PICTURES['a.jpeg']).digest}{name}"
    for method in ("post", "put", "delete", "patch"):
        assert getattr(client, method)(address).status_code == 405
    assert client.head(address).status_code == (302 if name else 200)


@pytest.mark.parametrize("name", ["20x20.gif", "20x20.png?fit=fill", "a/b.png", "", "64x65.png"])
def test_what_names_no_thumbnail_or_no_listed_size_is_refused_at_once(client: Reader, settings: Any, name: str) -> None:
    settings.THUMBNAIL_SIZES = ["20x20", "64x64"]
    response = client.get(f"/resources/{UNKNOWN}/{name}")
    assert (response.status_code, response["Content-Type"]) == (400, "application/problem+json")
    assert detail(response)
    assert client.get(f"/resources/{UNKNOWN}/64x64.png").status_code == 404


@pytest.mark.parametrize(
    ("name", "status"),
    [
        *(("drawing.svg", 415), ("page.html", 415), ("document.pdf", 415), ("texts.png", 415)),
        *(("large header.png", 422), ("large canvas.webp", 422), ("page in a JPEG.jpeg", 422)),
    ],
)
def test_what_no_thumbnail_is_made_of_is_refused_before_any_work(
    client: Reader, keep_picture: Keep, published: list[Any], settings: Any, *, name: str, status: int
) -> None:
    settings.THUMBNAIL_MAX_BYTES = len(files.RUNNING["page in a JPEG.jpeg"]) - 1
    blob = keep_picture({**files.RUNNING, **files.BOMBS}[name])
    response = client.get(f"/resources/{blob.digest}/20x20.png")

    assert response.status_code == status
    assert detail(response)
    assert not published


def failure(digest: str) -> PreparationError:
    with pytest.raises(PreparationError) as raised:
        thumbnail_painter.paint_thumbnail(Thumbnail(digest, 20, 20, "png"))
    return raised.value


def test_a_broken_image_is_a_failure_that_lasts(keep_picture: Keep) -> None:
    found = failure(keep_picture(files.CUT_SHORT["cut short.png"]).digest)

    assert (found.status, found.retry_seconds) == (502, 3600)
    assert found.detail == "The image is broken, or too much for its decoder."


def test_an_image_that_takes_too_long_fails_and_the_next_is_painted(keep_picture: Keep, settings: Any) -> None:
    thumbnail_painter.PAINTER.close()
    settings.THUMBNAIL_SECONDS = 0.001  # less than it takes to start a process
    before = lost("too long")

    blob = keep_picture(files.PICTURES["a.png"])
    assert failure(blob.digest).status == 504
    assert lost("too long") - before == 1
    settings.THUMBNAIL_SECONDS = 60
    assert thumbnail_painter.paint_thumbnail(Thumbnail(blob.digest, 20, 20, "png"))


class Deadly(io.BytesIO):
    """An image that kills its painter."""

    def read(self, size: int | None = -1) -> bytes:
        assert thumbnail_painter.PAINTER.pid
        os.kill(thumbnail_painter.PAINTER.pid, signal.SIGKILL)
        return super().read(size)


def test_a_child_that_dies_is_counted_and_costs_one_image(keep_picture: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    body = files.PICTURES["a.png"]
    blob, before = keep_picture(body), lost("died")
    with monkeypatch.context() as patched:
        patched.setattr(blobs, "open_blob", lambda _: Deadly(body))
        assert failure(blob.digest).status == 502
    assert lost("died") - before == 1
    assert thumbnail_painter.paint_thumbnail(Thumbnail(blob.digest, 20, 20, "png"))


def lost(reason: str) -> float:
    return REGISTRY.get_sample_value("tarry_children_lost_total", {"kind": "thumbnail", "reason": reason}) or 0


@pytest.fixture
def held_elsewhere(bucket_of_any_kind: None, keep_picture: Keep) -> Blob:
    """A picture that another machine has, and has not uploaded."""
    blob = keep_picture(files.PICTURES["a.png"], holder="there", uploaded_at=None)
    locks.hold_machine_name("there", "its id")
    blobs.local_path(blob.digest).unlink()
    return blob


def test_a_file_elsewhere_is_uploaded_then_painted(client: Reader, held_elsewhere: Blob, published: list[Any]) -> None:
    address = f"/resources/{held_elsewhere.digest}/20x20.png"
    assert client.get(address).status_code == 302
    [(task, work_key, token, arguments, lane)] = published
    assert (task, arguments, lane) == ("resources.upload", (held_elsewhere.digest, "there"), "upload")

    default_storage.save(held_elsewhere.name, ContentFile(files.PICTURES["a.png"]))  # as its machine does
    Blob.objects.update(uploaded_at=NOW)
    uploads.finish_upload_request(UploadRequest(held_elsewhere.digest, token, NOW.timestamp()), is_there=True)
    assert client.get(address).status_code == 302
    (task, work_key, token, arguments, _) = published[1]
    assert task == "resources.paint_thumbnail"
    tasks.paint_thumbnail(work_key, token, *arguments)
    assert client.get(address).status_code == 200


def test_what_was_painted_needs_no_file(client: Reader, held_elsewhere: Blob, published: list[Any]) -> None:
    wanted = Thumbnail(held_elsewhere.digest, 20, 20, "png")
    painted = Prepared(b"picture", "image/png", 60, 0)
    stores.execute_call(contents.store_call(wanted.content_key, painted, 1, datetime.now(UTC), 0))
    assert client.get(f"/resources/{held_elsewhere.digest}/20x20.png").content == b"picture"
    assert not published


def test_a_painter_has_a_file_of_another_machine_uploaded(held_elsewhere: Blob, published: list[Any]) -> None:
    found = failure(held_elsewhere.digest)
    assert (found.status, found.retry_seconds) == (503, 2)
    assert [call[0] for call in published] == ["resources.upload"]


def test_bytes_that_are_nowhere_are_no_reason_to_ask_another_machine(keep_picture: Keep, published: list[Any]) -> None:
    blob = keep_picture(files.PICTURES["a.png"])
    blobs.local_path(blob.digest).unlink()
    assert failure(blob.digest).detail == "The file is missing from the storage."
    assert not published


def test_thumbnails_of_what_was_taken_down_go_from_the_cache(keep_picture: Keep, redis_servers: RedisServers) -> None:
    down, other = keep_picture(files.PICTURES["a.png"]), keep_picture(files.PICTURES["a.jpeg"])
    keys = [Thumbnail(blob.digest, side, side, "png").content_key for blob in (down, other) for side in (20, 30)]
    for key in keys:
        painted = Prepared(b"picture", "image/png", 60, 0)
        stores.execute_call(contents.store_call(key, painted, 1, datetime.now(UTC), 0))

    tasks.forget_thumbnails(down.digest)
    assert [stores.run_steps(contents.read_content(key)) is None for key in keys] == [True, True, False, False]
