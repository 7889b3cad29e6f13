"""URLs that a lying host has vouched for are found, wherever it led, and no others."""

import pytest

from resources import database
from resources.mirror import hosts
from resources.mirror.models import DedupeStep, Resource, UrlState, Validator
from tests.support.mirror_rows import NOW, content, resource, url

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]

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
