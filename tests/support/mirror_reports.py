"""`python -m tests.support.mirror_reports REPORTERS HOST AT_ONCE < LIST`: many processes report a list at once.

Each is a process, as those of the web are. The first also requests the files of the list's beginning by signed
addresses, during the report. From then on the host has no gaps, and so many requests at once. Prints, as JSON, the
numbers of known and accepted URLs of each report, and the results of the requests.
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

from resources.fetch import host_settings  # noqa: E402
from resources.mirror import links  # noqa: E402
from resources.mirror.reports import report as reports_report  # noqa: E402
from resources.mirror.reports.batches import SentList  # noqa: E402

ASKED = 8
SECONDS = 60


def main(reporters: int, host: str, at_once: int, urls: Sequence[str]) -> None:
    host_settings.change_domain(host, delay_seconds=0, in_flight=at_once)
    connections.close_all()  # no connection is shared
    context = multiprocessing.get_context("fork")
    together, told = context.Barrier(reporters), context.SimpleQueue()
    reporting = [context.Process(target=report, args=(number, urls, together, told)) for number in range(reporters)]
    for one in reporting:
        one.start()
    print(json.dumps([told.get() for _ in reporting]))


def report(number: int, urls: Sequence[str], together: Barrier, told: "SimpleQueue[dict[str, int]]") -> None:
    """The counts of its answer, by status."""
    together.wait(SECONDS)
    with ThreadPoolExecutor(ASKED) as threads:
        asking = [threads.submit(ask, url) for url in urls[:ASKED]] if number == 0 else []
        reported = reports_report.report_urls(SentList(urls, sender=f"reporter {number}"), datetime.now(UTC))
        found = Counter(str(one.status) for one in reported.decisions)
        found.update(f"asked: {one.result()}" for one in asking)
    told.put(found)


def ask(url: str) -> int:
    return requests.get(os.environ["PUBLIC_URL"] + links.sign_url(url), timeout=SECONDS).status_code


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.stdin.read().split())
