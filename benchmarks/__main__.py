"""`python -m benchmarks [NAME...]`: runs them all, or those named. Exits with 1 when a bound was missed."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator

import psutil

from benchmarks import (
    blobs,
    cached,
    changes,
    cold,
    combined,
    feed_reading,
    fetcher,
    fetchers,
    fetching,
    frontier,
    herd,
    idle,
    interactive,
    isolation,
    memory,
    mirroring,
    misses,
    ordering,
    overload,
    painting,
    pings,
    prewarming,
    priority,
    redirects,
    scan,
    seeding,
    single_flight,
    soak,
    swallowing,
    traffic,
    wake,
    yielding,
)
from benchmarks.figures import Figure, Note
from benchmarks.growth import feeds as growth_feeds
from benchmarks.growth import segments as growth_segments
from benchmarks.growth import urls as growth_urls
from benchmarks.growth import waiting as growth_waiting
from benchmarks.limits import raise_file_limit
from benchmarks.peers import cached as peers_cached
from benchmarks.peers import cold as peers_cold
from benchmarks.peers import files as peers_files
from benchmarks.peers import herd as peers_herd
from benchmarks.peers import isolation as peers_isolation

BENCHMARKS: dict[str, Callable[[], Iterator[Figure | Note]]] = {
    "cached": cached.measure,
    "blobs": blobs.measure,
    "cold": cold.measure,
    "memory": memory.measure,
    "wake": wake.measure,
    "herd": herd.measure,
    "isolation": isolation.measure,
    "priority": priority.measure,
    "single_flight": single_flight.measure,
    "misses": misses.measure,
    "overload": overload.measure,
    "idle": idle.measure,
    "painting": painting.measure,
    "changes": changes.measure,
    "traffic": traffic.measure,
    "prewarming": prewarming.measure,
    "seeding": seeding.measure,
    "yielding": yielding.measure,
    "fetching": fetching.measure,
    "fetcher": fetcher.measure,
    "fetchers": fetchers.measure,
    "swallowing": swallowing.measure,
    "interactive": interactive.measure,
    "frontier": frontier.measure,
    "ordering": ordering.measure,
    "combined": combined.measure,
    "scan": scan.measure,
    "mirroring": mirroring.measure,
    "feed_reading": feed_reading.measure,
    "pings": pings.measure,
}

ON_REQUEST: dict[str, Callable[[], Iterator[Figure | Note]]] = {
    "redirects": redirects.measure,
    "soak": soak.measure,
    "peers_cached": peers_cached.measure,
    "peers_isolation": peers_isolation.measure,
    "peers_herd": peers_herd.measure,
    "peers_cold": peers_cold.measure,
    "peers_files": peers_files.measure,
    "growth_waiting": growth_waiting.measure,
    "growth_segments": growth_segments.measure,
    "growth_feeds": growth_feeds.measure,
    "growth_urls": growth_urls.measure,
}
"""Run only when they are named: they need what is not installed here, or take long, and have no bound."""


def main() -> None:
    known = BENCHMARKS | ON_REQUEST
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    names = parser.parse_args().names or list(BENCHMARKS)
    if unknown := set(names) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}. Known: {', '.join(known)}")
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.2f}, {raise_file_limit():,} open files a process", flush=True)
    missed = [name for name in names if _missed(name)]
    if missed:
        sys.exit(f"bounds missed: {', '.join(missed)}")


def _missed(name: str) -> bool:
    """Runs one and prints what it says; whether it missed a bound or failed."""
    print(f"\n{name}", flush=True)
    began, stolen, missed = time.monotonic(), _stolen(), False
    try:
        for line in (BENCHMARKS | ON_REQUEST)[name]():
            print(line, flush=True)
            missed = missed or line.missed
    except Exception as error:  # noqa: BLE001 - the edge of a run: the other benchmarks follow
        print(f"MISS  it failed: {error}", flush=True)
        missed = True
    seconds = time.monotonic() - began
    share = (_stolen() - stolen) / (os.cpu_count() or 1) / seconds
    print(f"      ({seconds:.0f} s; {share:.0%} of the cores were taken by the host of a virtual machine)", flush=True)
    return missed


def _stolen() -> float:
    """CPU time in seconds that a virtual machine wanted and did not get, since it started."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))


if __name__ == "__main__":
    main()
