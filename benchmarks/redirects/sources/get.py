"""get.py CLIENT URL: prints the status and the length of a Python client's answer."""

import asyncio
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from urllib.parse import urlsplit

import aiohttp
import httpx  # type: ignore[import-not-found]  # among the clients only
import requests
import urllib3

PATIENCE_SECONDS = 90

Answer = tuple[int, int]


def with_urllib(url: str) -> Answer:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
            return answer.status, len(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, len(error.read())


def with_requests(url: str) -> Answer:
    answer = requests.get(url, timeout=PATIENCE_SECONDS)
    return answer.status_code, len(answer.content)


def with_urllib3(url: str) -> Answer:
    answer = urllib3.PoolManager().request("GET", url, timeout=PATIENCE_SECONDS)
    return answer.status, len(answer.data)


def with_urllib3_pool(url: str) -> Answer:
    parts = urlsplit(url)
    pool = urllib3.HTTPConnectionPool(parts.hostname or "", parts.port, timeout=PATIENCE_SECONDS)
    answer = pool.request("GET", url)
    return answer.status, len(answer.data)


def with_aiohttp(url: str) -> Answer:
    async def get() -> Answer:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, len(await answer.read())

    return asyncio.run(get())


def with_httpx(url: str) -> Answer:
    answer = httpx.get(url, follow_redirects=True, timeout=PATIENCE_SECONDS)
    return answer.status_code, len(answer.content)


CLIENTS: dict[str, Callable[[str], Answer]] = {
    "urllib": with_urllib,
    "requests": with_requests,
    "urllib3": with_urllib3,
    "urllib3-pool": with_urllib3_pool,
    "aiohttp": with_aiohttp,
    "httpx": with_httpx,
}

if __name__ == "__main__":
    try:
        print(*CLIENTS[sys.argv[1]](sys.argv[2]))
    except Exception as error:  # noqa: BLE001 - any error of a client is its result here
        print(f"error {type(error).__name__}: {error}")
