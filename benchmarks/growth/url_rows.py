"""`python -m benchmarks.growth.url_rows SIZE...`: CPU seconds of a URL, by how many are known; a line of JSON each.

DATABASE_URL names an empty database, which is filled, CACHE_URL and REDIS_URL an empty Redis.
"""

import json
import random
import sys
import time
from datetime import UTC, datetime
from hashlib import sha256
from statistics import median

import django

django.setup(set_prefix=False)

from django.core.management import call_command  # noqa: E402

from resources.mirror import lookup  # noqa: E402
from resources.mirror.ingest import writer  # noqa: E402
from resources.mirror.ingest.url_outcome import FoundContent, SourceUrl  # noqa: E402
from resources.mirror.models import Blob, DedupeStep, Resource, UrlState  # noqa: E402

NOW = datetime(2026, 11, 1, tzinfo=UTC)
TIMED = 1_000
"""URLs that are stored or looked up in one measurement."""
HALF = 2
ROUNDS = 7


def main(sizes: list[int]) -> None:
    call_command("migrate", verbosity=0)
    known = 0
    for size in sizes:
        timed = min(TIMED, (size - known) // HALF)
        _fill(known, size - timed)
        stored = _store(size - timed, size)
        known = size
        asked = min(TIMED, size // 2)
        keys = [_source(number).url_digest for number in random.sample(range(size), 2 * asked)]
        lookup.look_up_urls(keys[asked:])  # Redis knows these from now on
        rounds = [_round(keys[:asked], keys[asked:]) for _ in range(ROUNDS)]
        database, redis = (median(each) for each in zip(*rounds, strict=True))
        print(json.dumps({"stored": stored, "database": database, "redis": redis}), flush=True)


def _fill(first: int, end: int) -> None:
    """Rows as they are of URLs that were stored, all at once."""
    found = [_found(number) for number in range(first, end)]
    given = {"media_type": "image/jpeg", "stored_at": NOW, "uploaded_at": NOW, "accessed_at": NOW}
    Blob.objects.bulk_create((Blob(digest=one.blob_digest, size=1, **given) for one in found), batch_size=1000)
    settled = {"state": UrlState.STORED, "step": DedupeStep.NEW, "wanted_at": NOW, "fetched_at": NOW}
    rows = (
        Resource(
            url_digest=one.source.url_digest,
            url=one.source.url,
            host=one.source.host,
            blob_digest=one.blob_digest,
            **settled,
        )
        for one in found
    )
    Resource.objects.bulk_create(rows, batch_size=1000)


def _store(first: int, end: int) -> float:
    """Seconds of one, written as the site does it."""
    found = [_found(number) for number in range(first, end)]
    began = time.process_time()
    for start in range(0, len(found), writer.MAX_BATCH_OUTCOMES):
        writer.flush_outcomes(found[start : start + writer.MAX_BATCH_OUTCOMES], NOW)
    return (time.process_time() - began) / len(found)


def _round(unknown: list[str], known: list[str]) -> tuple[float, float]:
    """Seconds of one that Redis does not know, and of one that it knows."""
    lookup.forget_statuses(unknown)
    return _looked_up(unknown), _looked_up(known)


def _looked_up(keys: list[str]) -> float:
    """Seconds of one, all in one list."""
    began = time.process_time()
    assert len(lookup.look_up_urls(keys)) == len(keys)
    return (time.process_time() - began) / len(keys)


def _source(number: int) -> SourceUrl:
    host = f"{number % 200}.example"
    url = f"https://{host}/{number}.jpg"
    return SourceUrl(sha256(url.encode()).hexdigest(), url, host)


def _found(number: int) -> FoundContent:
    digest = sha256(f"content {number}".encode()).hexdigest()
    contents = Blob(digest=digest, size=1, media_type="image/jpeg", name=f"mirror/{digest[:2]}/{digest}")
    return FoundContent(_source(number), digest, NOW, contents, status=200)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]])
