"""Rows are wanted again: files that only a lost machine had, all of them at once, and URLs that failed."""

import io
from importlib import import_module

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command

from resources import database
from resources.mirror import hosts
from resources.mirror.ingest import wanted_urls
from resources.mirror.ingest.wanted_urls import WantedUrl
from resources.mirror.models import Resource, UrlState
from resources.mirror.storage import takedown
from tests.support.mirror_rows import HOUR, NOW, blob, content, resource, url

pytestmark = pytest.mark.django_db


def stored(name: object, gave: object, **fields: str) -> Resource:
    return resource(name, state=UrlState.STORED, due_at=None, blob_digest=content(gave), **fields)


def wanted() -> set[str]:
    return {row.url for row in Resource.objects.filter(state=UrlState.WANTED)}


@pytest.fixture(autouse=True)
def _two_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "ROWS_PER_STATEMENT", 2)
    blob("only there", holder="gone")
    blob("there too", holder="gone")
    blob("uploaded", holder="gone", uploaded_at=NOW)
    blob("down", holder="gone", taken_down_at=NOW)
    blob("here", holder="here")


def test_all_urls_of_its_files_are_wanted_and_no_others() -> None:
    for name in range(3):
        stored(name, "only there")
    stored(3, "there too")
    for other in ("uploaded", "down", "here"):
        stored(other, other)

    out = io.StringIO()
    call_command("refetch", "--machine", "gone", stdout=out)
    assert wanted() == {url(name) for name in range(4)}
    assert out.getvalue() == "2 files: 4 URLs are fetched again.\n"
    kept = Resource.objects.filter(state=UrlState.WANTED, due_at__isnull=False)
    assert {row.blob_digest for row in kept} == {content("only there"), content("there too")}


def test_urls_that_failed_before_this_are_tried_again_except_those_that_no_request_helps() -> None:
    migration = import_module("resources.migrations.0019_nothing_fails_for_ever")
    failures = ("transient", "permanent", "gone", "refused", "blocked", "taken down", "expired")
    for name in failures:
        status = 410 if name == "gone" else None
        resource(name, state=UrlState.FAILED, failure=name, status=status, due_at=None)
    migration.let_failed_urls_be_tried(apps, None)
    due = Resource.objects.exclude(due_at=None).values_list("failure", flat=True)
    assert sorted(due) == ["permanent", "transient"]


def test_blocked_hosts_are_left_out() -> None:
    stored(1, "only there")
    hosts.block_host("images.example.org", now=NOW)
    assert wanted_urls.refetch_held_by("gone", NOW) == (2, 0)


def test_a_machine_that_has_nothing_is_an_error() -> None:
    with pytest.raises(CommandError, match="no file that only typo has"):
        call_command("refetch", "--machine", "typo")


def test_what_is_taken_down_meanwhile_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    row = stored(1, "only there")

    def takes_down(*_: object) -> bool:
        Resource.objects.filter(pk=row.pk).update(state=UrlState.FAILED, failure=takedown.TAKEN_DOWN_FAILURE)
        return False

    monkeypatch.setattr(hosts, "is_host_blocked", takes_down)
    wanted_urls.refetch_urls([row.pk], NOW)
    row.refresh_from_db()
    assert (row.state, row.failure) == (UrlState.FAILED, takedown.TAKEN_DOWN_FAILURE)


@pytest.mark.parametrize("names", [("new", "old"), ("old", "new")])
def test_of_several_spellings_the_one_that_was_not_refused_is_tried(names: tuple[str, str]) -> None:
    far = int(NOW.timestamp()) + 10**7
    signed = {name: f"{url('a')}?Key-Pair-Id=k&Signature={name}&Expires={far}" for name in names}
    failed = {"state": UrlState.FAILED, "failure": "expired", "status": 403, "fetched_at": NOW, "rounds": 1}
    row = resource("a", url=signed["old"], **failed)
    later = NOW + 2 * HOUR
    asked = [WantedUrl(row.pk, signed[name], row.host, None, later) for name in names]
    assert wanted_urls.want_refused_urls(asked, later) == {row.pk}
    assert Resource.objects.get().url == signed["new"]
