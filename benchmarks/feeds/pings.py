"""Pings of clouds: many in one instant, very many for one feed, and the time from a ping to fresh output."""

import json
import random
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.support.stack import Stack, eventually

from ..figures import Figure, Note, median, percentile
from ..load.event_loop import run
from ..load.steady import ask_steadily
from ..mirror.feeder import SiteProcess
from ..tiles.tile_requests import painted_tile
from .hub_origin import origin

FEEDS = 250
HERD, HERDING, HERD_SECONDS = 10_000, 50, 4.0
ROUNDS = 5
REQUESTS, RATE, CONNECTIONS = 2000, 500, 25
RATIO = 2.0
LOOKED_AT = 15
HOT_SECONDS = 5
LOOK_SECONDS, MOST_SECONDS = 0.05, 60.0
CALM_SECONDS = 3.0
SETTINGS = {"FEEDS_PUSH": "1", "FEEDS_PUSH_COOL_SECONDS": "2", "FEEDS_SCAN_SECONDS": "60"}


def measure() -> Iterator[Figure | Note]:
    with (
        Stack(**SETTINGS) as stack,
        origin() as port,
        SiteProcess(stack, "benchmarks.feeds.pinged_feeds") as rows,
        SiteProcess(stack, "benchmarks.feeds.pinger", stack.host) as cloud,
    ):
        feeds = [PingedFeed(*each) for each in rows.tell([FEEDS, port])]
        site = Site(stack, f"http://127.0.0.1:{port}", rows, cloud, painted_tile(stack))
        rows.tell(site.entries)
        yield from at_once(site, feeds)
        yield from of_one(site, feeds[0])
        yield from served(site, feeds[1 : LOOKED_AT + 1])


@dataclass(frozen=True, slots=True)
class PingedFeed:
    """The token of its subscription, its URL at the origin, and its slug here."""

    token: str
    url: str
    slug: str


@dataclass(slots=True)
class Site:
    """A site with subscribed feeds, their origin, and a cloud that pings them."""

    stack: Stack
    origin: str
    rows: SiteProcess
    cloud: SiteProcess
    tile: str
    entries: int = 1

    def ping(self, feeds: list[PingedFeed], pings: int, connections: int, spread: float = 0.0) -> Any:
        return self.cloud.tell([{feed.token: feed.url for feed in feeds}, pings, connections, spread])

    def publish(self) -> None:
        """All feeds have another entry. Before, the site comes to rest."""
        time.sleep(CALM_SECONDS)
        with urllib.request.urlopen(urllib.request.Request(f"{self.origin}/next", method="POST"), timeout=10):
            self.entries += 1

    def asked(self) -> dict[str, int]:
        """The number of requests for the feeds since then, by host."""
        with urllib.request.urlopen(f"{self.origin}/asked", timeout=10) as answer:
            found: dict[str, int] = json.load(answer)
            return found

    def beside(self, feeds: list[PingedFeed], pings: int, connections: int, spread: float = 0.0) -> tuple[float, Any]:
        """p99 of a cached tile while they are pinged, in seconds, and the cloud's report of it."""
        with ThreadPoolExecutor(1) as pool:
            told = pool.submit(self.ping, feeds, pings, connections, spread)
            return self.p99(), told.result()

    def beside_flags(self) -> float:
        """p99 of a cached tile while all feeds are fetched without pings."""
        with ThreadPoolExecutor(1) as pool:
            told = pool.submit(self.rows.tell, "flag")
            beside = self.p99()
            told.result()
            return beside

    def p99(self) -> float:
        """p99 of a cached tile, in seconds."""
        timed = run(ask_steadily(self.stack.host, [self.tile] * REQUESTS, rate=RATE, connections=CONNECTIONS))
        if any(one.visit.status != 200 for one in timed):
            raise RuntimeError("a cached tile was not served")
        return percentile([one.seconds for one in timed], 0.99)

    def in_main(self) -> tuple[float, float]:
        """The numbers of requests that main has answered, in all and within 50 ms."""
        metric = self.stack.metric
        return metric("tarry_request_seconds_count"), metric("tarry_request_seconds_bucket", le="0.05")


def at_once(site: Site, feeds: list[PingedFeed]) -> Iterator[Figure | Note]:
    """A ping for each feed, all in one instant."""
    statuses, asked, fresh = Counter[str](), Counter[int](), list[float]()
    rounds, took = list[tuple[float, float, float]](), list[list[float]]()
    before = site.in_main()
    for _ in range(ROUNDS):
        site.publish()
        flagged = site.beside_flags()
        site.rows.tell(site.entries)
        site.publish()
        idle = site.p99()
        beside, told = site.beside(feeds, FEEDS, FEEDS)
        stored = site.rows.tell(site.entries)
        fresh += [stored[feed.url] - told["began"] for feed in feeds]
        statuses.update(told["statuses"])
        asked.update(site.asked().values())
        rounds.append((beside, flagged, idle))
        took.append(told["seconds"])
    after = site.in_main()
    for one in rounds:
        yield Note("p99 {:.2f} ms beside pings, {:.2f} unpinged, {:.2f} idle".format(*(1000 * p for p in one)))
    yield Figure(f"{FEEDS} pings in one instant: not taken", statuses.total() - statuses["200"], at_most=0)
    yield Figure("feeds that were then not fetched exactly once", asked.total() - asked[1], at_most=0)
    share = (after[1] - before[1]) / (after[0] - before[0])
    yield Figure("pings that main answered within 50 ms", 100 * share, "%", at_least=99)
    for name, place in (("median", 0), ("p99", 1)):
        yield Figure(f"answered to the cloud, {name}", 1000 * median([one[place] for one in took]), "ms")
    beside, flagged, idle = (median(list(side)) for side in zip(*rounds, strict=True))
    name = "p99 of a cached tile meanwhile ÷ p99 while as many feeds are fetched unpinged"
    yield Figure(name, beside / flagged, at_most=RATIO)
    yield Figure("p99 of a cached tile meanwhile ÷ p99 idle, medians", beside / idle)
    yield Figure("ping to stored entry, median", median(fresh), "s", at_most=5)
    yield Figure("ping to stored entry, the last one", max(fresh), "s")


def of_one(site: Site, feed: PingedFeed) -> Iterator[Figure | Note]:
    """Very many pings for one feed."""
    rounds, answers = list[tuple[float, float]](), Counter[str]()
    for _ in range(ROUNDS):
        site.publish()
        idle = site.p99()
        beside, told = site.beside([feed], HERD, HERDING, HERD_SECONDS)
        rounds.append((beside, idle))
        answers.update(told["statuses"])
    host = feed.url.split("/")[2]
    eventually(lambda: site.asked().get(host), MOST_SECONDS, "it is fetched")
    time.sleep(CALM_SECONDS)
    asked = site.asked()[host]
    yield Note(f"{HERD:,} pings for one feed, {ROUNDS} times, were answered {dict(answers)}")
    yield Figure(f"{HERD:,} pings for one feed: fetches of the last time", asked, at_most=5, at_least=1)
    beside, idle = (median(list(side)) for side in zip(*rounds, strict=True))
    yield Figure("p99 of a cached tile meanwhile ÷ p99 idle, medians", beside / idle, at_most=RATIO)


def served(site: Site, feeds: list[PingedFeed]) -> Iterator[Figure | Note]:
    """The time until a client that asks again and again sees new content."""
    found = [_seen(site, feed) for feed in feeds]
    yield Figure("ping to fresh output, looked at all the time, median", median(found), "s", at_most=5)
    yield Figure("ping to fresh output, at the most", max(found), "s")


def _seen(site: Site, feed: PingedFeed) -> float:
    site.publish()
    moment = time.monotonic() + random.uniform(0, HOT_SECONDS)
    while time.monotonic() < moment:  # the front's copy is of any age when the ping comes
        _newest(site, feed)
        time.sleep(LOOK_SECONDS)
    began = time.monotonic()
    site.ping([feed], 1, 1)
    while _newest(site, feed) != str(site.entries):
        if time.monotonic() > began + MOST_SECONDS:
            raise RuntimeError(f"{feed.slug} is not fresh after {MOST_SECONDS:g} s")
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - began


def _newest(site: Site, feed: PingedFeed) -> str:
    """The title of its newest entry, as it is served."""
    with urllib.request.urlopen(f"{site.stack.base_url}/feeds/{feed.slug}.json?limit=1", timeout=30) as answer:
        found = json.load(answer)["items"]
        return str(found[0]["title"])
