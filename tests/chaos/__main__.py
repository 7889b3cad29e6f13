"""`python -m tests.chaos [--seconds N] [--only WORD…]`: the whole site under fire, and what came of it, as Markdown."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos import faults, invariants, schedule
from tests.chaos.table import bad_ends, table
from tests.chaos.world import SETTINGS, running
from tests.flows.stack import Stack

SECONDS = 420
"""For the faults. Starting, settling and judging take up to three minutes more."""


def main() -> int:
    given = _given()
    began = time.monotonic()
    chosen = [one for one in [*faults.kills(), *faults.pauses()] if not given.only or _matches(one.name, given.only)]
    with (
        tempfile.TemporaryDirectory(prefix="tarry-chaos-") as folder,
        running(Stack(**SETTINGS), Path(folder), colds=700) as world,
    ):
        suffered = schedule.run(world, chosen, given.seconds, lambda line: print(line, file=sys.stderr, flush=True))
        world.client.leave()
        wrong = invariants.violations(world, suffered)
        print(table(suffered, world.client.records))
        print(*bad_ends(world.client.records), sep="\n", file=sys.stderr)
        if wrong:
            print(world.stack.logs(), file=sys.stderr)
    print(f"\n{len(world.client.records):,} visits in {time.monotonic() - began:.0f} s. ", end="")
    print("Every invariant held." if not wrong else "\n\n".join(["Violated:", *wrong]))
    return bool(wrong)


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long faults may take together")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="faults whose names have one of these")
    return parser.parse_args()


def _matches(name: str, words: list[str]) -> bool:
    return any(word in name for word in words)


if __name__ == "__main__":
    sys.exit(main())
