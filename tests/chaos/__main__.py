"""`python -m tests.chaos [--seconds N] [--only WORD…]`: the whole site under fire, and what came of it, as Markdown."""

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.chaos import faults, floods, invariants, means, schedule, starving
from tests.chaos.table import bad_ends, table
from tests.chaos.world import HOSTS, NAMED, SETTINGS, running
from tests.flows.stack import Stack

COLDS = 700
"""Files of each origin, each of which is asked for once: ten minutes of them, and a flood."""
SECONDS = 600
"""For all of it. Faults are begun as long as there is time to recover, to settle and to judge."""
AFTERWARDS_SECONDS = invariants.SETTLED_SECONDS + 40


def main() -> int:
    given = _given()
    means.move_apart(sys.argv[1:])
    began = time.monotonic()
    chosen = [one for one in everything() if not given.only or _matches(one.name, given.only)]
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="tarry-chaos-")))
        stack = Stack(**SETTINGS)
        found = held.enter_context(means.running(stack.data, folder, NAMED, HOSTS["named"]))
        stack.environment |= found.clock.environment if found.clock else {}
        world = held.enter_context(running(stack, folder, found, colds=COLDS))
        seconds = began + given.seconds - AFTERWARDS_SECONDS - time.monotonic()
        suffered = schedule.run(world, chosen, seconds, lambda line: print(line, file=sys.stderr, flush=True))
        world.client.leave()
        wrong = invariants.violations(world, suffered)
        print(table(suffered, world.client.records))
        print(*bad_ends(suffered, world.client.records), sep="\n", file=sys.stderr)
        if wrong:
            print(stack.logs(), file=sys.stderr)
    print(f"\n{len(world.client.records):,} visits in {time.monotonic() - began:.0f} s. ", end="")
    print("Every invariant held." if not wrong else "\n\n".join(["Violated:", *wrong]))
    return bool(wrong)


def everything() -> list[faults.Fault]:
    """The whole schedule, what cannot be made on this machine included."""
    apart = means.can_mount()
    gone = [*starving.of_stores(apart), *starving.of_others(apart), *starving.of_the_clock(means.can_compile())]
    return [*faults.kills(), *gone, *floods.floods(), *faults.pauses()]


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long all of it may take")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="faults whose names have one of these")
    return parser.parse_args()


def _matches(name: str, words: list[str]) -> bool:
    return any(word in name for word in words)


if __name__ == "__main__":
    sys.exit(main())
