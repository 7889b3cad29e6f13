"""Feeds of a local origin, gathered in a test: written, scanned, fetched, stored."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar

from feeds.models import Entry, Feed
from feeds.scan import scanner
from resources.fetch.http.limit_scopes import url_scopes
from retry import stores

from ..hostile.origin import Behaviour, Peer, answer
from .fetcher_threads import WAIT_SECONDS

Entered = TypeVar("Entered")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def subscribe(url: str, slug: str = "", **fields: Any) -> Feed:
    """The row of a feed that was never fetched."""
    digest = sha256(url.encode()).hexdigest()
    known = {"slug": slug or f"f{digest[:12]}", "key_digest": digest, "host": url_scopes(url).host}
    return Feed.objects.create(url=url, **{**known, **fields})


def rss(*titles: str, title: str = "A feed", more: str = "", day: int | None = None) -> bytes:
    """A feed with entries of these titles, an hour apart; their ids are their titles' first words.

    With `day`, all of them were updated so many days after the first entry.
    """
    updated = "" if day is None else f"<a:updated>{(EPOCH + timedelta(days=day)).isoformat()}</a:updated>"
    items = "".join(
        f"<item><guid isPermaLink='false'>{text.split()[0]}</guid><title>{text}</title>{updated}"
        f"<pubDate>{EPOCH + timedelta(hours=place):%a, %d %b %Y %H:%M:%S} GMT</pubDate></item>"
        for place, text in enumerate(titles)
    )
    head = "<rss version='2.0' xmlns:a='http://www.w3.org/2005/Atom'>"
    return f"{head}<channel><title>{title}</title>{more}{items}</channel></rss>".encode()


def feed(body: bytes, *fields: str) -> Behaviour:
    return answer("200 OK", "Content-Type: application/rss+xml", *fields, body=body)


def conditional(body: bytes, etag: str) -> Behaviour:
    """Answers 304 to clients that have it already."""

    async def behave(peer: Peer) -> None:
        if peer.asked.fields.get("if-none-match") == etag:
            await answer("304 Not Modified", f"ETag: {etag}")(peer)
        else:
            await feed(body, f"ETag: {etag}")(peer)

    return behave


def titles() -> list[str]:
    """The titles of all stored entries, sorted."""
    return sorted(Entry.objects.values_list("title", flat=True))


def scan() -> int:
    return scanner.run_scan(datetime.now(UTC))


def due_again(*feeds: Feed) -> None:
    """Their time has come."""
    Feed.objects.filter(pk__in=[one.pk for one in feeds]).update(next_check_at=EPOCH)


def gather(holds: Callable[[], object] = lambda: not in_hand()) -> None:
    """Scans once, and returns when all feeds that it handed over have come back."""
    scan()
    wait_until(holds)


def wait_until(holds: Callable[[], object]) -> None:
    """Returns when something holds that other threads bring about."""
    until = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.01)


def in_hand() -> bool:
    """Tells whether a feed is being fetched, or its claim has not ended: its row tells of the end a moment before."""
    is_handed_over = Feed.objects.filter(handed_over_at__isnull=False).exists()
    return is_handed_over or stores.fast_client("state").zcard("retry:{0}:claims") > 0


@contextmanager
def in_a_loop(enter: Callable[[], AbstractAsyncContextManager[Entered]]) -> Iterator[Entered]:
    """Holds a context open in a thread with an event loop of its own."""
    ready: Future[tuple[Entered, Callable[[], object]]] = Future()

    async def hold() -> None:
        done = asyncio.Event()
        async with enter() as entered:
            ready.set_result((entered, partial(asyncio.get_running_loop().call_soon_threadsafe, done.set)))
            await done.wait()

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(asyncio.run, hold())
        entered, end = ready.result(WAIT_SECONDS)
        try:
            yield entered
        finally:
            end()
            held.result(WAIT_SECONDS)
