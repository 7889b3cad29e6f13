"""Three fetchers, of which one is killed every few seconds, and 24 domains with secret limits.

All figures come from the origins' log.
"""

import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count, cycle, islice
from pathlib import Path

from tests.hostile import secret_origins
from tests.hostile.secret_origins import Asked, SecretOrigins
from tests.support.fetcher_processes import FurtherFetcher
from tests.support.stack import Stack, eventually

from ..figures import Figure, Note, median
from ..mirror.feeder import Feeder

DOMAINS = 24
SLOWEST, FASTEST = 1.0, 40.0
WARM_UP_SECONDS, DOUBLES_AFTER_SECONDS, SECONDS = 60, 180, 300
FOLLOWED_SECONDS = 60
"""The time within which a domain's rate must follow its doubled limit."""

KILL_SECONDS = 6.0
MOST_IN_FLIGHT = 8
CEILINGS = {"FETCH_MAX_PER_SECOND": "50", "FETCH_MAX_IN_FLIGHT": str(MOST_IN_FLIGHT)}
"""Above the secret limits: those are to be learnt."""

SITE = {"FETCH_LEASE_SECONDS": "5", "BACKLOG_LIMIT": "100000", "RETRY_SKIP_SECONDS": "0", **CEILINGS}
"""The jobs of a killed fetcher occupy their domains for a short lease. No page is requested twice."""

DRAIN_SECONDS = 120
STEP_SECONDS = 0.5
QUEUED_SECONDS, QUEUED_LEAST = 4, 12
"""The backlog of each domain, in seconds of its rate and at the least: a domain is never without work."""

CAPPED = {3: 1, 9: 2, 15: 2}
"""An admin's limit of requests in flight, by domain. The limits of other domains are learnt."""
DOUBLED = (12, 17, 20)
SHARE, REFUSED = 0.8, 0.01
UNTOLD_SECONDS = 1.0
"""The limit for a refusal to reach the other fetchers, the origin's own time included."""
IN_HAND_SECONDS = 5.0
"""The limit for a fetcher to hold a page beyond the origin's own time."""
UNREAD_SECONDS = 0.25
"""The limit for a request to lie unread at an origin: its fetcher may have been killed meanwhile."""


def limits() -> list[dict[str, float]]:
    """Rates from 1 to 40 a second, latencies of 20 to 100 ms, and other habits of origins."""
    rates = [SLOWEST * (FASTEST / SLOWEST) ** (place / (DOMAINS - 1)) for place in range(DOMAINS)]
    found = [
        {"rate": round(rate, 2), "latency": latency}
        for rate, latency in zip(rates, islice(cycle((0.02, 0.05, 0.1)), DOMAINS), strict=True)
    ]
    for domain in (2, 8, 14, 20):
        found[domain - 1]["retry_after"] = 2
    for domain in (10, 18):
        found[domain - 1]["most_at_once"] = 3
    return found


@dataclass(slots=True)
class Run:
    """The events beside the origins' log. Times are Unix seconds."""

    began: float = 0.0
    doubled: float = 0.0
    ended: float = 0.0
    kills: list[tuple[float, float]] = field(default_factory=list)
    """The moments before and after each kill."""
    pages: Iterator[int] = field(default_factory=count)
    fed: set[tuple[int, str]] = field(default_factory=set)
    rates: list[float] = field(default_factory=lambda: [each["rate"] for each in limits()])
    """The current rates."""


def measure() -> Iterator[Figure | Note]:
    """About six minutes."""
    with ExitStack() as parts:
        directory = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="tarry-bench-")))
        known = limits()
        origins = parts.enter_context(secret_origins.running(directory / "asked", known, 3600))
        stack = parts.enter_context(Stack(**SITE))
        feeder = parts.enter_context(Feeder(stack))
        further = [parts.enter_context(FurtherFetcher(stack)) for _ in range(2)]
        run = _run(origins, stack, feeder, [lambda: stack.kill("fetch"), *(one.kill for one in further)])
        seen = origins.asked()
    yield Note(f"{len(run.fed):,} pages of {DOMAINS} domains, {len(seen):,} requests, {len(run.kills)} kills")
    yield from _politeness(seen, run)
    yield from _losses(seen, known, run)
    yield from _rates(seen, known, run)


def _run(origins: SecretOrigins, stack: Stack, feeder: Feeder, kills: Sequence[Callable[[], None]]) -> Run:
    """Keeps work waiting, kills one fetcher after the other, doubles limits; then waits for the work to end."""
    for domain, cap in CAPPED.items():
        feeder.limit(origins.host(domain), in_flight=cap)
    run, victims = Run(began=time.time()), cycle(kills)
    while (now := time.time()) < run.began + SECONDS:
        _feed(origins, stack, feeder, run)
        if now > run.began + (len(run.kills) + 1) * KILL_SECONDS:
            before = time.time()
            next(victims)()  # the site's own is asked for its number first
            run.kills.append((before, time.time()))
        if not run.doubled and now > run.began + DOUBLES_AFTER_SECONDS:
            for domain in DOUBLED:
                run.rates[domain - 1] *= 2
                origins.change(domain, {"rate": run.rates[domain - 1]})
            run.doubled = time.time()
        time.sleep(max(0.0, now + STEP_SECONDS - time.time()))
    run.ended = time.time()
    eventually(
        lambda: not stack.state.exists("retry:{0}:claims", "retry:{0}:leases", "fetch:{0}:leases"),
        DRAIN_SECONDS,
        "the end",
    )
    return run


def _feed(origins: SecretOrigins, stack: Stack, feeder: Feeder, run: Run) -> None:
    wanted = {}
    for domain, rate in enumerate(run.rates, start=1):
        waiting = int(stack.state.zcard(f"fetch:{{0}}:jobs:{origins.host(domain)}:fast:1"))
        for page in islice(run.pages, max(0, round(max(QUEUED_LEAST, rate * QUEUED_SECONDS)) - waiting)):
            wanted[origins.url(domain, page)] = (domain, f"/{page}")
    for url in feeder.feed(list(wanted)):
        del wanted[url]
    run.fed.update(wanted.values())


def _politeness(seen: Sequence[Asked], run: Run) -> Iterator[Figure | Note]:
    peaks = Counter[int]()
    for one in seen:
        peaks[one.domain] = max(peaks[one.domain], one.at_once)
    over = max(peaks[domain] - cap for domain, cap in CAPPED.items())
    yield Figure("most in flight at a domain, beyond the limit that an admin has set", over, at_most=0)
    learnt = max(peak for domain, peak in peaks.items() if domain not in CAPPED)
    yield Figure("most in flight at a domain without one", learnt, at_most=MOST_IN_FLIGHT)
    yield Figure("requests during Retry-After, beyond 100 ms", sum(one.early for one in seen))
    yield Figure("the same, where the fetcher that was refused lived to tell", _unexcused(seen, run), at_most=0)
    yield Figure("refused with 429 ÷ all requests", _refused(seen), at_most=REFUSED)
    warm = [one for one in seen if one.at >= run.began + WARM_UP_SECONDS]
    yield Figure("the same after the first minute", _refused(warm), at_most=REFUSED)


def _unexcused(seen: Sequence[Asked], run: Run) -> int:
    """Requests that came too early although no kill can have hidden the origin's answer from the other fetchers."""
    found, refused_at = 0, defaultdict[int, list[float]](list)
    for one in seen:  # by time
        if not one.served:
            refused_at[one.domain].append(one.at)
        if one.early:
            recent = [at for at in refused_at[one.domain] if at < one.at]
            found += not any(_was_killed(run, at, at + UNTOLD_SECONDS) for at in recent[-2:])
    return found


def _was_killed(run: Run, start: float, end: float) -> bool:
    """Tells whether a fetcher may have been killed between the two moments."""
    return any(start <= after and before <= end for before, after in run.kills)


def _refused(seen: Sequence[Asked]) -> float:
    return sum(not one.served for one in seen) / len(seen)


def _losses(seen: Sequence[Asked], known: Sequence[dict[str, float]], run: Run) -> Iterator[Figure | Note]:
    times = defaultdict[tuple[int, str], list[float]](list)
    for one in seen:
        if one.served:
            times[one.domain, one.path].append(one.at)
    yield Figure("pages that were never fetched", len(run.fed - set(times)), at_most=0)
    twice = {page: at for page, at in times.items() if len(at) > 1}
    yield Figure("pages fetched twice", len(twice))
    for (domain, _), at in list(twice.items()):
        in_hand = known[domain - 1]["latency"] + IN_HAND_SECONDS
        if _was_killed(run, at[0] - UNREAD_SECONDS, at[0] + in_hand):
            del twice[domain, _]
    yield Figure("of those not in hand of a fetcher that was killed", len(twice), at_most=0)


def _rates(seen: Sequence[Asked], known: Sequence[dict[str, float]], run: Run) -> Iterator[Figure | Note]:
    def share(domain: int, rate: float, start: float, end: float) -> float:
        return sum(one.served and one.domain == domain and start <= one.at < end for one in seen) / (end - start) / rate

    shares = {}
    for domain, each in enumerate(known, start=1):
        until = run.doubled if domain in DOUBLED else run.ended
        shares[each["rate"]] = share(domain, each["rate"], run.began + WARM_UP_SECONDS, until)
    yield _by_rate("shares", shares)
    yield Figure("share of its secret rate that a domain is asked for, least", min(shares.values()), at_least=SHARE)
    yield Figure("the same, median", median(list(shares.values())), at_least=SHARE)
    followed = {}
    for domain in DOUBLED:
        rate = 2 * known[domain - 1]["rate"]
        followed[rate] = share(domain, rate, run.doubled + FOLLOWED_SECONDS, run.ended)
    yield _by_rate("shares a minute after the limit has doubled", followed)
    yield Figure("the same a minute after the limit has doubled, least", min(followed.values()), at_least=SHARE)


def _by_rate(name: str, shares: Mapping[float, float]) -> Note:
    return Note(f"{name}, by rate: " + ", ".join(f"{rate:g}: {one:.2f}" for rate, one in shares.items()))
