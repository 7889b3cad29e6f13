"""What has to hold afterwards, judged from outside: by the answers, by what the origins saw, by what is left."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any

from tests.chaos.origins import ENTRIES, file_at
from tests.chaos.schedule import Suffered
from tests.chaos.steady import End, Record
from tests.chaos.world import FEEDS, World, served

HANG_SECONDS = 30
"""No answer takes longer: main is given 5 s by nginx, the waiting instance has 10 s. The rest is a busy machine's."""
SETTLED_SECONDS = 90
MOST_SHOWN = 5
HALF_WRITTEN = ".new-*"
"""As `resources.mirroring.storing.blobs` names them."""
MARKS = (
    *("retry:claim:*", "retry:claims", "retry:queued:*", "retry:leases"),
    *("fetch:job:*", "fetch:wanted:*", "fetch:jobs:*", "fetch:leases"),
    *("mirror:after:*", "mirror:unsettled"),
)
KEPT = """
import json
from feeds.models import Feed
from feeds.subscriptions import Subscription
from resources.mirroring.knowing.models import Batch, BatchItem, Resource
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
    """All that does not hold, in words. The client has left by then; what is under way has `SETTLED_SECONDS`."""
    deadline = time.monotonic() + SETTLED_SECONDS
    return [
        *of_answers(world.client.records, suffered),
        *of_recoveries(suffered),
        *of_promises(world, deadline),
        *of_leftovers(world, deadline),
    ]


def of_answers(records: Sequence[Record], suffered: Sequence[Suffered]) -> Iterator[str]:
    """Of every visit: right bytes, an honest refusal, or a connection that a killed front broke. And in time."""
    excused = [one for one in suffered if one.fault.breaks_connections and not one.skipped]
    aged = [one for one in suffered if one.fault.ages_tickets and not one.skipped]
    for end in (End.WRONG, End.DISHONEST, End.HUNG):
        found = [record for record in records if record.end is end]
        yield from _shown(end.value, [one for one in found if not (_has_old_ticket(one) and _met_any(one, aged))])
    broken = [record for record in records if record.end is End.BROKEN]
    yield from _shown("broken without cause", [one for one in broken if not _met_any(one, excused)])
    yield from _shown(f"an answer above {HANG_SECONDS} s", [one for one in records if one.slowest > HANG_SECONDS])


def _has_old_ticket(record: Record) -> bool:
    return record.statuses[-2:] == (302, 403)


def _met_any(record: Record, suffered: Sequence[Suffered]) -> bool:
    return any(record.ended >= one.began and record.began <= one.over for one in suffered)


def _shown(what: str, records: Sequence[Record]) -> Iterator[str]:
    for record in records[:MOST_SHOWN]:
        yield f"{what}: {record.kind} {record.address[:150]} {record.statuses} {record.slowest:.1f} s {record.detail}"
    if len(records) > MOST_SHOWN:
        yield f"{what}: {len(records) - MOST_SHOWN} more"


def of_recoveries(suffered: Sequence[Suffered]) -> Iterator[str]:
    for one in suffered:
        if not one.skipped and one.recovered is None:
            yield f"not recovered from: {one.fault.name}"


def of_promises(world: World, deadline: float) -> Iterator[str]:
    """Every URL that was accepted is stored, every feed shows what the last ping told of, every feed is registered."""
    yield from _unless(deadline, "all feeds show what they were pinged for", lambda: _behind(world))
    yield from _unless(deadline, "all lists are finished, all that was accepted is stored", lambda: _lost(world))
    yield from _unless(deadline, "all subscriptions are in force", lambda: _unsubscribed(world))


def _behind(world: World) -> list[str]:
    least = {ping.path: ping.edition for ping in world.promises.pings.values()}
    shown: Counter[str] = Counter()
    for title in served(world.stack):
        path, _, edition = title.split(" ")
        shown[path] += int(edition) >= least.get(path, 0)
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


def of_leftovers(world: World, deadline: float) -> Iterator[str]:
    """No claim, mark or half-written file is left, and nobody waits."""
    yield from _unless(
        deadline,
        "nothing is in hand",
        lambda: [f"{key!r}" for name in MARKS for key in world.stack.state.scan_iter(name)],
    )
    yield from _unless(
        deadline, "nobody waits", lambda: [] if world.stack.metric("tarry_waiting_clients") == 0 else ["somebody"]
    )
    yield from _unless(
        deadline, "no file is half written", lambda: [str(path) for path in world.stack.data.rglob(HALF_WRITTEN)]
    )


def _unless(deadline: float, what: str, found: Callable[[], list[str]]) -> Iterator[str]:
    """Waits until nothing is found; says what still is when that takes too long."""
    while (left := found()) and time.monotonic() < deadline:
        time.sleep(0.5)
    if left:
        yield f"not so within {SETTLED_SECONDS} s: {what}: {len(left)}, as {', '.join(left[:MOST_SHOWN])}"
