"""`python -m benchmarks.growth.table_rows SIZE`: bytes of a row in PostgreSQL; a line of JSON.

DATABASE_URL names an empty database of PostgreSQL, which is filled. Prints, by table, the bytes of a row and of its
entries in indexes.
"""

import json
import random
import sys
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import django

django.setup(set_prefix=False)

from django.core.management import call_command  # noqa: E402
from django.db import connection, models  # noqa: E402

from feeds import words  # noqa: E402
from feeds.models import Entry, Feed  # noqa: E402
from resources.fetch.models import FetchTiming  # noqa: E402
from resources.mirror.models import Blob, DedupeStep, Resource, UrlState  # noqa: E402

NOW = datetime(2026, 11, 1, tzinfo=UTC)
URL_CHARACTERS = 75
TEXT_CHARACTERS = 1_000
HOSTS = 1_000
ENTRIES = 10
"""Of each feed."""
BATCH = 1_000
LETTERS = "abcdefghijklmnopqrstuvwxyz     "


def main(size: int) -> None:
    call_command("migrate", verbosity=0)
    luck = random.Random(1)
    urls = [_url(number) for number in range(size)]
    moments = [NOW + timedelta(seconds=number) for number in range(size)]
    Blob.objects.bulk_create(map(_blob, urls, moments), batch_size=BATCH)
    Resource.objects.bulk_create(map(_resource, urls, moments), batch_size=BATCH)
    FetchTiming.objects.bulk_create(map(_timing, urls, moments), batch_size=BATCH)
    feeds = Feed.objects.bulk_create(map(_feed, urls[: size // ENTRIES], moments), batch_size=BATCH)
    entries = (_entry(feeds[number % len(feeds)], number, moments[number], luck) for number in range(size))
    Entry.objects.bulk_create(entries, batch_size=BATCH)
    print(json.dumps({model.__name__: _bytes(model) for model in (Blob, Resource, FetchTiming, Feed, Entry)}))


def _bytes(model: type[models.Model]) -> tuple[float, float]:
    """Bytes of a row, values stored elsewhere included, and of its entries in all indexes."""
    table, number = model._meta.db_table, model._default_manager.count()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_table_size(%s::regclass), pg_indexes_size(%s::regclass)", [table, table])
        row, indexes = cursor.fetchone()
    return row / number, indexes / number


def _url(number: int) -> str:
    return f"https://www{number % HOSTS:04}.example/{number:08}/".ljust(URL_CHARACTERS, "a")


def _host(url: str) -> str:
    return url.split("/")[2]


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _blob(url: str, moment: datetime) -> Blob:
    digest = _digest(f"content of {url}")
    name = f"mirror/{digest[:2]}/{digest}"
    at = {"stored_at": moment, "uploaded_at": moment, "accessed_at": moment}
    return Blob(digest=digest, size=50_000, media_type="image/jpeg", name=name, **at)


def _resource(url: str, moment: datetime) -> Resource:
    settled = {"state": UrlState.STORED, "step": DedupeStep.NEW, "wanted_at": moment, "fetched_at": moment}
    known = {"url_digest": _digest(url), "blob_digest": _digest(f"content of {url}"), "status": 200}
    return Resource(url=url, host=_host(url), **known, **settled)


def _timing(url: str, moment: datetime) -> FetchTiming:
    took = {"started_at": moment, "head_seconds": 0.4, "seconds": 0.5, "wire_bytes": 50_000, "status": 200}
    given = {"kind": "file", "lane": "fast", "outcome": "fetched", "host": _host(url), "scope": _host(url)}
    return FetchTiming(url_digest=_digest(url), **given, **took)


def _feed(url: str, moment: datetime) -> Feed:
    fetched = {"fetched_at": moment, "checked_at": moment, "next_check_at": moment, "expected_seconds": 0.5}
    known = {"url": url, "key_digest": _digest(url), "host": _host(url), "title": "The title of a feed"}
    return Feed(slug=_digest(url)[:20], version=1, etag='"0123456789abcdef"', **known, **fetched)


def _entry(feed: Feed, number: int, moment: datetime, luck: random.Random) -> Entry:
    text = "".join(luck.choices(LETTERS, k=TEXT_CHARACTERS))
    mark = f"{number:032}"
    marks = {"identity": mark, "likeness": mark, "content": mark, "dates": mark}
    data = {"title": "The title of an entry", "link": feed.url, "content": text}
    at = {"happened_at": moment, "first_seen_at": moment, "changed_at": moment}
    shown = {"title": data["title"], "link": feed.url, "text": words.fold_text(text), "size": len(text)}
    return Entry(feed=feed, data=data, **marks, **shown, **at)


if __name__ == "__main__":
    main(int(sys.argv[1]))
