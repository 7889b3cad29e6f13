"""`POST /api/resources`, batches: accepted lists, refusals, answers."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pytest_django import Settings

from resources import problems
from resources.mirror.models import Batch
from resources.mirror.reports import batches, report, webhooks
from resources.tokens import auth
from resources.tokens.models import ApiToken
from tests.support.bounded_disk import bound_disk
from tests.support.mirror_rows import NOW, content, fail, resource, store, url

from .conftest import JSON, Caller, problem, send


def test_a_list_is_answered_url_by_url(reporter: Caller) -> None:
    for name in ("known", "failed"):
        resource(name)
    store("known")
    fail("failed", "404 Not Found")
    answer = send(reporter, [url("known"), url("new"), "ftp://x.example/", url("failed"), url("new")])
    assert answer.status_code == 202
    told = answer.json()
    assert answer["Location"].endswith(f"/api/batches/{told['batch']}")
    assert [one["status"] for one in told["urls"]] == ["known", "accepted", "refused", "failed", "accepted"]
    assert [one["digest"] for one in told["urls"]] == [content("known"), None, None, None, None]
    assert [one["url"] for one in told["urls"]][:2] == [url("known"), url("new")]
    assert "http" in told["urls"][2]["reason"]
    assert told["urls"][3]["reason"] == "404 Not Found"
    assert (told["total"], told["known"], told["accepted"], told["failed"], told["refused"]) == (5, 1, 2, 1, 1)


def test_a_list_of_which_all_is_known_is_answered_as_finished(reporter: Caller) -> None:
    resource("a")
    store("a")
    answer = send(reporter, [url("a")])
    assert answer.status_code == 200
    assert answer.json()["finished"]


def test_the_settings_of_a_compressed_list_are_kept(reporter: Caller) -> None:
    body = {"urls": [url("a")], "referer": "https://example.org/", "webhook": "https://example.org/told"}
    packed = gzip.compress(json.dumps(body).encode())
    assert reporter.post("/api/resources", packed, JSON, Content_Encoding="gzip").status_code == 202
    batch = Batch.objects.get()
    assert (batch.referer, batch.webhook, batch.sender) == (body["referer"], body["webhook"], "mirror")


def test_the_same_again_is_the_same_list(reporter: Caller) -> None:
    first, again = send(reporter, [url("a")]).json(), send(reporter, [url("a")]).json()
    assert again["batch"] == first["batch"]
    assert (first["is_new"], again["is_new"]) == (True, False)
    other = Caller(auth.issue_token(ApiToken(name="other", may_mirror=True)).text)
    assert send(other, [url("a")]).json()["batch"] != first["batch"]


def test_a_key_names_a_list(reporter: Caller) -> None:
    first = send(reporter, [url("a")], Idempotency_Key="k").json()
    assert send(reporter, [url("a")], Idempotency_Key="k").json()["batch"] == first["batch"]
    assert "Idempotency-Key" in problem(send(reporter, [url("b")], Idempotency_Key="k"), 422)
    assert send(reporter, [url("a")], Idempotency_Key="l").json()["batch"] != first["batch"]
    problem(send(reporter, [url("a")], Idempotency_Key="k" * 201), 422)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("", 400, "JSON"),
        ("[" * 100_000, 400, "JSON"),
        ("[]", 422, "at least 1"),
        ("{}", 422, "urls"),
        ('"https://a.example/"', 422, ""),
        ("[1]", 422, "0"),
        ('{"urls": "https://a.example/"}', 422, "urls"),
        ('{"urls": ["https://a.example/"], "hook": ""}', 422, "hook"),
        ('{"urls": ["https://a.example/"], "webhook": "mailto:a@b"}', 422, "webhook"),
        ('{"urls": ["https://a.example/"], "referer": "x"}', 422, "Referer"),
        (json.dumps(["x"] * (report.MAX_URLS_PER_LIST + 1)), 422, "10000"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused(reporter: Caller, body: str, status: int, said: str) -> None:
    assert said in problem(reporter.post("/api/resources", body, JSON), status)
    assert not Batch.objects.exists()


def test_bodies_of_other_kinds_and_sizes_are_refused(reporter: Caller, settings: Any) -> None:
    problem(reporter.post("/api/resources", "urls=x", "application/x-www-form-urlencoded"), 415)
    problem(reporter.post("/api/resources", "[]", JSON, Content_Encoding="br"), 415)
    problem(reporter.post("/api/resources", "[]", JSON, Content_Encoding="gzip"), 400)
    settings.MIRROR_REPORT_MAX_BYTES = 1000
    problem(reporter.post("/api/resources", gzip.compress(b" " * 1001), JSON, Content_Encoding="gzip"), 413)
    problem(reporter.post("/api/resources", " " * 1001, JSON), 413)


def test_a_url_that_is_no_text_refuses_itself_alone(reporter: Caller) -> None:
    answer = reporter.post("/api/resources", '["https://a.example/\\ud800", "a\\u0000b", "https://a.example/"]', JSON)
    assert [one["status"] for one in answer.json()["urls"]] == ["refused", "refused", "accepted"]
    assert send(reporter, [one["url"] for one in answer.json()["urls"]]).status_code == 202


def test_urls_are_counted_by_token_and_minute(reporter: Caller, settings: Any) -> None:
    settings.API_URLS_PER_MINUTE = 3
    assert send(reporter, [url("a"), url("b")]).status_code == 202
    while (answer := send(reporter, [url("c"), url("d")])).status_code == 202:  # the minute may have changed
        pass
    assert "too many URLs" in problem(answer, 429)
    assert 1 <= int(answer["Retry-After"]) <= 60


def test_a_batch_tells_how_far_it_is_and_its_items_page_by_page(reporter: Caller) -> None:
    told = send(reporter, {"urls": [url(name) for name in range(5)], "webhook": "https://example.org/told"}).json()
    store(0)
    fail(3, "410 Gone")
    batches.settle_batch(Batch.objects.get().pk, NOW)
    found = reporter.get(f"/api/batches/{told['batch']}?limit=2").json()
    assert (found["total"], found["settled"], found["steps"]) == (5, 2, {"new": 1, "failed": 1})
    assert found["webhook_stands"] == "Called when the list is finished."
    positions = [item["position"] for item in found["items"]]
    while found["next"]:
        found = reporter.get(found["next"].removeprefix("http://testserver")).json()
        positions += [item["position"] for item in found["items"]]
    assert positions == [0, 1, 2, 3, 4]
    [item] = reporter.get(f"/api/batches/{told['batch']}?step=failed").json()["items"]
    assert (item["position"], item["reason"], item["digest"]) == (3, "410 Gone", None)
    assert len(reporter.get(f"/api/batches/{told['batch']}?step=open").json()["items"]) == 3


def test_lists_of_others_are_not_there(reporter: Caller) -> None:
    told = send(reporter, [url("a")]).json()
    other = Caller(auth.issue_token(ApiToken(name="other", may_mirror=True)).text)
    problem(other.get(f"/api/batches/{told['batch']}"), 404)
    problem(reporter.get(f"/api/batches/{UUID(int=1)}"), 404)
    problem(reporter.get("/api/batches/x"), 404)


@pytest.mark.parametrize("query", ["limit=1001", "limit=x", "after=-2", "step=x"])
def test_a_page_has_bounds(reporter: Caller, query: str) -> None:
    told = send(reporter, [url("a")]).json()
    problem(reporter.get(f"/api/batches/{told['batch']}?{query}"), 422)


def test_the_secret_of_webhooks_is_shown_to_its_token(reporter: Caller) -> None:
    shown = reporter.get("/api/webhook-secret").json()
    assert shown["secret"] == webhooks.webhook_secrets(ApiToken.objects.get().digest)[0]
    assert shown["header"] == "Tarry-Signature"


def test_how_a_webhook_stands_is_told_in_words(reporter: Caller) -> None:
    now = datetime.now(UTC)
    told = send(reporter, {"urls": [url("a")], "webhook": "https://example.org/told"}).json()

    def stands(**fields: Any) -> Any:
        Batch.objects.update(**fields)
        return reporter.get(f"/api/batches/{told['batch']}").json()["webhook_stands"]

    assert stands(finished_at=now, call_at=now) == "Being called."
    assert stands(calls=1, answer="the server answered 500", call_at=now + timedelta(minutes=5)).startswith(
        "1 call so far: the server answered 500. Next call in "
    )
    assert stands(calls=2, answer="told: 200", told_at=now) == "Told: 200, after 2 calls."


def test_a_list_is_refused_while_its_rows_have_no_room(reporter: Caller, settings: Settings, tmp_path: Path) -> None:
    bound_disk(settings, tmp_path, 0, is_full=True)
    assert problem(send(reporter, [url("a")]), 503) == problems.NO_ROOM
    assert not Batch.objects.exists()
