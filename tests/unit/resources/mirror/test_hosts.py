"""Blocked hosts: reports of them are refused, queued URLs fail, and all of it can be taken back."""

import pytest

from resources import database
from resources.mirror import hosts
from resources.mirror.models import MirroredHost, Resource, UrlState
from resources.mirror.reports import batches, report
from resources.mirror.reports.batches import SentList
from tests.support.mirror_rows import NOW, content, digest_of, resource, store, url

pytestmark = pytest.mark.django_db

HOST = "images.example.org"


@pytest.mark.parametrize(
    ("host", "expected"),
    [("example.org", True), ("images.example.org", True), ("a.b.example.org", True), ("badexample.org", False),
     ("org", False), ("example.com", False)],
)  # fmt: skip
def test_a_block_counts_for_the_host_and_all_below(host: str, expected: bool) -> None:
    hosts.block_host("example.org", now=NOW)
    assert hosts.is_host_blocked(host) is expected


def test_what_waits_fails_and_what_is_stored_stays() -> None:
    batch = report.report_urls(SentList([url("a"), url("b")], "tests"), NOW).batch
    store("a")
    resource("c", blob_digest=content("c"))
    resource("d", url="https://other.example/d", host="other.example")
    assert hosts.block_host(HOST, now=NOW) == 2
    found = {row.url_digest: (row.state, row.failure) for row in Resource.objects.all()}
    assert found == {
        digest_of(url("a")): (UrlState.STORED, ""),
        digest_of(url("b")): (UrlState.FAILED, hosts.BLOCKED_FAILURE),
        digest_of(url("c")): (UrlState.STORED, ""),
        digest_of("https://other.example/d"): (UrlState.WANTED, ""),
    }
    assert batches.settle_batch(batch.pk, NOW)


def test_new_reports_are_refused_with_the_reason() -> None:
    hosts.block_host("example.org", now=NOW)
    [found] = report.report_urls(SentList([url("a")], "tests"), NOW).decisions
    assert (found.status, found.detail) == ("refused", "The host is blocked by an admin.")
    assert not Resource.objects.exists()


def test_when_a_block_ends_the_next_report_asks_again() -> None:
    for name in range(database.ROWS_PER_STATEMENT + 1):
        resource(name)
    resource("f", state=UrlState.FAILED, failure="permanent")
    hosts.block_host(HOST, now=NOW)
    assert hosts.unblock_host(HOST) == database.ROWS_PER_STATEMENT + 1
    assert Resource.objects.get().failure == "permanent"
    [found] = report.report_urls(SentList([url("1")], "tests"), NOW).decisions
    assert found.status == "accepted"


def test_what_redirected_to_a_host_is_forgotten_with_its_block_and_what_another_block_failed_is_not() -> None:
    for host in (HOST, "other.example"):
        hosts.block_host(host, now=NOW)
    failed = {"state": UrlState.FAILED, "failure": hosts.BLOCKED_FAILURE}
    resource("a", url="https://short.example/a", host="short.example", **failed)
    kept = resource("b", url="https://a.other.example/b", host="a.other.example", **failed)
    assert hosts.unblock_host(HOST) == 1
    assert Resource.objects.get() == kept


def test_what_is_learnt_of_a_host_stays() -> None:
    MirroredHost.objects.create(host=HOST, confirmed=3)
    hosts.block_host(HOST, "spam", now=NOW)
    row = MirroredHost.objects.get()
    assert (row.blocked, row.note, row.confirmed) == (True, "spam", 3)
