"""What is written ends right, whatever else is written at the same moment."""

from datetime import UTC, datetime
from typing import Any

import pytest

from resources.mirroring.knowing import seen
from resources.mirroring.knowing.found import Contents, Found, Source
from resources.mirroring.knowing.models import Blob, Resource, State
from resources.mirroring.storing.taking_down import FAILURE, take_down
from resources.mirroring.writing import flushing

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BLOB, URL, ALIAS = "ab" * 32, "cd" * 32, "ef" * 32


@pytest.mark.parametrize("step", ["_write_blobs", "_with_steps", "_upsert", "_write_validators", "_tell"])
def test_a_file_that_is_taken_down_while_its_urls_are_written_leaves_none_of_them_stored(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write = getattr(flushing, step)

    def taken_down_then(*arguments: Any) -> Any:
        written = write(*arguments)
        take_down(BLOB)
        return written

    monkeypatch.setattr(flushing, step, taken_down_then)
    contents = Contents(BLOB, 4, "text/plain", None, None, "mirror/a")
    source = Source(URL, "https://example.org/a", "example.org")
    alias = Source(ALIAS, "https://example.org/b", "example.org")
    flushing.flush([Found(source, BLOB, NOW, contents=contents, aliases=(alias,))], NOW)

    assert Blob.objects.get().taken_down_at is not None
    rows = Resource.objects.values_list("pk", "state", "failure", "due_at")
    assert set(rows) <= {(one, State.FAILED, FAILURE, None) for one in (URL, ALIAS)}
    seen.forget_all_here()
    known = seen.look_up([URL, ALIAS])
    assert known[URL].failure == FAILURE
    assert {one.state for one in known.values()} == {State.FAILED}
