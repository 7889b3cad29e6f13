"""Fetchers against a real origin, as the engine's tests run them."""

import asyncio

from retry import claim_state
from retry.work import Work

from ..conftest import RedisServers
from ..hostile.origin import Behaviour, Origin, Peer, answer, held_until
from .fetcher_threads import ended, fetching, want
from .origin import page_work


async def fetch(work: Work) -> claim_state.ClaimState:
    """The end of the work, which a fetcher of its own does."""
    async with fetching():
        await want(work)
        return await ended(work)


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """One after the other, the last for ever."""
    left = list(behaviours)

    async def behave(peer: Peer) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(peer)

    return behave


def leftovers(servers: RedisServers) -> list[bytes]:
    """The keys of the frontier and the claims, without learnt and remembered ones."""
    of_domains = ("domain", "token", "idle", "queued", "evidence", "stalls", "clock", "woken")
    kept = tuple(f"fetch:{{0}}:{name}".encode() for name in of_domains)
    kept_too = (
        *(f"retry:{{0}}:{name}".encode() for name in ("d", "token", "server", "started", "failure")),
        b"fetch:{0}:fetchers",
    )
    of_fetchers = (b"fetch:{0}:machines", b"fetch:{0}:owners", b"fetch:{0}:owned", b"fetch:{0}:spread")
    return [key for key in servers.state.client.scan_iter() if not key.startswith(kept + kept_too + of_fetchers)]


async def one_joins_late(origin: Origin) -> None:
    """Two want a page, one of them while it is in flight already: both have it, by one request."""
    arrived, go = asyncio.Event(), asyncio.Event()
    url = origin.does("/a", held_until(go, answer(body=b"page"), arrived))
    first, late = page_work(url, "first"), page_work(url, "late")
    async with fetching():
        await want(first)
        await arrived.wait()
        await want(late)
        go.set()
        for work in (first, late):
            assert isinstance(await ended(work), claim_state.WorkDone)
    assert origin.targets == ["/a"]
