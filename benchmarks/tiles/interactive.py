"""A cold tile of another server against that server's own time."""

import time
from collections.abc import Iterator
from itertools import count
from uuid import uuid4

from tests.support import tile_server
from tests.support.stack import Stack, eventually
from tests.support.tile_server import TileServer

from ..figures import Figure, Note, median, percentile
from ..load.clients import Client, connect, follow
from ..load.event_loop import run

SECONDS = 0.3
ROUNDS = 41
SLUG = "upstream"


def measure() -> Iterator[Figure | Note]:
    """One at a time: a cold tile by way of the site, the same from its server, and painted content of no cost."""
    with Stack() as stack, tile_server.running(seconds=SECONDS) as origin:
        stack.change_layers("load_layer", SLUG, "--upstream", origin.template)
        eventually(lambda: _is_known(stack), 10, "main knows the layer")
        rounds = run(_rounds(stack, origin))
    overheads = [(cold - direct) * 1000 for cold, direct, _ in rounds]
    yield Note(f"{ROUNDS} tiles of a server that takes {SECONDS * 1000:.0f} ms, two redirects followed")
    yield Figure("the server itself, median", median([direct for _, direct, _ in rounds]) * 1000, "ms")
    yield Figure("time to a cold tile of it − its own time, median of pairs", median(overheads), "ms")
    yield Figure("the same, p95", percentile(overheads, 0.95), "ms")
    yield Figure(
        "cold content that a painter prepares at no cost, median", median([own for *_, own in rounds]) * 1000, "ms"
    )


def _is_known(stack: Stack) -> bool:
    async def status() -> int:
        client = await connect(stack.host)
        visit = await follow(client, f"/tiles/{SLUG}.json")
        client.close()
        return visit.status

    return run(status()) == 200


async def _rounds(stack: Stack, origin: TileServer) -> list[tuple[float, float, float]]:
    """Seconds to the tile through the site, from its server, and to content that costs nothing to prepare."""
    site, server = await connect(stack.host), await connect(origin.url.removeprefix("http://"))
    numbers, found = count(), []
    for place in range(ROUNDS + 1):
        tile = f"/10/{next(numbers)}/300.png"
        cold = await _seconds(site, f"/tiles/{SLUG}{tile}", redirects=2)
        direct = await _seconds(server, tile, redirects=0)
        own = await _seconds(site, f"/slow/{uuid4().hex}?seconds=0&size=800&kind=free", redirects=2)
        if place:  # the first opens connections
            found.append((cold, direct, own))
    site.close()
    server.close()
    return found


async def _seconds(client: Client, path: str, *, redirects: int) -> float:
    began = time.time()
    visit = await follow(client, path)
    if visit.status != 200 or visit.redirects != redirects:
        raise RuntimeError(f"no content after {redirects} redirects: {visit}")
    return visit.answers[-1].at - began
