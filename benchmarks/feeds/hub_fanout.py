"""One change told to 10,000 subscribers by this site's own hub, some of them silent, slow or broken."""

import json
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.stack import Stack

from ..figures import Figure, Note, percentile
from ..mirror.feeder import SiteProcess
from .subscriber_origin import subscribers

SUBSCRIBERS, HOSTS = 10_000, 1000
MANNERS = {"silent": 25, "slow": 25, "broken": 10}
"""The numbers of hosts at which all subscribers are so; all others take what they are told at once."""
ROUNDS = 3
MOST_SECONDS, BOUND_SECONDS = 120.0, 30.0
REST_SECONDS = 15
"""Between two changes: longer than FEEDS_HUB_SECONDS."""
SETTINGS = {"FEEDS_HUB": "self", "FEEDS_HUB_SECONDS": "10", "FEEDS_SCAN_SECONDS": "60"}


def measure() -> Iterator[Figure | Note]:
    with (
        Stack(**SETTINGS) as stack,
        subscribers() as port,
        SiteProcess(stack, "benchmarks.feeds.subscribed_feed") as rows,
    ):
        callbacks = [callback_of(number, port) for number in range(SUBSCRIBERS)]
        rows.tell(callbacks)
        found = []
        for _ in range(ROUNDS):
            found.append(tell_all(rows, callbacks, port))
            yield Note(str(found[-1]))
            time.sleep(REST_SECONDS)
    yield Figure(
        f"{SUBSCRIBERS:,} subscribers of one feed: the last one told",
        max(one.last for one in found),
        "s",
        at_most=BOUND_SECONDS,
    )
    yield Figure("the median one told", max(one.median for one in found), "s")
    yield Figure("the last one of those that are not slow, at most", max(one.last_quick for one in found), "s")
    yield Figure("not told", sum(one.missed for one in found), at_most=0)
    yield Figure("told twice", sum(one.again for one in found), at_most=0)
    yield Figure("signed wrongly", sum(one.forged for one in found), at_most=0)


def callback_of(number: int, port: int) -> str:
    """Its host is one of HOSTS; the first ones of those are of the manners."""
    host, manner = number % HOSTS, "well"
    before = 0
    for name, hosts in MANNERS.items():
        if before <= host < before + hosts:
            manner = name
        before += hosts
    return f"http://127.0.{host // 250 + 1}.{host % 250 + 1}:{port}/{manner}/{number}"


@dataclass(frozen=True, slots=True)
class Round:
    """The seconds from a change until subscribers were told of it; `missed` are those that could be, and were not."""

    median: float
    last: float
    last_quick: float
    missed: int
    again: int
    forged: int

    def __str__(self) -> str:
        return f"median {self.median:.1f} s, last {self.last:.1f} s, last that is not slow {self.last_quick:.1f} s"


def tell_all(rows: SiteProcess, callbacks: list[str], port: int) -> Round:
    """Makes a change, and waits until all are told that can be."""
    quick = [number for number, callback in enumerate(callbacks) if "/well/" in callback]
    slow = [number for number, callback in enumerate(callbacks) if "/slow/" in callback]
    ask(port, "/next", method="POST")
    began: float = rows.tell("change")
    until = time.monotonic() + MOST_SECONDS
    told: dict[int, float] = {}
    while len(told) < len(quick) + len(slow) and time.monotonic() < until:
        time.sleep(0.5)
        answer = json.loads(ask(port, "/told"))
        told = {int(number): at - began for number, at in answer["told"].items()}
    seconds = [told.get(number, MOST_SECONDS) for number in (*quick, *slow)]
    return Round(
        median=percentile(seconds, 0.5),
        last=max(seconds),
        last_quick=max(seconds[: len(quick)]),
        missed=sum(number not in told for number in (*quick, *slow)),
        again=answer["again"],
        forged=answer["forged"],
    )


def ask(port: int, path: str, method: str = "GET") -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read()
