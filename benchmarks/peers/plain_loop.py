"""`python -m benchmarks.peers.plain_loop`: the work of a fetcher, in the plainest way.

In a site's environment, a loop of aiohttp takes URLs from a Redis list, gets them, stores each body in the site's cache
and writes a timing of each to the site's database, in batches. It has no turns, checks no address, and a kill loses the
pages in hand. Each line of its input is a JSON list of URLs; each line of its output is the result.
"""

import asyncio
import json
import sys
import time
from datetime import UTC, datetime
from hashlib import sha256

import aiohttp
import django
import redis.asyncio

django.setup(set_prefix=False)

from resources.fetch.models import FetchTiming  # noqa: E402
from resources.fetch.timings import WRITE_BATCH_RECORDS  # noqa: E402
from retry.conf import conf  # noqa: E402

from ..load.event_loop import run  # noqa: E402

AT_ONCE = 100
"""A fetcher's places."""
KEPT_SECONDS = 7200
LIST = "benchmark:urls"


class Loop:
    """One round of it."""

    def __init__(self, state: "redis.asyncio.Redis", cache: "redis.asyncio.Redis", session: aiohttp.ClientSession):
        self._state = state
        self._cache = cache
        self._session = session
        self._rows: list[FetchTiming] = []

    async def work(self) -> None:
        """Takes URLs until there are none."""
        while url := await self._state.lpop(LIST):
            await self._page(url.decode())  # type: ignore[union-attr]

    async def _page(self, url: str) -> None:
        started_at, began = datetime.now(UTC), time.monotonic()
        async with self._session.get(url) as response:
            head_seconds = time.monotonic() - began
            body = await response.read()
        await self._cache.set(f"benchmark:{url}", body, ex=KEPT_SECONDS)
        host = response.url.authority
        self._rows.append(
            FetchTiming(
                started_at=started_at,
                url_digest=sha256(url.encode()).hexdigest(),
                host=host,
                scope=host,
                kind="file",
                lane="fast",
                head_seconds=head_seconds,
                seconds=time.monotonic() - began,
                wire_bytes=len(body),
                outcome="fetched",
                status=response.status,
            )
        )
        if len(self._rows) >= WRITE_BATCH_RECORDS:
            await self.write()

    async def write(self) -> None:
        rows, self._rows = self._rows, []
        await asyncio.to_thread(FetchTiming.objects.bulk_create, rows)


async def _round(urls: list[str]) -> dict[str, float]:
    """Seconds, of the clock and of this process's CPU, for all of them."""
    state, cache = (redis.asyncio.Redis.from_url(url) for url in (conf().REDIS_URL, conf().CACHE_URL))
    async with state, cache, aiohttp.ClientSession() as session:
        await state.rpush(LIST, *urls)
        loop = Loop(state, cache, session)
        began, used = time.perf_counter(), time.process_time()
        await asyncio.gather(*(loop.work() for _ in range(AT_ONCE)))
        await loop.write()
        return {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - used}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(run(_round(json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
