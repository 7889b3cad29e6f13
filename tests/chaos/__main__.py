"""`python -m tests.chaos [--seconds N] [--only WORD…]`: the whole site under fire, and the results, as Markdown."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ..support.stack import Stack
from . import faults, floods, invariants, means, prewarm_run, resource_faults, schedule, steady
from .schedule import Suffered
from .table import bad_ends, table
from .world import HOSTS, NAMED, SETTINGS, running

COLDS = 700
"""Files of each origin, each requested once: enough for ten minutes and a flood."""
SECONDS = 600
"""The limit for the run. A fault begins only with time left to recover, to settle and to judge."""
ENDING_SECONDS = 10
"""The time for the processes to end after the limit."""
JUDGING_SECONDS = invariants.SETTLED_SECONDS + 20
AFTERWARDS_SECONDS = steady.LEAVING_SECONDS + prewarm_run.STOPPED_SECONDS + JUDGING_SECONDS + ENDING_SECONDS


def main() -> int:
    given = _given()
    means.move_apart(sys.argv[1:])
    began = time.monotonic()
    seconds = given.seconds or SECONDS
    try:
        with schedule.bounded(seconds - ENDING_SECONDS):
            suffered, wrong = _suffer(_chosen(given.only), began + seconds - AFTERWARDS_SECONDS, began)
    except schedule.OutOfTime as error:
        print(error)
        return 1
    late = [] if given.only or given.seconds else out_of_time(suffered)
    if late:
        print(f"\nNo time was left for {', '.join(late)}.")
    return bool(wrong or late)


def everything() -> list[faults.Fault]:
    """The whole schedule, with the faults that cannot be made on this machine."""
    apart = means.can_mount()
    gone = [
        *resource_faults.of_stores(apart),
        *resource_faults.of_others(apart),
        *resource_faults.of_the_clock(means.can_compile()),
    ]
    return [*faults.kills(), *gone, *floods.floods(), *faults.pauses()]


def out_of_time(suffered: Sequence[Suffered]) -> list[str]:
    return [one.fault.name for one in suffered if one.skipped == schedule.NO_TIME]


def _suffer(chosen: Sequence[faults.Fault], until: float, began: float) -> tuple[list[Suffered], list[str]]:
    """The faults of a site of its own until then, and the violations. Prints both."""
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="tarry-chaos-")))
        stack = Stack(**SETTINGS)
        found = held.enter_context(means.running(stack.data, folder, NAMED, HOSTS["named"]))
        stack.environment |= found.clock.environment if found.clock else {}
        world = held.enter_context(running(stack, folder, found, colds=COLDS))
        suffered = schedule.run(world, chosen, until - time.monotonic(), _tell)
        world.leave()
        wrong = invariants.violations(world, suffered)
        print(table(suffered, world.client.records))
        print(*bad_ends(suffered, world.client.records), sep="\n", file=sys.stderr)
        if wrong:
            print(stack.logs(), file=sys.stderr)
    print(f"\n{len(world.client.records):,} visits in {time.monotonic() - began:.0f} s. ", end="")
    print("Every invariant held." if not wrong else "\n\n".join(["Violated:", *wrong]))
    return suffered, wrong


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _chosen(words: Sequence[str]) -> list[faults.Fault]:
    return [one for one in everything() if not words or any(word in one.name for word in words)]


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seconds", type=float, help=f"how long all of it may take, instead of {SECONDS}")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="faults whose names have one of these")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
