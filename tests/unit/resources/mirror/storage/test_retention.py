"""Accesses are noted once a day; files without requests are removed, the longest unasked first."""

import io
import os
import time
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from resources import database
from resources.mirror import conf, links, lookup
from resources.mirror.conf import RetentionLimits
from resources.mirror.ingest import writer
from resources.mirror.ingest.url_outcome import FoundContent, SourceUrl
from resources.mirror.models import Blob, DedupeStep, Resource, Validator
from resources.mirror.storage import blobs, retention
from resources.traffic import counter

from ..conftest import LONG_AGO, NOW, URL, Give, Keep, look_up_anew, raising, vouch_for

DAY = timedelta(days=1)

pytestmark = pytest.mark.django_db


@pytest.fixture
def rows(keep: Keep) -> list[Blob]:
    """Blobs of 100 bytes that were asked for 1, 2, 3 and 4 days ago; the oldest is pinned."""
    made = [keep(bytes([day]) * 100, accessed_at=NOW - day * DAY, pinned=day == 4) for day in range(1, 5)]
    for row in made:
        aged(row, DAY)
    return made


def aged(row: Blob, age: timedelta) -> None:
    """Its bytes were kept so long ago."""
    moment = time.time() - age.total_seconds()
    os.utime(blobs.local_path(row.digest), (moment, moment))


def left() -> set[str]:
    return set(Blob.objects.values_list("digest", flat=True))


@pytest.mark.parametrize(
    ("limits", "gone"),
    [
        pytest.param(RetentionLimits(keep=1.5 * DAY), [1, 2], id="by age"),
        pytest.param(RetentionLimits(max_bytes=350), [2], id="by size, the longest without requests first"),
        pytest.param(RetentionLimits(max_bytes=400, keep=9 * DAY), [], id="all fit"),
        pytest.param(RetentionLimits(max_bytes=0), [0, 1, 2], id="pinned ones stay"),
    ],
)
def test_limits_decide_which_go(rows: list[Blob], limits: RetentionLimits, gone: list[int]) -> None:
    assert retention.prune_blobs(limits, NOW) == (len(gone), 100 * len(gone))
    assert left() == {row.digest for place, row in enumerate(rows) if place not in gone}
    assert [not blobs.local_path(row.digest).exists() for row in rows] == [place in gone for place in range(4)]


def test_their_urls_are_as_if_they_had_never_been_seen(rows: list[Blob], give: Give) -> None:
    row = give(rows[1])
    Validator.objects.create(key="k", host="h", blob_digest=rows[1].digest, seen_at=NOW)
    assert lookup.look_up_urls([row.url_digest])
    retention.prune_blobs(RetentionLimits(keep=1.5 * DAY), NOW)
    assert not look_up_anew(row.url_digest)
    assert not Resource.objects.exists()
    assert not Validator.objects.exists()


def test_in_batches_it_ends(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PRUNE_BATCH_ROWS", 2)
    for number in range(5):
        keep(bytes([number]), accessed_at=NOW - 9 * DAY)
    assert retention.prune_blobs(RetentionLimits(keep=DAY), NOW) == (5, 5)


@pytest.mark.parametrize("named_by", [Resource, Validator])
def test_very_many_rows_go_a_portion_at_a_time(
    rows: list[Blob], give: Give, monkeypatch: pytest.MonkeyPatch, named_by: type[Resource | Validator]
) -> None:
    monkeypatch.setattr(database, "ROWS_PER_STATEMENT", 2)
    if named_by is Validator:
        vouch_for(rows[2], 5)
    else:
        for number in range(5):
            give(rows[2], f"http://origin.example/{number}.png")
    assert retention.prune_blobs(RetentionLimits(keep=2.5 * DAY), NOW, seconds=0) == (0, 0)
    assert (named_by._default_manager.count(), rows[2].digest in left()) == (3, True)
    assert retention.prune_blobs(RetentionLimits(keep=2.5 * DAY), NOW) == (1, 100)
    assert not named_by._default_manager.exists()


def test_bytes_that_were_kept_just_before_stay_for_the_row_that_is_about_to_be_written(rows: list[Blob]) -> None:
    aged(rows[1], timedelta(minutes=2))
    blobs.keep_blob(bytes([3]) * 100, rows[2].digest)
    assert retention.prune_blobs(RetentionLimits(keep=1.5 * DAY), NOW)[0] == 2
    assert not blobs.local_path(rows[1].digest).exists()
    assert blobs.local_path(rows[2].digest).exists()


def test_a_blob_that_a_url_is_found_to_have_just_now_stays(rows: list[Blob], monkeypatch: pytest.MonkeyPatch) -> None:
    forget = retention.forget_validators
    source = SourceUrl("ab" * 32, "https://example.org/a", "example.org")

    def found_meanwhile(digests: list[str], until: float | None) -> bool:
        writer.flush_outcomes([FoundContent(source, rows[2].digest, NOW, step=DedupeStep.VALIDATORS)], NOW)
        return forget(digests, until)

    with monkeypatch.context() as patched:
        patched.setattr(retention, "forget_validators", found_meanwhile)
        assert retention.prune_blobs(RetentionLimits(keep=1.5 * DAY), NOW) == (1, 100)
    assert rows[2].digest in left()
    assert Resource.objects.get().blob_digest == rows[2].digest


def test_a_dry_run_names_what_would_go_and_removes_nothing(rows: list[Blob]) -> None:
    out = io.StringIO()
    call_command("prune", "--bytes", "250", "--dry-run", stdout=out)
    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines[:-1]] == [rows[2].digest, rows[1].digest]
    assert lines[-1] == "2 files of 200 bytes would go."
    assert len(left()) == 4


@pytest.mark.parametrize("days", ["-1", "x", "nan", "1e30"])
def test_the_command_needs_to_know_what_may_stay(days: str) -> None:
    with pytest.raises(CommandError, match="--days"):
        call_command("prune", f"--days={days}")


def test_the_command_without_options_goes_by_the_settings(rows: list[Blob], settings: Settings) -> None:
    settings.MIRROR_MAX_BYTES = 350
    out = io.StringIO()
    call_command("prune", stdout=out)
    assert out.getvalue().splitlines() == ["0 old rows are gone.", "1 files of 100 bytes are gone."]


def test_settings_are_limits_where_they_are_not_0(settings: pytest.FixtureRequest) -> None:
    assert not conf.retention_limits()
    settings.MIRROR_KEEP_DAYS = 2  # type: ignore[attr-defined]
    assert conf.retention_limits() == RetentionLimits(None, 2 * DAY)


def line(address: str, status: int = 200) -> bytes:
    return f"{NOW.timestamp():.3f} {status} HIT 10 0.000 GET {address}".encode()


def tell(*lines: bytes) -> None:
    tally = counter.tally_lines(b"\n".join(lines), NOW.timestamp(), 3600, counter.name_address)
    counter.note_wanted(tally.noted, NOW)


def test_what_nginx_answers_counts(keep: Keep, give: Give) -> None:
    asked, thumbnail, signed, other, missing = (keep(bytes([number])) for number in range(5))
    give(signed)
    tell(
        line(links.sign_url(URL)),
        line(f"/resources/{asked.digest}"),
        line(f"/resources/{thumbnail.digest}/10x10.webp"),
        line(f"/resources/{missing.digest}", 410),
    )
    for blob, moment in ((asked, NOW), (thumbnail, NOW), (signed, NOW), (other, LONG_AGO), (missing, LONG_AGO)):
        blob.refresh_from_db()
        assert blob.accessed_at == moment


def test_it_is_noted_once_a_day(keep: Keep) -> None:
    blob = keep()
    retention.note_blobs([blob.digest], NOW)
    with CaptureQueriesContext(connection) as queries:
        retention.note_blobs([blob.digest], NOW + timedelta(hours=23))
    assert not queries
    retention.note_blobs([blob.digest], NOW + timedelta(hours=25))
    blob.refresh_from_db()
    assert blob.accessed_at == NOW + timedelta(hours=25)


def test_what_cannot_be_noted_stops_no_count(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(counter, "load_noters", lambda _: {"blob": raising(RuntimeError("away"))})
    tell(line("/resources/" + "ab" * 32))
    assert "could not note" in caplog.text
