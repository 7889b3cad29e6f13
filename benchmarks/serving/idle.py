"""The memory that the whole site takes when nothing happens."""

import time
from collections.abc import Iterator

from tests.support.stack import Stack

from ..figures import Figure, Note
from ..machine import MEGABYTE, Memory, memory
from ..tiles.tile_requests import painted_tile

REST_SECONDS = 15
MEGABYTES, SMALL_MEGABYTES = 700, 380


def measure() -> Iterator[Figure | Note]:
    """All processes of `make run` with the demo, after a first tile, shared pages divided among them (PSS)."""
    for name, environment, bound in (
        ("default", {"FETCHERS": "2"}, MEGABYTES),
        ("SMALL=1", {"SMALL": "1"}, SMALL_MEGABYTES),
    ):
        with Stack(DEMO="1", **environment) as stack:
            painted_tile(stack)
            time.sleep(REST_SECONDS)
            parts, total = _by_part(stack), memory(stack.all_pids())
        for part, taken in parts:
            yield Note(f"{name}: {part:<14}{taken.share / MEGABYTE:6.0f} MB")
        yield Figure(f"idle memory of the whole stack, {name}", total.share / MEGABYTE, "MB", at_most=bound)
        yield Figure("the same by resident set, shared pages counted each time", total.resident / MEGABYTE, "MB")


def _by_part(stack: Stack) -> list[tuple[str, Memory]]:
    listed = stack.supervisor().supervisor.getAllProcessInfo()
    assert isinstance(listed, list)
    names = [str(info["name"]) for info in listed if info["pid"]]
    parts = [("supervisord", memory(stack.all_pids()[:1])), *((name, memory(stack.pids(name))) for name in names)]
    return sorted(parts, key=lambda part: -part[1].share)
