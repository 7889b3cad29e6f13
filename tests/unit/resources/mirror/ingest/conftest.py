"""An origin and a fetcher that run while a test mirrors something."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager

from tests.hostile.origin import Origin
from tests.support import mirror_runs
from tests.support.fetcher_threads import fetching


class MirroredOrigin(Origin):
    """Both stand still between its calls."""

    runner: asyncio.Runner

    def mirror(self, *urls: str, referer: str = "") -> None:
        self.runner.run(mirror_runs.mirror(*urls, referer=referer))

    def feed_until(self, holds: Callable[[], bool]) -> None:
        self.runner.run(mirror_runs.fed_until(holds))


@contextmanager
def mirrored_origin(*others: Origin) -> Iterator[MirroredOrigin]:
    """With other origins beside it. At the end all that the fetcher had to write is written."""
    with asyncio.Runner() as runner:
        origin, running = MirroredOrigin(), AsyncExitStack()
        origin.runner = runner
        try:
            for each in (origin, *others):
                runner.run(running.enter_async_context(each))
            runner.run(running.enter_async_context(fetching()))
            yield origin
        finally:
            runner.run(running.aclose())
