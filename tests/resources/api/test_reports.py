"""`POST /api/resources`, batches, files: what the API takes, what it refuses, what it tells."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command

from resources.api import tokens
from resources.mirroring.knowing import rules, seen
from resources.mirroring.knowing.models import Batch, BatchItem, Blob, Resource, Rule, State
from resources.mirroring.reporting import batches, reports, webhooks
from resources.mirroring.writing import blocking
from resources.models import ApiToken
from tests.resources.mirroring.rows import NOW, blob, content, fail, resource, store, url

from .conftest import Caller, problem

JSON = "application/json"


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    blocking.forget()
    seen.forget_all_here()


@pytest.fixture
def caller(transactional_db: None) -> Caller:
    """Who may mirror files."""
    return Caller(tokens.issue(ApiToken(name="mirror", may_mirror=True)).text)


def send(caller: Caller, body: Any, **fields: str) -> Any:
    return caller.post("/api/resources", json.dumps(body), JSON, **fields)


def test_a_list_is_answered_url_by_url(caller: Caller) -> None:
    for name in ("known", "failed"):
        resource(name)
    store("known")
    fail("failed", "404 Not Found")
    answer = send(caller, [url("known"), url("new"), "ftp://x.example/", url("failed"), url("new")])
    assert answer.status_code == 202
    told = answer.json()
    assert answer["Location"].endswith(f"/api/batches/{told['batch']}")
    assert [(one["status"], one["digest"]) for one in told["urls"]] == [
        ("known", content("known")),
        ("accepted", None),
        ("refused", None),
        ("failed", None),
        ("accepted", None),
    ]
    assert [one["url"] for one in told["urls"]][:2] == [url("known"), url("new")]
    assert "http" in told["urls"][2]["reason"]
    assert told["urls"][3]["reason"] == "404 Not Found"
    assert (told["total"], told["known"], told["accepted"], told["failed"], told["refused"]) == (5, 1, 2, 1, 1)


def test_a_list_of_which_all_is_known_is_answered_as_finished(caller: Caller) -> None:
    resource("a")
    store("a")
    answer = send(caller, [url("a")])
    assert answer.status_code == 200
    assert answer.json()["finished"]


def test_what_goes_with_a_list_is_kept(caller: Caller) -> None:
    body = {"urls": [url("a")], "referer": "https://example.org/", "webhook": "https://example.org/told"}
    assert send(caller, body).status_code == 202
    batch = Batch.objects.get()
    assert (batch.referer, batch.webhook, batch.sender) == (body["referer"], body["webhook"], "mirror")


def test_the_same_again_is_the_same_list(caller: Caller) -> None:
    first, again = send(caller, [url("a")]).json(), send(caller, [url("a")]).json()
    assert again["batch"] == first["batch"]
    assert (first["is_new"], again["is_new"]) == (True, False)
    other = Caller(tokens.issue(ApiToken(name="other", may_mirror=True)).text)
    assert send(other, [url("a")]).json()["batch"] != first["batch"]


def test_a_key_names_a_list(caller: Caller) -> None:
    first = send(caller, [url("a")], Idempotency_Key="k").json()
    assert send(caller, [url("a")], Idempotency_Key="k").json()["batch"] == first["batch"]
    assert "Idempotency-Key" in problem(send(caller, [url("b")], Idempotency_Key="k"), 422)
    assert send(caller, [url("a")], Idempotency_Key="l").json()["batch"] != first["batch"]
    problem(send(caller, [url("a")], Idempotency_Key="k" * 201), 422)


def test_a_list_may_be_compressed(caller: Caller) -> None:
    body = gzip.compress(json.dumps([url("a")]).encode())
    assert caller.post("/api/resources", body, JSON, Content_Encoding="gzip").status_code == 202


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("", 400, "JSON"),
        ("{", 400, "JSON"),
        ("[" * 100_000, 400, "JSON"),
        ("[]", 422, "at least 1"),
        ("{}", 422, "urls"),
        ("null", 422, ""),
        ('"https://a.example/"', 422, ""),
        ("[1]", 422, "0"),
        ('{"urls": "https://a.example/"}', 422, "urls"),
        ('{"urls": []}', 422, "urls"),
        ('{"urls": ["https://a.example/"], "hook": ""}', 422, "hook"),
        ('{"urls": ["https://a.example/"], "webhook": "mailto:a@b"}', 422, "webhook"),
        ('{"urls": ["https://a.example/"], "referer": "x"}', 422, "Referer"),
        (json.dumps(["x"] * (reports.MOST_URLS + 1)), 422, "10000"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused(caller: Caller, body: str, status: int, said: str) -> None:
    assert said in problem(caller.post("/api/resources", body, JSON), status)
    assert not Batch.objects.exists()


def test_bodies_of_other_kinds_and_sizes_are_refused(caller: Caller, settings: Any) -> None:
    problem(caller.post("/api/resources", "urls=x", "application/x-www-form-urlencoded"), 415)
    problem(caller.post("/api/resources", "[]", JSON, Content_Encoding="br"), 415)
    problem(caller.post("/api/resources", "[]", JSON, Content_Encoding="gzip"), 400)
    settings.MIRROR_REPORT_MAX_BYTES = 1000
    problem(caller.post("/api/resources", gzip.compress(b" " * 1001), JSON, Content_Encoding="gzip"), 413)
    problem(caller.post("/api/resources", " " * 1001, JSON), 413)


def test_a_url_that_is_no_text_refuses_itself_alone(caller: Caller) -> None:
    answer = caller.post("/api/resources", '["https://a.example/\\ud800", "a\\u0000b", "https://a.example/"]', JSON)
    assert [one["status"] for one in answer.json()["urls"]] == ["refused", "refused", "accepted"]
    assert send(caller, [one["url"] for one in answer.json()["urls"]]).status_code == 202


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("post", "/api/resources"),
        ("get", "/api/resources?url=https://a.example/"),
        ("get", f"/api/resources/{'a' * 64}"),
        ("get", f"/api/batches/{UUID(int=1)}"),
        ("get", "/api/webhook-secret"),
        ("post", "/api/signed-urls"),
    ],
)
def test_only_tokens_that_may_mirror_are_answered(caller: Caller, stranger: Caller, method: str, path: str) -> None:
    def ask(who: Caller) -> Any:
        return getattr(who.client, method)(path, headers=who._fields())

    problem(ask(stranger), 401)
    ApiToken.objects.update(may_mirror=False)
    assert "may not mirror" in problem(ask(caller), 403)


def test_only_tokens_that_may_take_down_do(caller: Caller, stranger: Caller) -> None:
    blob("a")
    path = f"/api/resources/{content('a')}"
    for who, status, said in ((stranger, 401, ""), (caller, 403, "may not take files down")):
        refused: Any = who.client.delete(path, headers=who._fields())
        assert said in problem(refused, status)
    assert Blob.objects.get().taken_down_at is None


def test_who_may_take_down_need_not_mirror(transactional_db: None) -> None:
    blob("a")
    lawyer = Caller(tokens.issue(ApiToken(name="lawyer", may_take_down=True)).text)
    path = f"/api/resources/{content('a')}"
    assert lawyer.client.delete(path, headers=lawyer._fields()).status_code == 200
    problem(send(lawyer, [url("a")]), 403)


def test_signatures_of_others_are_told_to_nobody(caller: Caller) -> None:
    signed = f"{url('a')}?X-Goog-Date=20261121T110000Z&X-Goog-Expires=3600&X-Goog-Signature=secret"
    row = resource("a", url=signed)
    Resource.objects.update(moved_to=signed.replace("images", "user:secret@other"))
    blob("a")
    Resource.objects.filter(pk=row.pk).update(state=State.STORED, blob_digest=content("a"))

    [shown] = caller.get(f"/api/resources/{content('a')}").json()["urls"]
    assert shown["url"] == url("a")
    found = caller.client.get("/api/resources", {"url": url("a")}, headers=caller._fields())
    assert (found.json()["url"], found.json()["moved_to"]) == (url("a"), url("a").replace("images", "other"))
    assert b"secret" not in found.content


def test_urls_are_counted_by_token_and_minute(caller: Caller, settings: Any) -> None:
    settings.API_URLS_PER_MINUTE = 3
    assert send(caller, [url("a"), url("b")]).status_code == 202
    while (answer := send(caller, [url("c"), url("d")])).status_code == 202:  # the minute may have changed
        pass
    assert "too many URLs" in problem(answer, 429)
    assert 1 <= int(answer["Retry-After"]) <= 60


def test_a_batch_tells_how_far_it_is_and_its_items_page_by_page(caller: Caller) -> None:
    told = send(caller, {"urls": [url(name) for name in range(5)], "webhook": "https://example.org/told"}).json()
    store(0)
    fail(3, "410 Gone")
    batches.settle_batch(Batch.objects.get().pk, NOW)
    found = caller.get(f"/api/batches/{told['batch']}?limit=2").json()
    assert (found["total"], found["settled"], found["steps"]) == (5, 2, {"new": 1, "failed": 1})
    assert found["webhook_stands"] == "It is called when the list is finished."
    positions = []
    while True:
        positions += [item["position"] for item in found["items"]]
        if found["next"] is None:
            break
        found = caller.get(found["next"].removeprefix("http://testserver")).json()
    assert positions == [0, 1, 2, 3, 4]
    [item] = caller.get(f"/api/batches/{told['batch']}?step=failed").json()["items"]
    assert (item["position"], item["reason"], item["digest"]) == (3, "410 Gone", None)
    assert len(caller.get(f"/api/batches/{told['batch']}?step=open").json()["items"]) == 3


def test_lists_of_others_are_not_there(caller: Caller) -> None:
    told = send(caller, [url("a")]).json()
    other = Caller(tokens.issue(ApiToken(name="other", may_mirror=True)).text)
    problem(other.get(f"/api/batches/{told['batch']}"), 404)
    problem(caller.get(f"/api/batches/{UUID(int=1)}"), 404)
    problem(caller.get("/api/batches/x"), 404)


@pytest.mark.parametrize("query", ["limit=1001", "limit=x", "after=-2", "step=x"])
def test_a_page_has_bounds(caller: Caller, query: str) -> None:
    told = send(caller, [url("a")]).json()
    problem(caller.get(f"/api/batches/{told['batch']}?{query}"), 422)


def test_a_file_is_described_with_its_urls(caller: Caller) -> None:
    blob("a")
    resource("a")
    store("a")
    found = caller.get(f"/api/resources/{content('a')}").json()
    assert (found["size"], found["media_type"], found["uploaded_at"]) == (1234, "image/jpeg", None)
    assert found["address"].endswith(f"/resources/{content('a')}")
    assert [one["url"] for one in found["urls"]] == [url("a")]
    problem(caller.get(f"/api/resources/{content('b')}"), 404)
    problem(caller.get(f"/api/resources/{content('a').upper()}"), 422)


def test_a_url_is_described_by_any_of_its_spellings(caller: Caller) -> None:
    resource("a")
    store("a")
    for spelling in (url("a"), url("a").replace("images", "IMAGES"), f"{url('a')}%23x#part"[: len(url("a"))]):
        found = caller.client.get("/api/resources", {"url": spelling}, headers=caller._fields()).json()
        assert (found["state"], found["digest"]) == ("stored", content("a"))
    problem(caller.get(f"/api/resources?url={url('b')}"), 404)
    problem(caller.get("/api/resources?url=ftp://x.example/"), 422)
    problem(caller.get("/api/resources"), 422)


def test_a_url_that_was_stored_before_a_rule_is_described_after_it(caller: Caller) -> None:
    rules.forget()
    address = f"{url('a')}?v=1"
    row = resource("a", url=address, state=State.STORED, blob_digest=content("a"))
    Rule.objects.create(kind="parameter", host="images.example.org", name="v", decision="approved", proposed_at=NOW)
    rules.forget()
    found = caller.client.get("/api/resources", {"url": address}, headers=caller._fields()).json()
    assert (found["url_digest"], found["digest"]) == (row.pk, content("a"))
    rules.forget()


def test_a_file_is_taken_down(caller: Caller) -> None:
    blob("a")
    resource("a")
    store("a")
    path = f"/api/resources/{content('a')}"
    ApiToken.objects.update(may_take_down=True)
    for _ in range(2):
        assert caller.client.delete(path, headers=caller._fields()).status_code == 200
    assert Blob.objects.get().taken_down_at
    assert caller.get(path).json()["address"] is None
    assert send(caller, [url("a")]).json()["urls"][0]["status"] in ("failed", "refused")
    assert Resource.objects.get().state == "failed"
    unknown: Any = caller.client.delete(f"/api/resources/{content('b')}", headers=caller._fields())
    problem(unknown, 404)


def test_urls_are_signed(caller: Caller) -> None:
    answer = caller.post("/api/signed-urls", json.dumps({"urls": [url("a"), "x"]}), JSON).json()
    assert answer["urls"][0]["address"].startswith("http://testserver/resources/")
    assert answer["urls"][1]["address"] is None
    assert answer["urls"][1]["reason"]
    assert caller.post("/api/signed-urls", json.dumps([url("a")]), JSON).status_code == 200
    problem(caller.post("/api/signed-urls", json.dumps({"urls": [url("a")], "webhook": ""}), JSON), 422)


def test_the_secret_of_webhooks_is_shown_to_its_token(caller: Caller) -> None:
    shown = caller.get("/api/webhook-secret").json()
    assert shown["secret"] == webhooks.secrets_of(ApiToken.objects.get().digest)[0]
    assert shown["header"] == "Tarry-Signature"


def test_how_a_webhook_stands_is_told_in_words(caller: Caller) -> None:
    now = datetime.now(UTC)
    told = send(caller, {"urls": [url("a")], "webhook": "https://example.org/told"}).json()

    def stands(**fields: Any) -> Any:
        Batch.objects.update(**fields)
        return caller.get(f"/api/batches/{told['batch']}").json()["webhook_stands"]

    assert stands(finished_at=now, call_at=now) == "It is being called."
    assert stands(calls=1, answer="the server answered 500", call_at=now + timedelta(minutes=5)).startswith(
        "1 call so far: the server answered 500. The next in "
    )
    assert stands(calls=2, answer="told: 200", told_at=now) == "Told: 200, after 2 calls."


def test_a_token_for_mirroring_is_issued_on_the_command_line(transactional_db: None) -> None:
    out = StringIO()
    call_command("create_token", "mirror", "--mirror", stdout=out)
    assert send(Caller(out.getvalue().strip()), [url("a")]).status_code == 202
    assert BatchItem.objects.count() == 1
