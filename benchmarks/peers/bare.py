"""A bare asynchronous downloader, without domains, retries and deduplication: it stores each body."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import local

import aiohttp

THREADS = 16
"""As many as a fetcher has for blocking calls."""
_own = local()
_TABLE = "CREATE TABLE files (url TEXT PRIMARY KEY, digest TEXT, size INTEGER)"


@dataclass(frozen=True, slots=True)
class Store:
    """Files by their digests, and where it is durable, a row each: the file is on the disk before its row is written.

    Its database is as the site's: SQLite with a write-ahead log, `synchronous=NORMAL`.
    """

    directory: Path
    is_durable: bool

    def open(self) -> None:
        self.directory.mkdir()
        with closing(self._connected()) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute(_TABLE)

    def keep(self, url: str, body: bytes) -> None:
        """Blocks until it is stored."""
        digest = sha256(body).hexdigest()
        path = self.directory / digest
        path.write_bytes(body)
        if self.is_durable:
            _sync(path)
            _sync(self.directory)
            self._note(url, digest, len(body))

    def _note(self, *row: str | int) -> None:
        """By a connection that stays, one for each thread."""
        if getattr(_own, "directory", None) != self.directory:
            _own.directory, _own.database = self.directory, self._connected()
        with _own.database as database:
            database.execute("INSERT INTO files VALUES (?, ?, ?)", row)

    def _connected(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.directory / "rows", timeout=30)
        database.execute("PRAGMA synchronous=NORMAL")
        return database


async def download(urls: Sequence[str], at_once: int, store: Store) -> float:
    """Files a second."""
    store.open()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    left = iter(urls)
    async with aiohttp.ClientSession() as session:

        async def work() -> None:
            for url in left:
                async with session.get(url) as response:
                    body = await response.read()
                await asyncio.to_thread(store.keep, url, body)

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(at_once)))
        return len(urls) / (time.perf_counter() - began)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
