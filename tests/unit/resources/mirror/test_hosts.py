"""Hosts: blocks, distrust of a lying host, and the lanes of URLs."""

from datetime import timedelta
from typing import Any

import pytest

from resources import database
from resources.fetch.models import FetchTiming
from resources.mirror import hosts
from resources.mirror.hosts import LARGE_BYTES, MAX_HOSTS_AT_ONCE, SAMPLED_FILES
from resources.mirror.models import DedupeStep, MirroredHost, Resource, UrlLane, UrlState, Validator
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


def test_when_a_block_ends_the_next_report_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "ROWS_PER_STATEMENT", 2)
    for name in range(5):
        resource(name)
    resource("f", state=UrlState.FAILED, failure="permanent")
    hosts.block_host(HOST, now=NOW)
    assert hosts.unblock_host(HOST) == 5
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
    MirroredHost.objects.create(host=HOST, confirmed=3, note="spam")
    hosts.block_host(HOST, now=NOW)
    row = MirroredHost.objects.get()
    assert (row.blocked, row.note, row.confirmed) == (True, "spam", 3)


LIAR = "liar.example:8080"


def stored(name: str, step: DedupeStep, gave: str, **fields: str) -> Resource:
    return resource(name, state=UrlState.STORED, step=step, blob_digest=content(gave), due_at=None, **fields)


def test_all_that_rests_on_its_word_is_wanted_again_and_nothing_that_was_downloaded() -> None:
    stored("downloaded", DedupeStep.NEW, "one")
    stored("vouched", DedupeStep.VALIDATORS, "one", vouched_by=LIAR)
    stored("redirects there", DedupeStep.REDIRECT, "one")
    stored("under another key", DedupeStep.KNOWN, "two", vouched_by=LIAR)
    stored("of another", DedupeStep.VALIDATORS, "six", vouched_by="liar.example")
    Validator.objects.create(key="k", host=LIAR, blob_digest=content("one"), seen_at=NOW)

    assert hosts.distrust_host(LIAR, NOW, 1) == 3
    wanted = Resource.objects.filter(state=UrlState.WANTED, blob_digest="", vouched_by=None)
    assert {row.url for row in wanted} == {url(name) for name in ("vouched", "redirects there", "under another key")}
    assert not Validator.objects.exists()
    assert hosts.distrust_host(LIAR, NOW, 1) == 0


def test_of_very_much_workers_distrust_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "ROWS_PER_STATEMENT", 2)
    hosts.record_evidence({LIAR: hosts.HostEvidence()}, NOW)
    for number in range(3):
        stored(f"vouched {number}", DedupeStep.VALIDATORS, "one", vouched_by=LIAR)
        stored(f"redirects there {number}", DedupeStep.REDIRECT, "one")
    Validator.objects.create(key="k", host=LIAR, blob_digest=content("one"), seen_at=NOW)
    monkeypatch.setattr(hosts, "DISTRUST_SECONDS", 0)
    left = Resource.objects.filter(state=UrlState.STORED)

    hosts.record_evidence({LIAR: hosts.HostEvidence(lies=1)}, NOW)
    found = [left.count()]
    while hosts.finish_distrusting(NOW, 0):
        assert left.filter(vouched_by=None).exists() <= left.filter(vouched_by=LIAR).exists()
        found.append(left.count())
    assert found == [4, 3, 1, 0]
    assert not Validator.objects.exists()


def test_of_very_many_validators_workers_forget_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "ROWS_PER_STATEMENT", 2)
    hosts.record_evidence({LIAR: hosts.HostEvidence(lies=1)}, NOW)
    for number in range(5):
        Validator.objects.create(key=str(number), host=LIAR, blob_digest=content("one"), seen_at=NOW)
    hosts.distrust_host(LIAR, NOW, 0)
    assert Validator.objects.count() == 3
    assert hosts.finish_distrusting(NOW, 1) == []
    assert not Validator.objects.exists()


def test_what_was_written_after_a_distrust_had_ended_is_found() -> None:
    hosts.record_evidence({LIAR: hosts.HostEvidence(lies=1)}, NOW)
    stored("vouched", DedupeStep.VALIDATORS, "one", vouched_by=LIAR)
    assert hosts.find_distrusted() == [LIAR]
    assert hosts.finish_distrusting(NOW, 1) == []
    assert Resource.objects.get().state == UrlState.WANTED


def sent(scope: str, *sizes: int, kind: str = "file", outcome: str = "fetched") -> None:
    """The oldest first."""
    fields = {"scope": scope, "kind": kind, "lane": "fast", "seconds": 1, "outcome": outcome}
    FetchTiming.objects.bulk_create(
        FetchTiming(started_at=NOW + timedelta(seconds=number), wire_bytes=size, **fields)
        for number, size in enumerate(sizes)
    )


def lane_of(url: str, host: str = "example.org") -> UrlLane:
    return hosts.choose_lanes([(url, host)])[0]


def test_an_ending_tells_what_is_large() -> None:
    for lane, names in ((UrlLane.LARGE, ("a.mp4", "a.ZIP?x")), (UrlLane.FAST, ("a.jpg", "mp4", "x.mp4/a"))):
        assert {lane_of(f"https://example.org/{name}") for name in names} == {lane}


@pytest.mark.parametrize(
    ("sizes", "lane"),
    [
        ((), UrlLane.FAST),
        ((LARGE_BYTES, LARGE_BYTES), UrlLane.LARGE),
        ((LARGE_BYTES - 1,), UrlLane.FAST),
        ((1, 2 * LARGE_BYTES), UrlLane.LARGE),
        ((100 * LARGE_BYTES, *[1] * SAMPLED_FILES), UrlLane.FAST),
    ],
    ids=["nothing is known", "large", "small", "on average", "of late"],
)
def test_a_name_without_an_ending_waits_as_the_last_files_of_its_host(sizes: tuple[int, ...], lane: UrlLane) -> None:
    sent("example.org", *sizes)
    sent("other.example", 2 * LARGE_BYTES)
    assert lane_of("https://example.org/a") is lane
    assert lane_of("https://example.org/a.jpg") is UrlLane.FAST


@pytest.mark.parametrize("other", [{"kind": "feed"}, {"outcome": "transient"}, {"outcome": "dropped"}])
def test_only_files_that_came_tell_of_others(other: dict[str, str]) -> None:
    sent("example.org", 2 * LARGE_BYTES, **other)
    assert lane_of("https://example.org/a") is UrlLane.FAST


@pytest.mark.parametrize("egress", ["one=127.0.0.1", "one=http://127.0.0.1:3128"])
def test_what_came_by_a_way_out_and_from_another_port_is_known_too(settings: Any, egress: str) -> None:
    settings.FETCH_EGRESS = [egress]
    sent("example.org:8443 via one", LARGE_BYTES)
    assert lane_of("https://example.org:8443/a") is UrlLane.LARGE


def test_a_list_of_very_many_hosts_looks_at_some_of_them(django_assert_num_queries: Any) -> None:
    names = [f"{number}.example.org" for number in range(MAX_HOSTS_AT_ONCE + 1)]
    for host in names:
        sent(host, LARGE_BYTES)
    with django_assert_num_queries(MAX_HOSTS_AT_ONCE):
        found = hosts.choose_lanes([(f"https://{host}/a", host) for host in (*names, *names)])
    assert found == [*[UrlLane.LARGE] * MAX_HOSTS_AT_ONCE, UrlLane.FAST] * 2
    with django_assert_num_queries(0):  # it is remembered
        assert lane_of(f"https://{names[0]}/b", names[0]) is UrlLane.LARGE


def test_what_a_url_gave_tells_where_it_had_better_waited() -> None:
    assert hosts.choose_content_lane("image/png", LARGE_BYTES - 1) is UrlLane.FAST
    assert hosts.choose_content_lane("image/png", LARGE_BYTES) is UrlLane.LARGE
    assert hosts.choose_content_lane("video/mp4", 1) is UrlLane.LARGE
