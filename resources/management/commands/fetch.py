"""`manage.py fetch`: a fetcher, which fetches the jobs of the frontier until it is told to end."""

import asyncio
import gc
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from uuid import uuid4

import uvloop
from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from resources import locks
from resources.fetch import conf
from resources.fetch.timings import TimingRecorder
from resources.fetch.worker import counts
from resources.fetch.worker.attempt import AttemptRunner, EgressClients
from resources.fetch.worker.engine import FetchEngine, SlotPool
from resources.fetch.worker.held_claims import RedisTrips
from resources.fetch.worker.timers import WakeListener
from resources.mirror.storage.uploads import StorageUpkeep
from retry import stores
from retry.errors import StoreUnavailable

from ..cli import SiteCommand

MAX_TASK_THREADS, MIN_TASK_THREADS = 16, 8
"""Threads for the tasks' work on answers, mostly waiting for disk and database: those of a machine's fetchers together,
and the least of each, which a small site's has. Each thread has a database connection, of half a megabyte.
"""

GARBAGE_THRESHOLD = 50_000
"""New objects between garbage collections: collecting after 700, Python's default, costs a tenth of a page's time."""


class Command(SiteCommand):
    help = "Runs a fetcher, which fetches the jobs of the frontier. TERM or Ctrl-C ends it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--slots", type=int, default=settings.FETCH_SLOTS, help="requests in flight at most (FETCH_SLOTS)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["slots"] < 2:
            raise CommandError("--slots must be 2 at least: one for the fast lane, one for the slow.")
        with suppress(StoreUnavailable):  # the fetcher waits for it
            if not _hold_name():
                raise CommandError(_name_taken())
        upkeep = StorageUpkeep()
        upkeep.start()
        gc.freeze()  # loaded modules stay: garbage collections need not look through them
        gc.set_threshold(GARBAGE_THRESHOLD)
        try:
            if not uvloop.run(_run_fetcher(options["slots"])):
                raise CommandError(_name_taken())
        finally:
            upkeep.end()


def _hold_name() -> bool:
    return locks.hold_machine_name(settings.MACHINE, settings.INSTALLATION, settings.MACHINE_URL)


def _name_taken() -> str:
    return f"Another machine has the name {settings.MACHINE}. Give each machine a MACHINE of its own."


async def _run_fetcher(slots: int) -> bool:
    """Runs until it is told to end, and returns True; False if another machine took this one's name."""
    machine = settings.MACHINE
    worker = f"{machine}:{uuid4().hex[:8]}"
    clients = stores.async_clients(patient=True)
    trips = RedisTrips(clients)
    recorder = TimingRecorder()
    async with EgressClients(conf.fetch_policy()) as egresses:
        attempts = AttemptRunner(trips, egresses, recorder)
        engine = FetchEngine(trips, attempts, SlotPool(slots), WakeListener(), worker=worker, machine=machine)
        loop = asyncio.get_running_loop()
        threads = MIN_TASK_THREADS if settings.SMALL else max(MIN_TASK_THREADS, MAX_TASK_THREADS // settings.FETCHERS)
        loop.set_default_executor(ThreadPoolExecutor(threads, thread_name_prefix="tasks"))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, engine.end)
        recording = asyncio.create_task(recorder.run())
        counting = asyncio.create_task(counts.write_forever())
        naming = asyncio.create_task(_keep_name(engine))
        await engine.run()
        is_named = not naming.done()
        for task in (recording, counting, naming):
            task.cancel()
        await asyncio.wait({recording, counting, naming})
    for each in clients.values():
        await each.aclose()
    return is_named


async def _keep_name(engine: FetchEngine) -> None:
    """Renews the machine's name. Ends the fetcher, and returns, when another machine has it."""
    is_ours = True
    while is_ours:
        await asyncio.sleep(locks.MACHINE_SECONDS / 3)
        with suppress(StoreUnavailable):
            is_ours = await asyncio.to_thread(_hold_name)
    engine.end()
