"""From a reported URL to a stored file, with a real Redis, a fetcher and a real origin."""

import errno
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from multidict import CIMultiDict
from pytest_django import Settings

from resources.fetch.http.messages import Body, Fetched, FetchRequest, Head, OutcomeTiming
from resources.mirror import hosts, lookup, stats
from resources.mirror.canonical.urls import canonicalise_url
from resources.mirror.ingest import settlement, wanted_urls, writer
from resources.mirror.ingest.fetch_task import InFlight, MirrorTask
from resources.mirror.ingest.settlement import FetchTarget
from resources.mirror.ingest.url_outcome import FoundContent, SourceUrl
from resources.mirror.ingest.wanted_urls import WantedUrl
from resources.mirror.models import Blob, MirroredHost, Resource, Tally, UrlState
from resources.mirror.storage import blobs, takedown
from resources.mirror.url_rules import current_rules
from retry.errors import PreparationError
from retry.work import Argument
from tests.conftest import RedisServers
from tests.hostile.origin import Origin, answer, redirect
from tests.support.engine_runs import in_turn, leftovers
from tests.support.mirror_runs import digest_of, open_rows, report, row

from ..conftest import Give, Keep, raising
from .conftest import MirroredOrigin, mirrored_origin

pytestmark = pytest.mark.usefixtures("mirroring")


def marks(servers: RedisServers) -> list[bytes]:
    """The keys of work left in `state`, without the queue of the workers, which no worker takes from here."""
    return [key for key in leftovers(servers) if not key.startswith((b"_kombu", b"work"))]


def test_a_reported_url_becomes_a_blob_and_leaves_no_mark(mirroring: RedisServers) -> None:
    with mirrored_origin() as origin:
        origin.mirror(origin.does("/a.txt", answer(body=b"text")))
        assert origin.targets == ["/a.txt"]
    [blob] = Blob.objects.all()
    assert (blob.size, blob.media_type.partition(";")[0]) == (4, "text/plain")
    [found] = Resource.objects.all()
    assert (found.state, found.step, found.blob_digest) == ("stored", "new", blob.digest)
    assert lookup.look_up_urls([found.pk])[found.pk].blob_digest == blob.digest
    assert marks(mirroring) == []


def test_a_url_is_asked_for_as_it_was_reported_and_not_again_in_another_spelling() -> None:
    with mirrored_origin() as origin:
        url = f"{origin.does('/a', answer(body=b'text'))}?b=2&a=1"
        origin.mirror(f"{url}&utm_source=news", referer="https://example.org/page")
        origin.mirror(url, f"{url}&utm_source=news")
        [asked] = origin.asked
        assert asked.target == "/a?b=2&a=1&utm_source=news"
        assert asked.fields["referer"] == "https://example.org/page"
    assert Resource.objects.count() == 1


def test_urls_that_were_met_on_the_way_are_known_and_no_redirect_to_them_is_followed() -> None:
    with mirrored_origin() as origin:
        final = origin.does("/c", answer(body=b"text"))
        origin.does("/b", redirect("/c"))
        first = origin.does("/a", redirect("/b", "301 Moved Permanently"))
        origin.mirror(first)
        origin.mirror(origin.url("/b"), final)
        assert origin.targets == ["/a", "/b", "/c"]
        assert row(first).moved_to == final
        origin.mirror(origin.does("/d", redirect("/c")))
        assert origin.targets[3:] == ["/d"]
        found = row(origin.url("/d"))
        assert (found.state, found.step, found.moved_to) == ("stored", "redirect", final)
    assert set(Resource.objects.values_list("state", flat=True)) == {"stored"}
    assert Resource.objects.count() == 4


def test_who_waits_is_told_of_no_address_of_a_private_network() -> None:
    url = "https://images.example.org/a.png"
    digest = canonicalise_url(url, current_rules()).digest
    why = {"state": UrlState.FAILED, "failure": "refused", "detail": "10.1.2.3 is in a private network"}
    Resource.objects.create(url_digest=digest, url=url, host="images.example.org", wanted_at=datetime.now(UTC), **why)
    with pytest.raises(PreparationError, match="does not fetch from"):
        MirrorTask().fetch(url, digest)


def test_what_fails_for_a_while_is_tried_again_when_it_is_due(settings: Settings) -> None:
    settings.MIRROR_RETRY_SECONDS = 1

    with mirrored_origin() as origin:
        url = origin.does("/a", in_turn(answer("500 Internal Server Error"), answer(body=b"text")))
        origin.mirror(url)
        origin.feed_until(lambda: row(url).state == "stored")
        assert origin.targets == ["/a", "/a"]


def test_a_blocked_host_is_asked_for_nothing_whoever_leads_there() -> None:
    hosts.block_host("127.0.0.2", now=datetime.now(UTC))
    with mirrored_origin(other := Origin("127.0.0.2")) as origin:
        origin.mirror(origin.does("/a", redirect(other.does("/b", answer(body=b"text")))), other.url("/c"))
        assert origin.targets == ["/a"]
        assert other.targets == []
    assert set(Resource.objects.values_list("state", "failure")) == {("failed", "blocked")}
    assert not Blob.objects.exists()


def test_what_was_taken_down_does_not_come_back_by_a_redirect_or_another_url() -> None:
    with mirrored_origin() as origin:
        url = origin.does("/v", in_turn(answer(body=b"text"), answer(body=b"text, packed otherwise")))
        origin.mirror(url)
        takedown.take_down_blob(row(url).blob_digest)
        origin.mirror(origin.does("/a", redirect("/v")), origin.does("/b", answer(body=b"text")))
        assert sorted(origin.targets) == ["/a", "/b", "/v"]
        for path in ("/v", "/a", "/b"):
            found = row(origin.url(path))
            assert (found.state, found.failure) == ("failed", "taken down")


def claims_end(origin: MirroredOrigin, servers: RedisServers) -> None:
    """Waits for the ends of the works: rows are written before."""
    origin.feed_until(lambda: not [key for key in marks(servers) if b"claim" in key])


def test_a_url_is_fetched_again_by_its_own_validators_unless_its_file_is_nowhere(mirroring: RedisServers) -> None:
    with mirrored_origin() as origin:
        first = answer("200 OK", 'ETag: "one"', body=b"text")
        there, nowhere = (
            origin.does("/a", in_turn(first, answer("304 Not Modified"))),
            origin.does("/b", answer("200 OK", 'ETag: "two"', body=b"b")),
        )
        origin.mirror(there, nowhere)
        path = blobs.local_path(row(nowhere).blob_digest)
        path.unlink()
        digests = [digest_of(url) for url in (there, nowhere)]
        claims_end(origin, mirroring)
        wanted_urls.refetch_urls(digests, datetime.now(UTC))
        origin.feed_until(lambda: not open_rows())
        again = {one.target: one.fields.get("if-none-match") for one in origin.asked[2:]}
        assert again == {"/a": '"one"', "/b": None}
        found = row(there)
        assert (found.state, found.step, found.etag) == ("stored", "unchanged", '"one"')
        assert path.read_bytes() == b"b"


def requested_later(origin: MirroredOrigin, servers: RedisServers, url: str) -> None:
    """Requests the URL when its work has ended, it is due, and no failure is in force; returns when it is fetched."""
    claims_end(origin, servers)
    for key in servers.state.client.scan_iter("retry:{0}:failure:*"):
        servers.state.client.delete(key)
    now = datetime.now(UTC)
    Resource.objects.filter(pk=digest_of(url)).update(due_at=now)
    assert wanted_urls.want_due_urls([WantedUrl(digest_of(url), url, "127.0.0.1", None, now)], now) == 1
    origin.feed_until(lambda: not open_rows())


def test_each_failed_round_is_counted_until_the_url_gives_something(
    mirroring: RedisServers, settings: Settings
) -> None:
    settings.MIRROR_ATTEMPTS = 1
    with mirrored_origin() as origin:
        failing = answer("500 Internal Server Error")
        url = origin.does("/a", in_turn(failing, failing, answer(body=b"text")))
        origin.mirror(url)
        for rounds, hours in ((1, 1), (2, 6)):
            found = row(url)
            assert found.fetched_at
            assert (found.state, found.rounds) == ("failed", rounds)
            assert found.due_at == found.fetched_at + timedelta(hours=hours)
            assert lookup.look_up_urls([found.pk])[found.pk].due_at
            requested_later(origin, mirroring, url)
        assert (row(url).state, row(url).rounds) == ("stored", 0)


def test_new_content_is_a_new_blob_and_errors_keep_the_stored_one(mirroring: RedisServers, settings: Settings) -> None:
    settings.MIRROR_RECHECK, settings.MIRROR_ATTEMPTS = True, 1
    with mirrored_origin() as origin:
        first = answer("200 OK", 'ETag: "one"', "Cache-Control: max-age=3600", body=b"first")
        same = answer("304 Not Modified", "Cache-Control: max-age=7200")
        missing, second = answer("404 Not Found"), answer("200 OK", 'ETag: "two"', body=b"second")
        url = origin.does("/a", in_turn(first, same, missing, second))
        origin.mirror(url)
        before, found = row(url).blob_digest, []
        for _ in range(3):
            requested_later(origin, mirroring, url)
            one = row(url)
            assert one.due_at
            assert one.fetched_at
            found.append((one.state, one.blob_digest == before, round((one.due_at - one.fetched_at).total_seconds())))
        assert found == [("stored", True, 7200), ("stored", True, 86_400), ("stored", False, 86_400)]
        assert [one.fields.get("if-none-match") for one in origin.asked] == [None, '"one"', '"one"', '"one"']
    stats.flush_tallies()
    assert dict(Tally.objects.values_list("step", "number")) == {"new": 2, "unchanged": 1, "failed": 1, "body": 2}
    assert Blob.objects.filter(pk=before).exists()


def test_a_check_follows_a_redirect_to_content_that_may_have_changed_too(
    mirroring: RedisServers, settings: Settings
) -> None:
    settings.MIRROR_RECHECK = True
    with mirrored_origin() as origin:
        first, second = (answer(body=body) for body in (b"first", b"second"))
        origin.does("/to", in_turn(first, second))
        url = origin.does("/a", redirect("/to"))
        origin.mirror(url)
        requested_later(origin, mirroring, url)
        assert origin.targets == ["/a", "/to", "/a"]
        Resource.objects.update(due_at=datetime.now(UTC))
        requested_later(origin, mirroring, url)
        assert origin.targets[3:] == ["/a", "/to"]
        assert Blob.objects.get(pk=row(url).blob_digest).size == len(b"second")


def test_a_url_that_was_stored_meanwhile_is_not_requested(keep: Keep, give: Give) -> None:
    row = give(keep(b"text"), "https://example.org/a")
    ended = MirrorTask().fetch(row.url, row.pk)
    assert isinstance(ended, dict)
    assert [content.body.decode() for content in ended.values()] == [row.blob_digest]


def test_a_url_whose_row_points_at_nothing_is_asked_for_by_whoever_wants_it_next() -> None:
    [digest] = report("https://example.org/a")
    Resource.objects.update(state=UrlState.STORED, blob_digest="ab" * 32, etag='"one"')
    asked = MirrorTask().fetch("https://example.org/a", digest)
    assert isinstance(asked, FetchRequest)
    assert (asked.url, asked.etag) == ("https://example.org/a", None)
    [found] = Resource.objects.all()
    assert (found.state, found.blob_digest) == (UrlState.WANTED, "")


def test_a_redirect_to_another_spelling_of_the_url_itself_says_nothing_of_its_content() -> None:
    [digest] = report("https://example.org/a")
    source = SourceUrl(digest, "https://example.org/a", "example.org")
    contents = Blob(digest="ab" * 32, size=4, media_type="text/plain")
    now = datetime.now(UTC)
    writer.flush_outcomes([FoundContent(source, contents.digest, now, contents=contents)], now)
    blobs.keep_blob(b"text", contents.digest)
    url = "https://example.org/a?utm_source=x"
    found = settlement.find_row_of_redirect(url, replace(source, url_digest="cd" * 32))
    assert found
    assert found.blob_digest == contents.digest
    assert settlement.find_row_of_redirect(url, source) is None


def test_a_check_follows_a_redirect_to_a_host_that_is_not_checked(keep: Keep, give: Give) -> None:
    target = give(keep(b"text"), "https://elsewhere.example/to")
    MirroredHost.objects.create(host="checked.example", recheck=True)
    [asked] = report("https://checked.example/a")
    [other] = report("https://other.example/a")
    task = MirrorTask()
    for due_at, is_stopped in ((None, False), (datetime.now(UTC) + timedelta(hours=1), True)):
        Resource.objects.filter(pk=target.pk).update(due_at=due_at)
        assert task.stops_before(target.url, "https://checked.example/a", asked) is is_stopped
        assert task.stops_before(target.url, "https://other.example/a", other)


def test_a_redirect_to_known_content_is_checked_no_later_than_that_content(
    mirroring: RedisServers, settings: Settings
) -> None:
    settings.MIRROR_RECHECK = True
    with mirrored_origin() as origin:
        target = origin.does("/to", answer("200 OK", "Cache-Control: max-age=600", body=b"text"))
        url = origin.does("/a", redirect("/to"))
        origin.mirror(target)
        origin.mirror(url)
        assert origin.targets == ["/to", "/a"]
        assert row(url).due_at == row(target).due_at


def test_the_rows_that_a_fetch_writes_have_the_token_of_its_claim(mirroring: RedisServers) -> None:
    with mirrored_origin() as origin:
        origin.does("/b", answer(body=b"text"))
        origin.mirror(origin.does("/a", redirect("/b")))
    token = int(mirroring.state.client.get("retry:{0}:token") or 0)
    assert list(Resource.objects.values_list("token", flat=True)) == [token, token]


def test_many_urls_are_planned_with_few_queries_as_each_alone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MIRROR_KNOWN_SECONDS = 60
    monkeypatch.setattr(hosts, "_known_hosts", hosts.FactMemory())
    monkeypatch.setattr(hosts, "_choices", hosts.FactMemory())
    urls = [f"https://{number % 4}.example.org/{number}" for number in range(40)]
    digests = report(*urls)
    hosts.block_host("3.example.org", now=datetime.now(UTC))
    Resource.objects.filter(pk=digests[0]).update(state=UrlState.FAILED, failure="permanent", detail="answered 404")
    task = MirrorTask()
    hosts.find_blocked_hosts()
    calls: list[tuple[tuple[Argument, ...], int]] = [
        ((url, digest), 7) for url, digest in zip(urls, digests, strict=True) if not url.startswith("https://3.")
    ]
    with CaptureQueriesContext(connection) as asked:
        plans = task.fetch_many([*calls, (("https:///no host", "ab" * 32), 7)])
    assert len(asked) == 2
    first, *others, last = plans
    assert isinstance(first, PreparationError)
    assert isinstance(last, PreparationError)
    assert [plan.url for plan in others if isinstance(plan, FetchRequest)] == [str(one[0]) for one, _ in calls[1:]]
    blocked = task.fetch_many([((urls[3], digests[3]), 7)])
    assert [type(plan) for plan in blocked] == [PreparationError]


def test_a_body_that_the_disk_refuses_is_fetched_again(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    settings.MIRROR_RETRY_SECONDS = 1
    full = OSError(errno.ENOSPC, "No space left on device")
    with mirrored_origin() as origin:
        url = origin.does("/a", answer(body=b"text"))
        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", raising(full))
            report(url)
            origin.feed_until(lambda: len(origin.targets) == 1)
            task, [digest] = MirrorTask(), report(url)
            task.fetch(url, digest)
            head = Head(200, url, CIMultiDict())
            body = Body(4, sha256(b"text").hexdigest(), data=b"text")
            handed = task.hand_over(Fetched(head, body, OutcomeTiming(0, 0)), url, digest)
            assert handed
            error = handed.exception(10)
        assert isinstance(error, PreparationError)
        assert (error.status, error.retry_seconds) == (503, settlement.REPEAT_SECONDS)
    assert row(url).state == "wanted"
    assert not Blob.objects.exists()


def test_the_oldest_makes_room() -> None:
    asked = InFlight(most=2)
    for name in ("a", "b", "a", "c"):
        asked.note(("url", name), FetchTarget(SourceUrl(name, f"http://a.example/{name}", "a.example"), None))
    assert [asked.take(("url", name)) is None for name in ("a", "b", "c")] == [False, True, False]
