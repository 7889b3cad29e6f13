"""Mirrors URLs of a local origin in a test: wanted, fed, fetched, settled."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from resources.database import run_then_disconnect
from resources.mirror.canonical.urls import canonicalise_url
from resources.mirror.ingest import feeder, wanted_urls
from resources.mirror.models import Resource
from resources.mirror.url_rules import current_rules

from .fetcher_threads import WAIT_SECONDS

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def in_a_thread(call: Callable[Parameters, Result]) -> Callable[Parameters, Awaitable[Result]]:
    """The same for coroutines. Its thread leaves no connection to the database behind."""

    def run(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        return run_then_disconnect(lambda: call(*arguments, **named))

    return sync_to_async(run)


def digest_of(url: str) -> str:
    return canonicalise_url(url, current_rules()).digest


def report(*urls: str, referer: str = "", asked_by: int = 0) -> list[str]:
    """Inserts rows of unknown URLs as a report does. Returns the digests of the URLs."""
    found = [canonicalise_url(url, current_rules()) for url in urls]
    now = datetime.now(UTC)
    wanted_urls.want_urls(
        [
            wanted_urls.WantedUrl(one.digest, url, one.host, referer, now, asked_by)
            for one, url in zip(found, urls, strict=True)
        ]
    )
    return [one.digest for one in found]


def feed() -> int:
    return feeder.feed_fetchers(datetime.now(UTC))


def open_rows() -> int:
    """The number of waiting URLs, without those that wait for their next attempt."""
    return Resource.objects.filter(state="wanted", attempts=0).count()


def row(url: str) -> Resource:
    return Resource.objects.get(pk=digest_of(url))


async def mirror(*urls: str, referer: str = "") -> None:
    """Reports the URLs, and returns when none of them is wanted, or only later."""
    await in_a_thread(report)(*urls, referer=referer)
    await fed_until(lambda: not open_rows())


async def fed_until(holds: Callable[[], bool]) -> None:
    """Hands over due URLs until something holds."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not await in_a_thread(holds)():
            await in_a_thread(feed)()
            await asyncio.sleep(0.02)
