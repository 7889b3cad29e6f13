"""The day of a file's last request, from the front's log."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from resources.mirror import links
from resources.mirror.storage import retention
from resources.traffic import counter

from ..conftest import LONG_AGO, NOW, URL, Give, Keep

pytestmark = pytest.mark.django_db


def line(address: str, status: int = 200) -> bytes:
    return f"{NOW.timestamp():.3f} {status} HIT 10 0.000 GET {address}".encode()


def tell(*lines: bytes) -> None:
    tally = counter.tally_lines(b"\n".join(lines), NOW.timestamp(), 3600, counter.name_address)
    counter.note_wanted(tally.noted, NOW)


def test_what_nginx_answers_counts(keep: Keep) -> None:
    asked, thumbnail, other, missing = (keep(bytes([number])) for number in range(4))
    tell(
        line(f"/resources/{asked.digest}"),
        line(f"/resources/{thumbnail.digest}/10x10.webp"),
        line(f"/resources/{missing.digest}", 410),
    )
    for blob, moment in ((asked, NOW), (thumbnail, NOW), (other, LONG_AGO), (missing, LONG_AGO)):
        blob.refresh_from_db()
        assert blob.accessed_at == moment


def test_a_signed_url_counts_for_what_it_gave(keep: Keep, give: Give) -> None:
    blob = keep()
    give(blob)
    tell(line(links.sign_url(URL)))
    blob.refresh_from_db()
    assert blob.accessed_at == NOW


def test_it_is_noted_once_a_day(keep: Keep) -> None:
    blob = keep()
    retention.note_blobs([blob.digest], NOW)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        retention.note_blobs([blob.digest], NOW + timedelta(hours=23))
    assert not queries
    retention.note_blobs([blob.digest], NOW + timedelta(hours=25))
    blob.refresh_from_db()
    assert blob.accessed_at == NOW + timedelta(hours=25)


def test_what_cannot_be_noted_stops_no_count(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("away")

    monkeypatch.setattr(counter, "load_noters", lambda _: {"blob": fail})
    tell(line("/resources/" + "ab" * 32))
    assert "could not note" in caplog.text
