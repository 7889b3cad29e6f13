"""`manage.py fetch`: a fetcher, which asks other servers for what waits in the frontier until it is told to end."""

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

from resources.fetching import conf
from resources.fetching.fetcher.asking import Asker
from resources.fetching.fetcher.attending import Attendant
from resources.fetching.fetcher.engine import Engine
from resources.fetching.fetcher.slots import Slots
from resources.fetching.fetcher.trips import Trips
from resources.fetching.fetcher.waking import Waking
from resources.fetching.fetcher.ways import Ways
from resources.fetching.fetcher.works import Works
from resources.fetching.keeping.timings import Recorder
from resources.mirroring.storing.tending import Tender
from retry import connections

THREADS = 16
"""For what tasks do with answers, which is mostly to wait for the disk and the database. Each has a connection."""

GARBAGE = 10_000
"""So many objects more than before, and garbage is collected: every 700, as Python does it, costs a tenth of a page."""


class Command(BaseCommand):
    help = "Fetches what waits in the domains' queues, as one of any number of fetchers. TERM or Ctrl-C ends it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--slots", type=int, default=settings.FETCH_SLOTS, help="requests in flight at most (FETCH_SLOTS)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["slots"] < 2:
            raise CommandError("--slots must be 2 at least: one for the fast lane, one for the slow.")
        tender = Tender()
        tender.start()
        gc.freeze()  # what is loaded stays: it need not be looked through each time garbage is collected
        gc.set_threshold(GARBAGE)
        try:
            uvloop.run(_fetch(options["slots"]))
        finally:
            tender.end()


async def _fetch(slots: int) -> None:
    machine = socket.gethostname()
    worker = f"{machine}:{uuid4().hex[:8]}"
    clients: connections.Clients = {
        "state": connections.async_client("state", patient=True),
        "cache": connections.async_client("cache", patient=True),
    }
    trips = Trips(clients)
    works = Works(trips)
    recorder = Recorder()
    async with Ways(conf.policy()) as ways:
        attendant = Attendant(trips, works, Asker(trips, ways, recorder), machine)
        engine = Engine(trips, works, attendant, Slots(slots), Waking(), worker=worker, machine=machine)
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="tasks"))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, engine.end)
        recording = asyncio.create_task(recorder.run())
        await engine.run()
        recording.cancel()
        await asyncio.wait({recording})
    for each in clients.values():
        await each.aclose()
