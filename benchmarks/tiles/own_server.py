"""A slow tile server of the operator's own, and a crowd for its cold tiles: the share that gets them, and when."""

import asyncio
import time
from collections.abc import Iterator

from tests.support import tile_server
from tests.support.stack import Stack, eventually

from ..figures import Figure, Note
from ..load.clients import Visit, connect, follow
from ..load.event_loop import run

SECONDS, CLIENTS = 5.0, 400
IN_FLIGHT = 64
SLUG = "own"
MOST_SECONDS = 60
ZOOM = 10


def measure() -> Iterator[Figure | Note]:
    """Every client asks once for a tile of its own, and follows its redirects. The site is as it is by default."""
    with Stack() as stack, tile_server.running(seconds=SECONDS) as origin:
        stack.change_layers("load_layer", SLUG, "--upstream", origin.template, "--in-flight", str(IN_FLIGHT))
        eventually(lambda: _is_known(stack.host), 10, "main knows the layer")
        began = time.time()
        visits = run(_crowd(stack.host))
        served = [visit for visit in visits if visit.status == 200]
        asked, peak = len(origin.asked), origin.peak
    yield Note(f"{CLIENTS} clients for as many cold tiles of a server that takes {SECONDS:g} s, {IN_FLIGHT} at a time")
    yield Figure("clients that get their tile", len(served), at_least=CLIENTS)
    yield Figure("time to the last tile", max(v.answers[-1].at for v in visits) - began, "s", at_most=MOST_SECONDS)
    yield Figure("redirects of a client, most", max(visit.redirects for visit in visits))
    yield Figure("requests that the server got", asked, at_most=CLIENTS)
    yield Figure("requests in flight at the server, most", peak, at_most=IN_FLIGHT)


def _is_known(host: str) -> bool:
    return run(_visit(host, f"/tiles/{SLUG}.json")).status == 200


async def _crowd(host: str) -> list[Visit]:
    return await asyncio.gather(*(_visit(host, f"/tiles/{SLUG}/{ZOOM}/{place}/300.png") for place in range(CLIENTS)))


async def _visit(host: str, path: str) -> Visit:
    client = await connect(host)
    try:
        return await follow(client, path)
    finally:
        client.close()
