"""Mirrored files as main answers for them, with nginx before it and without."""

import json
from typing import Any, cast

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import OperationalError
from django.test import Client

from resources.mirroring.knowing import seen
from resources.mirroring.knowing.models import Blob, State
from resources.mirroring.knowing.seen import Seen
from resources.mirroring.serving import addresses
from resources.mirroring.storing import blobs
from resources.mirroring.storing.taking_down import take_down
from resources.mirroring.writing import refetching
from retry import claims, connections
from retry.errors import PreparationError
from tests.conftest import RedisServers
from tests.resources.mirroring.conftest import NOW, URL, Give, Keep

BODY = b"0123456789"
FRONT = {"X-Front": "asked"}
UNKNOWN = "ab" * 32

pytestmark = pytest.mark.django_db


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is handed over: task, work key, token, arguments, lane."""
    calls: list[Any] = []
    monkeypatch.setattr("retry.lanes.publish", lambda *call: calls.append(call))
    return calls


class Reader(Client):
    """Reads every answer to its end, so that no file stays open."""

    def get(self, *arguments: Any, **named: Any) -> Any:
        return super().get(*arguments, **named)

    def request(self, **request: Any) -> Any:
        response: Any = super().request(**request)
        response.body = b"".join(response) if response.streaming else response.content
        return response


@pytest.fixture
def client() -> Reader:
    return Reader()


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
    signed = addresses.sign_url(URL)
    assert client.get(signed).status_code == 200
    take_down(blob.digest)
    for address in (f"/resources/{blob.digest}", signed):
        response = client.get(address)
        assert (response.status_code, response["Cache-Control"]) == (410, "public, max-age=1")


def test_bytes_that_are_not_where_their_row_says_are_no_error_of_the_clients(client: Reader, keep: Keep) -> None:
    blob = keep(BODY)
    blobs.remove(blob)
    assert client.get(f"/resources/{blob.digest}").status_code == 503


def test_a_signed_url_is_answered_from_the_store_and_kept_no_longer_than_the_hot_window(
    client: Reader, keep: Keep, give: Give
) -> None:
    blob = keep(BODY)
    give(blob)
    response = client.get(addresses.sign_url(f"{URL}?utm_source=x"))
    assert (response.status_code, response.body) == (200, BODY)
    assert response["Cache-Control"].startswith("public, max-age=2, s-maxage=2, ")
    assert response["Content-Location"] == f"/resources/{blob.digest}"


def test_an_unknown_url_is_fetched_while_the_client_waits(client: Reader, published: list[Any]) -> None:
    response = client.get(addresses.sign_url(URL))
    assert response.status_code == 302
    [(task, work_key, _, arguments, lane)] = published
    assert (task, lane, arguments[0]) == ("resources.mirror", "fetch.fast", URL)
    assert work_key == f"mirror:{arguments[1]}"


def test_the_longest_url_can_be_waited_for(client: Reader, published: list[Any], redis_servers: RedisServers) -> None:
    assert client.get(addresses.sign_url(URL.ljust(2000, "x"))).status_code == 302


def test_forged_and_malformed_addresses_are_refused_in_words(client: Reader) -> None:
    signed = addresses.sign_url(URL)
    signature, encoded = signed.split("/")[2:]
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
    ],
)
def test_what_failed_for_good_is_told(client: Reader, give: Give, failure: str, status: int | None, told: int) -> None:
    give(Blob(digest=""), state=State.FAILED, failure=failure, status=status, detail="404 Not Found")
    response = client.get(addresses.sign_url(URL))
    assert response.status_code == told
    assert response.has_header("Retry-After") == (told != 410)


@pytest.mark.parametrize("failure", ["ours", "refused", "blocked"])
def test_addresses_are_not_told(client: Reader, give: Give, failure: str) -> None:
    give(Blob(digest=""), state=State.FAILED, failure=failure, detail="10.0.0.1 is private")
    response = client.get(addresses.sign_url(URL))
    assert response.status_code == 502
    assert b"10.0.0.1" not in response.content


def test_what_failed_for_now_is_told_until_its_pause_is_over(client: Reader, give: Give, published: list[Any]) -> None:
    give(Blob(digest=""), state=State.WANTED, failure="transient", status=500, due_at=NOW)
    address = addresses.sign_url(URL)
    assert client.get(address).status_code == 302
    [(_, work_key, token, _, _)] = published
    connections.execute(claims.starting(work_key, token, "x"))
    error = PreparationError("The origin: 500.", status=504, retry_seconds=60)
    connections.execute(claims.finishing_failed(work_key, token, error, luck=0.5))
    response = client.get(address)
    assert response.status_code == 504
    assert int(response["Retry-After"]) > 1


def test_a_url_whose_blob_has_gone_is_fetched_again(client: Reader, published: list[Any], give: Give) -> None:
    give(Blob(digest=UNKNOWN))
    assert client.get(addresses.sign_url(URL)).status_code == 302


def test_what_another_machine_holds_is_waited_for_and_asked_of_it(
    client: Reader, keep: Keep, bucket_of_any_kind: None, redis_servers: RedisServers
) -> None:
    blob = keep(BODY, holder="there")
    blobs.remove_here(blob.digest)
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
    blobs.remove_here(blob.digest)
    assert client.get(f"/resources/{blob.digest}").status_code == 503
    default_storage.save(blob.name, ContentFile(BODY))
    assert client.get(f"/resources/{blob.digest}").body == BODY
    assert client.get(f"/resources/{blob.digest}", headers={"Range": "bytes=-3"}).body == b"789"


def test_the_database_that_is_away_is_told(client: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(Blob.objects, "filter", fail)
    assert client.get(f"/resources/{UNKNOWN}").status_code == 503


def test_seen_is_what_says_how_a_url_stands(client: Reader, keep: Keep, give: Give) -> None:
    blob = keep(BODY)
    row = give(blob, state=State.WANTED, blob_digest="")
    seen.note({row.url_digest: Seen(State.STORED, blob.digest)})
    assert client.get(addresses.sign_url(URL)).status_code == 200


def test_what_is_stored_is_served_while_its_url_is_fetched_again(client: Reader, keep: Keep, give: Give) -> None:
    row = give(keep(BODY))
    assert refetching.refetch([row.url_digest], NOW) == 1
    assert client.get(addresses.sign_url(URL)).body == BODY
