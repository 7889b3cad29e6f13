"""The files named in a report's answer are there, after any kill and any outage of a memory."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from resources.mirror import lookup
from resources.mirror.ingest import wanted_urls
from resources.mirror.lookup import UrlStatus
from resources.mirror.models import Blob, Resource, UrlState
from tests.support.mirror_rows import NOW, content, digest_of, resource, store, url
from tests.support.url_lists import report

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]


def remembered(name: str) -> None:
    """A URL as it is remembered after it was stored."""
    lookup.note_statuses({digest_of(url(name)): UrlStatus(UrlState.STORED, content(name))})


def test_what_was_pruned_by_somebody_who_did_not_say_so_is_wanted() -> None:
    remembered("a")
    [decision] = report("a").decisions
    assert (decision.status, decision.blob_digest) == ("accepted", "")
    assert Resource.objects.get().state == UrlState.WANTED
    assert lookup.look_up_urls([digest_of(url("a"))])[digest_of(url("a"))].state is UrlState.WANTED


def test_whether_a_whole_list_is_still_wanted_is_one_query() -> None:
    resource("a")
    resource("b", state=UrlState.FAILED)
    keys = [*(f"{number:064}" for number in range(2000)), digest_of(url("a")), digest_of(url("b"))]
    with CaptureQueriesContext(connection) as queries:
        assert wanted_urls.ended_urls(keys) == [digest_of(url("b"))]
    assert len(queries) == 1


def test_a_row_whose_file_is_gone_is_wanted_again() -> None:
    resource("a")
    store("a")
    Blob.objects.all().delete()
    [decision] = report("a").decisions
    assert decision.status == "accepted"
    row = Resource.objects.get()
    assert (row.state, row.blob_digest) == (UrlState.WANTED, "")


def test_what_was_taken_down_by_somebody_who_was_killed_over_it_has_failed() -> None:
    resource("a")
    store("a")
    Blob.objects.update(taken_down_at=NOW)
    [decision] = report("a").decisions
    assert (decision.status, decision.blob_digest, decision.detail) == ("failed", "", "The file was taken down.")


def test_what_has_another_file_by_now_is_told_of_that() -> None:
    remembered("a")
    resource("a")
    store("a")
    Resource.objects.update(blob_digest=content("b"))
    Blob.objects.update(digest=content("b"))
    [decision] = report("a").decisions
    assert (decision.status, decision.blob_digest) == ("known", content("b"))


def test_what_was_stored_by_somebody_who_did_not_say_so_is_known() -> None:
    resource("a")
    lookup.note_statuses({digest_of(url("a")): UrlStatus(UrlState.WANTED)})
    store("a")
    [decision] = report("a").decisions
    assert (decision.status, decision.blob_digest) == ("known", content("a"))


def test_what_is_there_is_compared_by_one_query_for_all() -> None:
    for number in range(50):
        resource(number)
        store(number)
    with CaptureQueriesContext(connection) as asked:
        found = report(*range(50))
    assert {one.status for one in found.decisions} == {"known"}
    assert len([query for query in asked if "resources_blob" in query["sql"]]) == 1
