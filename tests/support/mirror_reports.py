"""`python -m tests.flows.mirror_reports REPORTERS HOST AT_ONCE < LIST`: many report a list to a stack at once.

Each is a process, as those of the web are. The first asks for the files of the list's beginning by signed addresses as
well, while they are reported. The host is asked without gaps from then on, by so many requests at once.
Prints, as JSON, how many URLs were known and how many accepted, as each was told, and with what the asking ended.
"""

import json
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier

import django
import requests

import project.celery  # noqa: F401  as in the web processes

django.setup()

from django.db import connections  # noqa: E402

from resources.fetching.keeping import limiting  # noqa: E402
from resources.mirroring.reporting import reports  # noqa: E402
from resources.mirroring.reporting.batches import Sent  # noqa: E402
from resources.mirroring.serving import addresses  # noqa: E402

ASKED = 8
SECONDS = 60


def main(reporters: int, host: str, at_once: int, urls: Sequence[str]) -> None:
    limiting.change(host, delay_seconds=0, in_flight=at_once)
    connections.close_all()  # no connection is shared
    context = multiprocessing.get_context("fork")
    together, told = context.Barrier(reporters), context.SimpleQueue()
    reporting = [context.Process(target=report, args=(number, urls, together, told)) for number in range(reporters)]
    for one in reporting:
        one.start()
    print(json.dumps([told.get() for _ in reporting]))


def report(number: int, urls: Sequence[str], together: Barrier, told: "SimpleQueue[dict[str, int]]") -> None:
    """Tells what one of them is told, by status."""
    together.wait(SECONDS)
    with ThreadPoolExecutor(ASKED) as threads:
        asking = [threads.submit(ask, url) for url in urls[:ASKED]] if number == 0 else []
        reported = reports.report(Sent(urls, sender=f"reporter {number}"), datetime.now(UTC))
        found = Counter(str(one.status) for one in reported.decisions)
        found.update(f"asked: {one.result()}" for one in asking)
    told.put(found)


def ask(url: str) -> int:
    return requests.get(os.environ["PUBLIC_URL"] + addresses.sign_url(url), timeout=SECONDS).status_code


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.stdin.read().split())
