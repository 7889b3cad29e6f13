"""`python -m benchmarks [NAME...]`: runs them all, or those named. Exits with 1 when a bound was missed."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator

import psutil

from .cluster import scale, scaling, state_costs
from .feeds import combined_feed, host_limits, hub_fanout, order, parser, pings, scan, search
from .fetch import client, fetcher, fetchers, frontier, slow_domain
from .figures import Figure, Note
from .growth import database_rows, feeds, segments, urls, waiting_crowds
from .machine import raise_file_limit
from .mirror import ingest
from .peers import cached, cold, files, herd, isolation
from .redirects import matrix
from .serving import blobs, commands, hot, idle, memory, misses, overload, single_flight, soak, traffic, wake
from .serving import cached as serving_cached
from .serving import cold as serving_cold
from .serving import herd as serving_herd
from .serving import isolation as serving_isolation
from .tiles import changes, courtesy, interactive, own_server, painter, prewarm, priority, seed

BENCHMARKS: dict[str, Callable[[], Iterator[Figure | Note]]] = {
    "cached": serving_cached.measure,
    "hot": hot.measure,
    "blobs": blobs.measure,
    "cold": serving_cold.measure,
    "memory": memory.measure,
    "wake": wake.measure,
    "herd": serving_herd.measure,
    "isolation": serving_isolation.measure,
    "priority": priority.measure,
    "single_flight": single_flight.measure,
    "misses": misses.measure,
    "overload": overload.measure,
    "idle": idle.measure,
    "commands": commands.measure,
    "painting": painter.measure,
    "changes": changes.measure,
    "traffic": traffic.measure,
    "prewarming": prewarm.measure,
    "seeding": seed.measure,
    "yielding": courtesy.measure,
    "fetching": client.measure,
    "fetcher": fetcher.measure,
    "fetchers": fetchers.measure,
    "swallowing": slow_domain.measure,
    "interactive": interactive.measure,
    "own_server": own_server.measure,
    "frontier": frontier.measure,
    "ordering": order.measure,
    "combined": combined_feed.measure,
    "search": search.measure,
    "scan": scan.measure,
    "host_limits": host_limits.measure,
    "mirroring": ingest.measure,
    "feed_reading": parser.measure,
    "pings": pings.measure,
    "hub_fanout": hub_fanout.measure,
}

ON_REQUEST: dict[str, Callable[[], Iterator[Figure | Note]]] = {
    "redirects": matrix.measure,
    "soak": soak.measure,
    "peers_cached": cached.measure,
    "peers_isolation": isolation.measure,
    "peers_herd": herd.measure,
    "peers_cold": cold.measure,
    "peers_files": files.measure,
    "growth_waiting": waiting_crowds.measure,
    "growth_segments": segments.measure,
    "growth_feeds": feeds.measure,
    "growth_urls": urls.measure,
    "search_large": search.measure_large,
    "growth_rows": database_rows.measure,
    "cluster_painters": scaling.measure_painters,
    "cluster_fetchers": scaling.measure_fetchers,
    "cluster_state": state_costs.measure_one,
    "cluster_nodes": state_costs.measure_nodes,
    "cluster_scale": scale.measure,
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
    """Runs one and prints its figures. Returns True if it missed a bound or failed."""
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
