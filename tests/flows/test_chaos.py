"""The short version of `make chaos`: a few faults under the steady client, and every invariant afterwards."""

from pathlib import Path

import pytest

from ..chaos import faults, invariants, schedule
from ..chaos.means import Means
from ..chaos.table import bad_ends, table
from ..chaos.world import SETTINGS, running
from ..support.stack import Stack

pytestmark = pytest.mark.no_database

CHOSEN = ("SIGKILL nginx worker", "SIGKILL state", "SIGKILL fetch")
"""A child, a store, and a process."""
SECONDS = 90 + schedule.PATIENCE_SECONDS


def test_the_site_keeps_its_promises_while_its_parts_fail(tmp_path: Path) -> None:
    with running(Stack(**SETTINGS), tmp_path, Means(), colds=150) as world:
        chosen = [one for one in faults.kills() if one.name in CHOSEN]
        suffered = schedule.run(world, chosen, SECONDS, print)
        world.leave()
        print(table(suffered, world.client.records), *bad_ends(suffered, world.client.records), sep="\n")
        assert invariants.violations(world, suffered) == []
        assert [one.fault.name for one in suffered if not one.skipped] == [one.name for one in chosen]
