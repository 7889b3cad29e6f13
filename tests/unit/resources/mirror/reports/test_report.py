"""The results of a report: a list, rows of wanted URLs, and the same list for the same report."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, OperationalError

from resources.mirror import lookup, stats
from resources.mirror.ingest import url_outcome
from resources.mirror.ingest.url_outcome import SourceUrl
from resources.mirror.lookup import UrlStatus
from resources.mirror.models import Batch, BatchItem, Blob, Resource, Tally, UrlState
from resources.mirror.reports import batches
from resources.mirror.reports import report as reports_report
from resources.mirror.reports.batches import SentList
from resources.mirror.reports.classify import JOINED_DETAIL
from resources.mirror.reports.report import ReportError, UnmadeReportError
from resources.tokens import auth
from resources.tokens.models import ApiToken
from tests.conftest import RedisServers
from tests.support.mirror_rows import (
    HOUR,
    NOW,
    blob,
    content,
    digest_of,
    fail,
    report,
    resource,
    sent,
    store,
    stored_resource,
    url,
)

from ..conftest import raising

pytestmark = pytest.mark.django_db


def test_the_same_within_a_day_is_the_same_list_and_later_a_new_one() -> None:
    first = report("a", "b")
    store("a")
    batches.settle_batch(first.batch.pk, NOW)
    again = reports_report.report_urls(sent("a", "b"), NOW + timedelta(hours=23))
    assert again.batch.pk == first.batch.pk
    assert not again.is_new
    assert [one.status for one in again.decisions] == ["known", "accepted"]
    assert BatchItem.objects.count() == 2
    later = reports_report.report_urls(sent("a", "b"), NOW + timedelta(hours=24))
    assert later.batch.pk != first.batch.pk
    assert reports_report.report_urls(sent("a", "b"), NOW + timedelta(hours=25)).batch.pk == later.batch.pk


@pytest.mark.parametrize(
    "other",
    [sent("b", "a"), sent("a"), sent("a", "b", referer="https://x.example/"), replace(sent("a", "b"), sender="x")],
)
def test_anything_else_is_another_list(other: SentList) -> None:
    first = report("a", "b")
    assert reports_report.report_urls(other, NOW).batch.pk != first.batch.pk


def test_of_two_who_send_the_same_at_once_one_makes_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second has looked before the first has written."""
    first = report("a")
    looks = iter([None, first.batch])
    monkeypatch.setattr(batches, "find_batch", lambda *_: next(looks))
    monkeypatch.setattr(batches, "_next_batch_id", lambda _: first.batch.pk)
    again = report("a")
    assert (again.batch.pk, again.is_new) == (first.batch.pk, False)
    assert Batch.objects.count() == BatchItem.objects.count() == 1


@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        pytest.param(IntegrityError("its token was deleted"), UnmadeReportError, "Send it again", id="not taken"),
        pytest.param(OperationalError("disk full"), OperationalError, "disk full", id="not written"),
    ],
)
def test_a_list_that_the_database_does_not_take_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception], said: str
) -> None:
    monkeypatch.setattr(batches, "_insert_items", raising(error))
    with pytest.raises(raised, match=said):
        report("a")
    assert not Batch.objects.exists()


def test_what_failed_is_tried_again_by_the_first_report_after_its_pause_and_by_one_alone() -> None:
    first = report("a", "b")
    fail("a")
    store("b")
    retry_at = NOW + HOUR
    Resource.objects.filter(pk=digest_of(url("a"))).update(due_at=retry_at)
    lookup.forget_statuses([digest_of(url("a")), digest_of(url("b"))])
    batches.settle_batch(first.batch.pk, NOW)
    early = reports_report.report_urls(sent("a", "b"), retry_at - timedelta(seconds=1))
    assert (early.batch.pk, early.decisions[0].retry_at) == (first.batch.pk, retry_at)
    assert reports_report.report_urls(sent("a"), NOW).decisions[0].retry_at == retry_at
    late = reports_report.report_urls(sent("a", "b"), retry_at)
    assert late.is_new
    assert [(one.status, one.detail) for one in late.decisions] == [("accepted", ""), ("known", "")]
    [other] = reports_report.report_urls(sent("a", referer="https://x.example/"), retry_at).decisions
    assert (other.status, other.detail) == ("accepted", JOINED_DETAIL)
    row = Resource.objects.get(pk=digest_of(url("a")))
    assert (row.state, row.due_at, row.failure) == (UrlState.WANTED, retry_at, "")


@pytest.mark.parametrize("rechecked", [True, False])
def test_a_report_has_stored_content_checked_where_that_is_on(settings: Any, *, rechecked: bool) -> None:
    settings.MIRROR_RECHECK = rechecked
    stored_resource("a")
    [decision] = report("a").decisions
    assert (decision.status, decision.blob_digest) == ("known", content("a"))
    row = Resource.objects.get()
    assert (row.state, row.blob_digest) == ("wanted" if rechecked else "stored", content("a"))


def test_the_id_of_a_list_is_the_same_for_all_who_send_it_at_once() -> None:
    one = sent("a")
    assert batches._next_batch_id(one) == batches._next_batch_id(one)
    before = batches._next_batch_id(one)
    report("a")
    assert batches._next_batch_id(one) != before


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"referer": "no address"}, "Referer"),
        ({"referer": "https://a.example/\r\nX: y"}, "Referer"),
        ({"webhook": "ftp://a.example/"}, "webhook"),
        ({"webhook": "https://a.example/" + "x" * 1900}, "webhook"),
    ],
)
def test_addresses_that_cannot_be_used_refuse_the_list(fields: dict[str, str], said: str) -> None:
    with pytest.raises(ReportError, match=said):
        report("a", **fields)
    assert not Batch.objects.exists()


def test_the_same_list_within_a_day_has_stored_content_checked_too(settings: Any) -> None:
    settings.MIRROR_RECHECK = True
    first = report("a")
    store("a")
    batches.settle_batch(first.batch.pk, NOW)
    Resource.objects.update(due_at=NOW + HOUR)
    lookup.forget_statuses([digest_of(url("a"))])
    states = []
    for at in (NOW + HOUR / 2, NOW + HOUR):
        again = reports_report.report_urls(sent("a"), at)
        assert (again.batch.pk, again.decisions[0].status) == (first.batch.pk, "known")
        states.append(Resource.objects.get().state)
    assert states == ["stored", "wanted"]


@pytest.mark.parametrize(("state", "accepted"), [("failed", "accepted"), ("stored", "known")])
def test_a_time_that_a_clock_ahead_wrote_holds_nothing_up(settings: Any, state: str, accepted: str) -> None:
    settings.MIRROR_RECHECK = True
    first = report("a")
    store("a")
    Resource.objects.update(state=state, failure="transient", due_at=NOW + timedelta(days=400))
    lookup.forget_statuses([digest_of(url("a"))])
    batches.settle_batch(first.batch.pk, NOW)
    again = report("a")
    assert (again.decisions[0].status, Resource.objects.get().state) == (accepted, "wanted")


@pytest.mark.parametrize("referer", ["https://right.example/", ""])
def test_the_report_that_has_a_url_tried_again_names_the_referer(referer: str) -> None:
    report("a", referer="https://first.example/")
    fail("a")
    Resource.objects.update(due_at=NOW)
    lookup.forget_statuses([digest_of(url("a"))])
    report("a", referer=referer)
    row = Resource.objects.get()
    assert (row.state, row.referer) == ("wanted", referer)


def signed(seconds: int) -> str:
    return f"https://images.example.org/a?Key-Pair-Id=k&Signature=s&Expires={int(NOW.timestamp()) + seconds}"


def report_at(at: datetime, address: str, **fields: Any) -> str:
    """Reports the URL in a list of its own; its status in the answer."""
    sent_then = SentList([address], "tests", idempotency_key=str(uuid4()), **fields)
    return reports_report.report_urls(sent_then, at).decisions[0].status


def refuse(at: datetime) -> Resource:
    """The origin answers 403 to the only row's request."""
    row = Resource.objects.get()
    failure = "permanent" if row.expires_at is None else "expired"
    source = SourceUrl(row.pk, row.url, row.host)
    url_outcome.upsert_lost([url_outcome.give_up_outcome(source, row, failure, "403", at, status=403)])
    lookup.forget_statuses([row.pk])
    return row


@pytest.fixture
def attacker() -> ApiToken:
    return auth.issue_token(ApiToken(name="attacker", may_mirror=True)).row


def test_another_tokens_signature_replaces_none_that_holds_and_what_it_refuses_is_tried_by_others(
    attacker: ApiToken,
) -> None:
    report_at(NOW, signed(3 * 3600))
    report_at(NOW, signed(10**8), token=attacker)
    assert Resource.objects.get().url == signed(3 * 3600)
    refuse(NOW)
    tries = [report_at(NOW + HOUR * part, url("a")[:-4], token=attacker) for part in (0.9, 1.1)]
    assert tries == ["failed", "accepted"]
    row = Resource.objects.get()
    assert (row.state, row.url, row.asked_by, row.attempts) == ("wanted", url("a")[:-4], attacker.pk, 0)


def test_forged_signatures_keep_a_url_from_others_for_less_than_the_pause_of_their_token(attacker: ApiToken) -> None:
    report_at(NOW, signed(10**8), token=attacker)
    refuse(NOW)
    accepted, minutes = list[int](), 0
    while minutes < 24 * 60:
        minutes += 10
        now = NOW + timedelta(minutes=minutes)
        if report_at(now, signed(10**8 + minutes), token=attacker) == "accepted":
            refuse(now)
        if report_at(now, url("a")[:-4]) == "accepted":
            accepted.append(minutes)
            break
    assert accepted == [30]


def test_signatures_that_are_refused_one_after_the_other_are_tried_ever_more_rarely() -> None:
    report_at(NOW, signed(10**8))
    refuse(NOW)
    tries = []
    for minutes in range(10, 24 * 60, 10):
        now = NOW + timedelta(minutes=minutes)
        if report_at(now, signed(10**8 + minutes)) == "accepted":
            refuse(now)
            tries.append(minutes / 60)
    assert tries == [1, 3, 7, 15]


def test_the_same_list_is_a_new_one_once_another_request_may_have_its_url(attacker: ApiToken) -> None:
    address = url("a")[:-4]
    report_at(NOW, signed(10**8), token=attacker)
    mine = SentList([address], "tests")
    first = reports_report.report_urls(mine, NOW)
    refuse(NOW)
    batches.settle_batch(first.batch.pk, NOW)
    found = [reports_report.report_urls(mine, NOW + HOUR * part) for part in (0.9, 1.1)]
    assert [one.decisions[0].status for one in found] == ["failed", "accepted"]
    assert [one.batch.pk == first.batch.pk for one in found] == [True, False]


def test_another_referer_than_the_refused_one_is_tried_after_an_hour() -> None:
    wrong, right = ({"referer": f"https://{name}.example/"} for name in ("wrong", "right"))
    report_at(NOW, url("a"), **wrong)
    refuse(NOW)
    two_hours = NOW + 2 * HOUR
    tries = [report_at(NOW + HOUR / 2, url("a"), **right), report_at(two_hours, url("a"), **wrong)]
    assert tries == ["failed", "failed"]
    assert report_at(two_hours, url("a"), **right) == "accepted"
    row = Resource.objects.get()
    assert (row.state, row.referer) == ("wanted", right["referer"])


def test_stored_content_keeps_a_signature_that_holds_until_it_is_refused(settings: Any) -> None:
    settings.MIRROR_RECHECK = True
    blob("a")
    own, other = signed(600), signed(10**8)
    row = resource("a", url=own, state="stored", blob_digest=content("a"), due_at=NOW, expires_at=NOW + HOUR)
    for status, found in ((None, own), (403, other)):
        Resource.objects.update(state="stored", due_at=NOW, status=status)
        lookup.forget_statuses([row.pk])
        report_at(NOW, other)
        row.refresh_from_db()
        assert (row.state, row.url) == ("wanted", found)


def test_content_that_was_lost_during_a_check_is_not_said_to_be_stored() -> None:
    row = resource("a", blob_digest=content("a"), step="new")
    source = SourceUrl(row.pk, row.url, row.host)
    failed = url_outcome.give_up_outcome(source, row, "transient", "500", NOW, status=500)
    Resource.objects.update(blob_digest="")
    assert url_outcome.upsert_lost([failed])[row.pk].state is UrlState.FAILED
    row.refresh_from_db()
    assert (row.state, row.step, row.blob_digest) == ("failed", "failed", "")


def test_stored_content_is_checked_by_a_signature_that_still_holds(settings: Any) -> None:
    settings.MIRROR_RECHECK = True
    over, fresh = signed(-1), signed(900)
    blob("a")
    resource("a", url=over, state="stored", blob_digest=content("a"), due_at=NOW, expires_at=NOW - HOUR)
    for reported, state in ((over, "stored"), (fresh, "wanted")):
        reports_report.report_urls(SentList([reported], "tests"), NOW)
        row = Resource.objects.get()
        assert (row.state, row.url) == (state, reported)


@pytest.mark.parametrize("number", [0, reports_report.MAX_URLS_PER_LIST + 1])
def test_a_list_has_a_size(number: int) -> None:
    with pytest.raises(ReportError, match="10,000"):
        report(*range(number))


def test_a_report_is_taken_while_redis_is_away(redis_servers: RedisServers) -> None:
    redis_servers.state.stop()
    redis_servers.cache.stop()
    assert report("a").batch.total == 1


def test_a_report_costs_few_statements_whatever_it_names(django_assert_max_num_queries: Any) -> None:
    for number in range(50):
        stored_resource(number)
    expiring = [f"https://x.example/{n}?Key-Pair-Id=k&Signature=s&Expires=1{n:09}" for n in range(100)]
    urls = [*map(url, [*range(100), *[0] * 100]), *expiring]
    with django_assert_max_num_queries(20) as asked:
        found = reports_report.report_urls(SentList(urls, "tests"), NOW)
    assert {one.status for one in found.decisions[:50]} == {"known"}
    assert len([query for query in asked if "resources_blob" in query["sql"]]) == 1
    assert Resource.objects.exclude(expires_at=None).count() == 100


def test_urls_are_counted_by_what_settled_them() -> None:
    stored_resource("a")
    resource("f")
    fail("f")
    reports_report.report_urls(SentList([url("a"), url("a"), url("b"), url("b"), url("f"), "x"], "tests"), NOW)
    stats.flush_tallies()
    assert dict(Tally.objects.values_list("step", "number")) == {"reported": 6, "known": 3, "failed": 1, "refused": 1}


def pruned() -> None:
    Resource.objects.all().delete()
    Blob.objects.all().delete()


def changed() -> None:
    Resource.objects.update(blob_digest=content("b"))
    Blob.objects.update(digest=content("b"))


WANTED, STORED = UrlStatus(UrlState.WANTED), UrlStatus(UrlState.STORED, content("a"))
"""Statuses that a process leaves that is killed before or after its write."""


@pytest.mark.parametrize(
    ("happened", "remembered", "status", "blob", "detail"),
    [
        pytest.param(pruned, STORED, "accepted", "", "", id="pruned"),
        pytest.param(lambda: Blob.objects.all().delete(), None, "accepted", "", JOINED_DETAIL, id="without a file"),
        pytest.param(
            lambda: Blob.objects.update(taken_down_at=NOW), None, "failed", "", "The file was taken down.", id="down"
        ),
        pytest.param(changed, STORED, "known", content("b"), "", id="changed"),
        pytest.param(lambda: None, WANTED, "known", content("a"), "", id="stored"),
    ],
)
def test_an_answer_is_as_the_rows_are_now(
    happened: Callable[[], object], remembered: UrlStatus | None, *, status: str, blob: str, detail: str
) -> None:
    stored_resource("a")
    happened()
    if remembered:
        lookup.note_statuses({digest_of(url("a")): remembered})
    [decision] = report("a").decisions
    assert (decision.status, decision.blob_digest, decision.detail) == (status, blob, detail)
    row, known = Resource.objects.get(), lookup.look_up_urls([digest_of(url("a"))])
    if status == "accepted":
        assert (row.state, row.blob_digest) == (UrlState.WANTED, "")
        assert known[row.pk].state is UrlState.WANTED
