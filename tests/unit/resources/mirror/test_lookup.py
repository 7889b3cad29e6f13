"""Rows that are read with each file."""

from datetime import UTC, datetime

import pytest

from resources.mirror import lookup
from resources.mirror.models import Blob

NOW = datetime(2026, 11, 22, 1, 2, 3, 456789, tzinfo=UTC)
DIGEST, OTHER = "a" * 64, "b" * 64

pytestmark = pytest.mark.django_db


def test_without_a_row_there_is_none() -> None:
    assert lookup.find_resource(DIGEST) is None


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
    assert [lookup.is_blob_taken_down(digest) for digest in (DIGEST, OTHER, "c" * 64)] == [True, False, False]
