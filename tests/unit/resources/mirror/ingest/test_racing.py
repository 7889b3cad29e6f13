"""Two processes store the same content at the same moment: real processes, real files, a real database."""

import multiprocessing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from multiprocessing.synchronize import Barrier

import pytest
from django.db import connections

from resources.mirror.ingest.url_outcome import FoundContent, SourceUrl, StoredBytes
from resources.mirror.ingest.writer import OutcomeWriter
from resources.mirror.models import Blob, DedupeStep, Resource, UrlState
from resources.mirror.storage import blobs

PROCESSES, CONTENTS = 2, 15
PATIENCE_SECONDS = 60
AT = datetime(2026, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.usefixtures("mirroring")


def body_of(number: int) -> bytes:
    return f"content {number}\n".encode() * 10_000


def digest_of(number: int) -> str:
    return sha256(body_of(number)).hexdigest()


def store_all(process: int, together: Barrier) -> None:
    """Keeps the bytes and writes the rows of each content, always with the other process, a microsecond apart."""
    writer = OutcomeWriter()
    for number in range(CONTENTS):
        url = f"https://example.org/{process}/{number}"
        digest, size = digest_of(number), len(body_of(number))
        together.wait(PATIENCE_SECONDS)
        name = blobs.keep_blob(body_of(number), digest)
        contents = StoredBytes(digest, size, "text/plain", None, None, name)
        source = SourceUrl(sha256(url.encode()).hexdigest(), url, "example.org")
        writer.write(FoundContent(source, digest, AT + timedelta(microseconds=process), contents=contents))
    writer.join()


def test_it_is_stored_once_and_is_new_for_one_of_them() -> None:
    context = multiprocessing.get_context("fork")
    together = context.Barrier(PROCESSES)
    connections.close_all()  # no connection is shared
    storing = [context.Process(target=store_all, args=(number, together)) for number in range(PROCESSES)]
    for process in storing:
        process.start()
    for process in storing:
        process.join(PATIENCE_SECONDS)
    assert [process.exitcode for process in storing] == [0] * PROCESSES

    digests = [digest_of(number) for number in range(CONTENTS)]
    assert set(Blob.objects.values_list("digest", flat=True)) == set(digests)
    for number, digest in enumerate(digests):
        path = blobs.local_path(digest)
        assert path.read_bytes() == body_of(number)
        assert [entry.name for entry in path.parent.iterdir()] == [digest]
        steps = Resource.objects.filter(blob_digest=digest, state=UrlState.STORED).values_list("step", flat=True)
        assert sorted(steps) == [DedupeStep.CONTENT, DedupeStep.NEW]
