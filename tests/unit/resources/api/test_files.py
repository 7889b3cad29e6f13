"""Files and URLs in the API: contents by permission, takedown, signing."""

import json
from typing import Any
from uuid import UUID

import pytest

from resources.mirror import lookup, url_rules
from resources.mirror.models import Batch, Blob, Resource, Rule, UrlState
from resources.mirror.reports import batches
from resources.mirror.storage import takedown
from resources.tokens import auth
from resources.tokens.models import ApiToken
from tests.support.mirror_rows import NOW, blob, content, resource, store, url

from .conftest import JSON, Caller, problem, send


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
def test_only_tokens_that_may_mirror_are_answered(reporter: Caller, stranger: Caller, method: str, path: str) -> None:
    def ask(who: Caller) -> Any:
        return getattr(who.client, method)(path, headers=who._fields())

    problem(ask(stranger), 401)
    ApiToken.objects.update(may_mirror=False)
    assert "may not mirror" in problem(ask(reporter), 403)


def test_only_tokens_that_may_take_down_do_and_need_not_mirror(reporter: Caller, stranger: Caller) -> None:
    blob("a")
    path = f"/api/resources/{content('a')}"
    for who, status, said in ((stranger, 401, ""), (reporter, 403, "may not take files down")):
        assert said in problem(who.delete(path), status)
    assert Blob.objects.get().taken_down_at is None
    lawyer = Caller(auth.issue_token(ApiToken(name="lawyer", may_take_down=True)).text)
    assert lawyer.delete(path).status_code == 200
    problem(send(lawyer, [url("a")]), 403)


def test_signatures_of_others_are_told_to_no_client(reporter: Caller) -> None:
    signed = f"{url('a')}?X-Goog-Date=20261121T110000Z&X-Goog-Expires=3600&X-Goog-Signature=secret"
    row = resource("a", url=signed)
    Resource.objects.update(moved_to=signed.replace("images", "user:secret@other"))
    blob("a")
    Resource.objects.filter(pk=row.pk).update(state=UrlState.STORED, blob_digest=content("a"))

    [shown] = reporter.get(f"/api/resources/{content('a')}").json()["urls"]
    assert shown["url"] == url("a")
    found = reporter.describe_url(url("a"))
    assert (found.json()["url"], found.json()["moved_to"]) == (url("a"), url("a").replace("images", "other"))
    assert b"secret" not in found.content


def test_a_file_is_described_with_its_urls(reporter: Caller) -> None:
    blob("a")
    resource("a")
    store("a")
    found = reporter.get(f"/api/resources/{content('a')}").json()
    assert (found["size"], found["media_type"], found["uploaded_at"]) == (1234, "image/jpeg", None)
    assert found["address"].endswith(f"/resources/{content('a')}")
    assert [one["url"] for one in found["urls"]] == [url("a")]
    problem(reporter.get(f"/api/resources/{content('b')}"), 404)
    problem(reporter.get(f"/api/resources/{content('a').upper()}"), 422)


def test_a_url_is_described_by_any_of_its_spellings(reporter: Caller) -> None:
    resource("a")
    store("a")
    for spelling in (url("a"), url("a").replace("images", "IMAGES"), f"{url('a')}%23x#part"[: len(url("a"))]):
        found = reporter.describe_url(spelling).json()
        assert (found["state"], found["digest"]) == ("stored", content("a"))
    problem(reporter.get(f"/api/resources?url={url('b')}"), 404)
    problem(reporter.get("/api/resources?url=ftp://x.example/"), 422)
    problem(reporter.get("/api/resources"), 422)


def test_a_url_that_was_stored_before_a_rule_is_described_after_it(reporter: Caller) -> None:
    url_rules.forget_url_rules()
    address = f"{url('a')}?v=1"
    row = resource("a", url=address, state=UrlState.STORED, blob_digest=content("a"))
    Rule.objects.create(kind="parameter", host="images.example.org", name="v", decision="approved", proposed_at=NOW)
    url_rules.forget_url_rules()
    found = reporter.describe_url(address).json()
    assert (found["url_digest"], found["digest"]) == (row.pk, content("a"))
    url_rules.forget_url_rules()


@pytest.mark.parametrize("failure", ["refused", "ours"])
def test_no_client_is_told_of_addresses_of_a_private_network(reporter: Caller, failure: str) -> None:
    send(reporter, [url("a"), url("b")])
    why = {"failure": failure, "detail": "10.1.2.3 is in a private network"}
    Resource.objects.update(state=UrlState.FAILED, step="failed", due_at=None, **why)
    batch = Batch.objects.get()
    assert batches.settle_batch(batch.pk, NOW)
    lookup.forget_statuses(list(Resource.objects.values_list("pk", flat=True)))

    listed = reporter.get(f"/api/batches/{batch.pk}")
    for answer in (reporter.describe_url(url("a")), listed, send(reporter, [url("a")])):
        assert answer.status_code in (200, 202)
        assert b"this site" in answer.content.lower()
        assert b"10.1.2.3" not in answer.content


def test_a_file_is_taken_down(reporter: Caller) -> None:
    blob("a")
    resource("a")
    store("a")
    path = f"/api/resources/{content('a')}"
    assert reporter.describe_url(url("a")).json()["address"].endswith(content("a"))
    ApiToken.objects.update(may_take_down=True)
    for _ in range(2):
        assert reporter.delete(path).status_code == 200
    assert Blob.objects.get().taken_down_at
    assert reporter.get(path).json()["address"] is None
    assert reporter.describe_url(url("a")).json()["address"] is None
    assert send(reporter, [url("a")]).json()["urls"][0]["status"] in ("failed", "refused")
    assert Resource.objects.get().state == "failed"
    problem(reporter.delete(f"/api/resources/{content('b')}"), 404)


def test_a_file_coming_during_its_takedown_is_not_down(reporter: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_early(_: str) -> bool:
        blob("a")
        return False

    monkeypatch.setattr(takedown, "take_down_blob", too_early)
    ApiToken.objects.update(may_take_down=True)
    problem(reporter.delete(f"/api/resources/{content('a')}"), 404)


def test_urls_are_signed(reporter: Caller) -> None:
    answer = reporter.post("/api/signed-urls", json.dumps({"urls": [url("a"), "x"]}), JSON).json()
    assert answer["urls"][0]["address"].startswith("http://testserver/resources/")
    assert (answer["urls"][1]["address"], bool(answer["urls"][1]["reason"])) == (None, True)
    assert reporter.post("/api/signed-urls", json.dumps([url("a")]), JSON).status_code == 200
    problem(reporter.post("/api/signed-urls", json.dumps({"urls": [url("a")], "webhook": ""}), JSON), 422)
