"""Mirrored files by signed URL: from the store, after a wait, or why not."""

import json
from typing import Any

import pytest

from resources.mirror import links, lookup
from resources.mirror.ingest import wanted_urls
from resources.mirror.lookup import UrlStatus
from resources.mirror.models import Blob, UrlState
from retry import claims, stores
from retry.errors import PreparationError
from tests.conftest import RedisServers

from .conftest import NOW, URL, Give, Keep, Reader

BODY = b"0123456789"
UNKNOWN = "ab" * 32


pytestmark = pytest.mark.django_db


def test_a_signed_url_is_answered_from_the_store_and_kept_no_longer_than_the_hot_window(
    client: Reader, keep: Keep, give: Give
) -> None:
    blob = keep(BODY)
    give(blob)
    response = client.get(links.sign_url(f"{URL}?utm_source=x"))
    assert (response.status_code, response.body) == (200, BODY)
    assert response["Cache-Control"].startswith("public, max-age=2, s-maxage=2, ")
    assert response["Content-Location"] == f"/resources/{blob.digest}"


def test_an_unknown_url_is_fetched_while_the_client_waits(client: Reader, published: list[Any]) -> None:
    response = client.get(links.sign_url(URL))
    assert response.status_code == 302
    [(task, work_key, _, arguments, lane)] = published
    assert (task, lane, arguments[0]) == ("resources.mirror", "fetch.fast", URL)
    assert work_key == f"mirror:{arguments[1]}"


def test_the_longest_url_can_be_waited_for(client: Reader, published: list[Any], redis_servers: RedisServers) -> None:
    assert client.get(links.sign_url(URL.ljust(2000, "x"))).status_code == 302


def test_forged_and_malformed_addresses_are_refused_in_words(client: Reader) -> None:
    signed = links.sign_url(URL)
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
    give(Blob(digest=""), state=UrlState.FAILED, failure=failure, status=status, detail="404 Not Found")
    response = client.get(links.sign_url(URL))
    assert response.status_code == told
    assert response.has_header("Retry-After") == (told != 410)


@pytest.mark.parametrize("failure", ["ours", "refused", "blocked"])
def test_addresses_are_not_told(client: Reader, give: Give, failure: str) -> None:
    give(Blob(digest=""), state=UrlState.FAILED, failure=failure, detail="10.0.0.1 is private")
    response = client.get(links.sign_url(URL))
    assert response.status_code == 502
    assert b"10.0.0.1" not in response.content


def test_what_failed_for_now_is_told_until_its_pause_is_over(client: Reader, give: Give, published: list[Any]) -> None:
    give(Blob(digest=""), state=UrlState.WANTED, failure="transient", status=500, due_at=NOW)
    address = links.sign_url(URL)
    assert client.get(address).status_code == 302
    [(_, work_key, token, _, _)] = published
    stores.execute_call(claims.start_call(work_key, token, "x"))
    error = PreparationError("The origin: 500.", status=504, retry_seconds=60)
    stores.execute_call(claims.finish_failed_call(work_key, token, error, luck=0.5))
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
    row = give(keep(BODY))
    assert wanted_urls.refetch_urls([row.url_digest], NOW) == 1
    assert client.get(links.sign_url(URL)).body == BODY
