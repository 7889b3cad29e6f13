"""`manage.py fetch`: a fetcher, which fetches the jobs of the frontier until it is told to end."""

import asyncio
import gc
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import uvloop
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from resources.fetch import conf
from resources.fetch.timings import TimingRecorder
from resources.fetch.worker.attempt import AttemptRunner, EgressClients
from resources.fetch.worker.engine import FetchEngine, SlotPool, WakeListener
from resources.fetch.worker.held_claims import RedisTrips
from resources.mirror.storage.uploads import StorageUpkeep
from retry import stores

TASK_THREADS = 16
"""Threads for the tasks' work on answers, mostly waiting for disk and database. Each has a database connection."""

GARBAGE_THRESHOLD = 10_000
"""New objects between garbage collections: collecting after 700, Python's default, costs a tenth of a page's time."""


class Command(BaseCommand):
    help = "Runs a fetcher, which fetches the jobs of the frontier. TERM or Ctrl-C ends it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--slots", type=int, default=settings.FETCH_SLOTS, help="requests in flight at most (FETCH_SLOTS)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["slots"] < 2:
            raise CommandError("--slots must be 2 at least: one for the fast lane, one for the slow.")
        upkeep = StorageUpkeep()
        upkeep.start()
        gc.freeze()  # loaded modules stay: garbage collections need not look through them
        gc.set_threshold(GARBAGE_THRESHOLD)
        try:
            uvloop.run(_run_fetcher(options["slots"]))
        finally:
            upkeep.end()


async def _run_fetcher(slots: int) -> None:
    machine = socket.gethostname()
    worker = f"{machine}:{uuid4().hex[:8]}"
    clients = stores.async_clients(patient=True)
    trips = RedisTrips(clients)
    recorder = TimingRecorder()
    async with EgressClients(conf.fetch_policy()) as egresses:
        attempts = AttemptRunner(trips, egresses, recorder)
        engine = FetchEngine(trips, attempts, SlotPool(slots), WakeListener(), worker=worker, machine=machine)
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(TASK_THREADS, thread_name_prefix="tasks"))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, engine.end)
        recording = asyncio.create_task(recorder.run())
        await engine.run()
        recording.cancel()
        await asyncio.wait({recording})
    for each in clients.values():
        await each.aclose()
