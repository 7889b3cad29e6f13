"""Rows that are read with each file: as Django would read them."""

from datetime import UTC, datetime

import pytest

from resources.mirroring.knowing import rows
from resources.mirroring.knowing.models import Blob, Resource

NOW = datetime(2026, 11, 22, 1, 2, 3, 456789, tzinfo=UTC)
DIGEST, OTHER = "a" * 64, "b" * 64

pytestmark = pytest.mark.django_db


def test_a_row_is_what_django_reads() -> None:
    given = Resource(url_digest=DIGEST, url="http://a.example/é", host="a.example", wanted_at=NOW, attempts=3)
    given.save()
    found, expected = rows.resource(DIGEST), Resource.objects.get(pk=DIGEST)
    names = [field.attname for field in Resource._meta.concrete_fields]
    assert found is not None
    assert not found.get_deferred_fields()
    assert {name: getattr(found, name) for name in names} == {name: getattr(expected, name) for name in names}


def test_without_a_row_there_is_none() -> None:
    assert rows.resource(DIGEST) is None


def test_only_what_was_taken_down_is_taken_down() -> None:
    for digest, at in ((DIGEST, NOW), (OTHER, None)):
        Blob.objects.create(
            digest=digest,
            size=1,
            media_type="image/png",
            name=digest,
            holder="here",
            stored_at=NOW,
            accessed_at=NOW,
            taken_down_at=at,
        )
    assert [rows.is_taken_down(digest) for digest in (DIGEST, OTHER, "c" * 64)] == [True, False, False]
