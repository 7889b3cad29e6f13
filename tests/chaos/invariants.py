"""The invariants after a run, judged from outside: by the answers, the origins' log and the leftovers."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from ..support.stack import Stack
from . import lateness, leftovers
from .origins import ENTRIES, file_at
from .promises import editions
from .schedule import Suffered
from .steady import End, Record
from .world import FEEDS, World, served

LEAVING_SECONDS = 5
"""Seconds after which no client waits."""
SETTLED_SECONDS = 90
FORGETTING, FORGOTTEN_SECONDS = "FLUSHALL of state", 150
"""The feeder checks handed-over URLs again after two minutes (`mirror.ingest.feeder.IN_HAND_SECONDS`)."""
MOST_SHOWN = 5
KEPT = """
import json
from feeds.models import Feed
from feeds.hub_models import Subscription
from resources.mirror.models import Batch, BatchItem, Resource
print(json.dumps({
    "rows": dict(Resource.objects.values_list("url", "blob_digest")),
    "open": Batch.objects.filter(finished_at=None).count(),
    "items": dict(BatchItem.objects.values_list("url", "blob_digest")),
    "in hand": Feed.objects.filter(handed_over_at__isnull=False).count(),
    "flagged": Feed.objects.filter(flagged_at__isnull=False).count(),
    "in force": Subscription.objects.filter(state="in force").count(),
}))
"""


def violations(world: World, suffered: Sequence[Suffered]) -> list[str]:
    """All violations, in words. Call it after the client has left; running work gets some time to end."""
    deadline = settled_by(time.monotonic(), suffered)
    return [
        *of_waiting(world.stack),
        *of_answers(world.client.records, suffered),
        *of_recoveries(suffered),
        *of_effects(suffered),
        *([f"the client died: {world.client.died}"] if world.client.died else []),
        *world.prewarming.violations(),
        *of_promises(world, deadline),
        *lateness.of_pings(world.promises, world.origins["well"].asked, suffered),
        *of_leftovers(world.stack, deadline),
    ]


def settled_by(now: float, suffered: Sequence[Suffered]) -> float:
    """The time by which all running work must end, also work that `state` has forgotten."""
    forgotten = [one.ended for one in suffered if one.fault.name == FORGETTING and not one.skipped]
    return max([now + SETTLED_SECONDS, *(at + FORGOTTEN_SECONDS for at in forgotten)])


def of_waiting(stack: Stack) -> Iterator[str]:
    deadline = time.monotonic() + LEAVING_SECONDS
    yield from _unless(deadline, "nobody waits", lambda: _somebody(stack.metric("tarry_waiting_clients")))


def _somebody(number: float) -> list[str]:
    return [f"{number:.0f} clients"] if number else []


def of_answers(records: Sequence[Record], suffered: Sequence[Suffered]) -> Iterator[str]:
    """Every visit ends in time: right bytes, an honest refusal, or a connection that a killed front broke."""
    excused = [one for one in suffered if one.fault.breaks_connections and not one.skipped]
    aged = [one for one in suffered if one.fault.ages_tickets and not one.skipped]
    for end in (End.WRONG, End.DISHONEST, End.HUNG):
        found = [record for record in records if record.end is end]
        yield from _shown(end.value, [one for one in found if not (_has_old_ticket(one) and _met_any(one, aged))])
    broken = [record for record in records if record.end is End.BROKEN]
    yield from _shown("broken without cause", [one for one in broken if not _met_any(one, excused)])
    late = [one for one in records if any(leg.seconds > lateness.bound(leg, suffered) for leg in one.legs)]
    yield from _shown("an answer later than promised", late)


def _has_old_ticket(record: Record) -> bool:
    return record.statuses[-2:] == (302, 403)


def _met_any(record: Record, suffered: Sequence[Suffered]) -> bool:
    return any(record.ended >= one.began and record.began <= one.over for one in suffered)


def _shown(what: str, records: Sequence[Record]) -> Iterator[str]:
    for record in records[:MOST_SHOWN]:
        way = " ".join(f"{leg.path[:20]} {leg.seconds:.1f} s" for leg in record.legs)
        yield f"{what}: {record.kind} {record.address[:150]} {record.statuses} {way} {record.detail}"
    if len(records) > MOST_SHOWN:
        yield f"{what}: {len(records) - MOST_SHOWN} more"


def of_recoveries(suffered: Sequence[Suffered]) -> Iterator[str]:
    for one in suffered:
        if not one.skipped and one.recovered is None:
            yield f"not recovered from: {one.fault.name}"


def of_effects(suffered: Sequence[Suffered]) -> Iterator[str]:
    """The faults without a visible effect, whose rows prove nothing."""
    for one in suffered:
        if one.missing:
            yield f"without effect: {one.fault.name}: {one.missing}"


def of_promises(world: World, deadline: float) -> Iterator[str]:
    """Every accepted URL is stored, every feed shows the news of its last ping, every feed is registered."""
    yield from _unless(deadline, "all feeds show what they were pinged for", lambda: _behind(world))
    yield from _unless(deadline, "all lists are finished, all that was accepted is stored", lambda: _lost(world))
    yield from _unless(deadline, "all subscriptions are in force", lambda: _unsubscribed(world))


def _behind(world: World) -> list[str]:
    least: Counter[str] = Counter()
    for ping in world.promises.pings:
        least[ping.path] = max(least[ping.path], ping.edition)
    found = editions(served(world.stack))
    world.promises.see(found)
    shown: Counter[str] = Counter()
    for path, edition in found:
        shown[path] += edition >= least[path]
    return [f"{path} {number}" for path, number in shown.items() if number != len(ENTRIES)] or (
        [] if len(shown) == FEEDS else ["not all feeds are shown"]
    )


def _lost(world: World) -> list[str]:
    kept = _kept(world)
    expected = {
        url: sha256(file_at("/files" + url.partition("/files")[2])).hexdigest() for url in world.promises.accepted
    }
    lost = [
        f"{url}: {kept['rows'].get(url, 'no row')}"
        for url, digest in expected.items()
        if kept["rows"].get(url) != digest
    ]
    untold = [f"{url}: not in its list" for url, digest in expected.items() if kept["items"].get(url) != digest]
    states = [f"{kept[name]} {name}" for name in ("open", "in hand", "flagged") if kept[name]]
    return lost + untold + states


def _unsubscribed(world: World) -> list[str]:
    in_force = _kept(world)["in force"]
    return [] if in_force == world.subscribed else [f"{in_force} of {world.subscribed}"]


def _kept(world: World) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(world.stack.manage("shell", "-v", "0", "-c", KEPT).splitlines()[-1])
    return told


def of_leftovers(stack: Stack, deadline: float) -> Iterator[str]:
    yield from _unless(deadline, "nothing is in hand", lambda: leftovers.marks(stack.state))
    yield from _unless(deadline, "nothing is counted as under way", lambda: leftovers.counts(stack.state))
    files = partial(leftovers.temporary_files, stack.data, stack.runtime)
    yield from _unless(deadline, "no temporary file is left", files)


def _unless(deadline: float, what: str, found: Callable[[], list[str]]) -> Iterator[str]:
    """Waits until nothing is found. Yields the rest after the deadline."""
    began = time.monotonic()
    while (left := found()) and time.monotonic() < deadline:
        time.sleep(0.5)
    if left:
        yield f"not so within {time.monotonic() - began:.0f} s: {what}: {len(left)}, as {', '.join(left[:MOST_SHOWN])}"
