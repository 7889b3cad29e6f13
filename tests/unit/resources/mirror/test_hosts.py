"""Blocked hosts: nothing more is reported from them, what waits fails, and all of it can be taken back."""

import pytest

from resources.mirroring.knowing.models import MirroredHost, Resource, State
from resources.mirroring.reporting import batches, reports
from resources.mirroring.reporting.batches import Sent
from resources.mirroring.writing import blocking
from tests.resources.mirroring.rows import NOW, content, digest_of, resource, store, url

pytestmark = pytest.mark.django_db

HOST = "images.example.org"


@pytest.mark.parametrize(
    ("host", "expected"),
    [("example.org", True), ("images.example.org", True), ("a.b.example.org", True), ("badexample.org", False),
     ("org", False), ("example.com", False)],
)  # fmt: skip
def test_a_block_counts_for_the_host_and_all_below(host: str, expected: bool) -> None:
    blocking.block("example.org", now=NOW)
    assert blocking.is_blocked(host) is expected


def test_what_waits_fails_and_what_is_stored_stays() -> None:
    batch = reports.report(Sent([url("a"), url("b")], "tests"), NOW).batch
    store("a")
    resource("c", blob_digest=content("c"))
    resource("d", url="https://other.example/d", host="other.example")
    assert blocking.block(HOST, now=NOW) == 2
    found = {row.url_digest: (row.state, row.failure) for row in Resource.objects.all()}
    assert found == {
        digest_of(url("a")): (State.STORED, ""),
        digest_of(url("b")): (State.FAILED, blocking.FAILURE),
        digest_of(url("c")): (State.STORED, ""),
        digest_of("https://other.example/d"): (State.WANTED, ""),
    }
    assert batches.settle_batch(batch.pk, NOW)


def test_new_reports_are_refused_with_the_reason() -> None:
    blocking.block("example.org", now=NOW)
    [found] = reports.report(Sent([url("a")], "tests"), NOW).decisions
    assert (found.status, found.detail) == ("refused", "An admin has blocked its host.")
    assert not Resource.objects.exists()


def test_when_a_block_ends_the_next_report_asks_again() -> None:
    for name in range(blocking.SLICE + 1):
        resource(name)
    resource("f", state=State.FAILED, failure="permanent")
    blocking.block(HOST, now=NOW)
    assert blocking.unblock(HOST) == blocking.SLICE + 1
    assert Resource.objects.get().failure == "permanent"
    [found] = reports.report(Sent([url("1")], "tests"), NOW).decisions
    assert found.status == "accepted"


def test_what_redirected_to_a_host_is_forgotten_with_its_block_and_what_another_block_failed_is_not() -> None:
    for host in (HOST, "other.example"):
        blocking.block(host, now=NOW)
    failed = {"state": State.FAILED, "failure": blocking.FAILURE}
    resource("a", url="https://short.example/a", host="short.example", **failed)
    kept = resource("b", url="https://a.other.example/b", host="a.other.example", **failed)
    assert blocking.unblock(HOST) == 1
    assert Resource.objects.get() == kept


def test_what_is_learnt_of_a_host_stays() -> None:
    MirroredHost.objects.create(host=HOST, confirmed=3)
    blocking.block(HOST, "spam", now=NOW)
    row = MirroredHost.objects.get()
    assert (row.blocked, row.note, row.confirmed) == (True, "spam", 3)
