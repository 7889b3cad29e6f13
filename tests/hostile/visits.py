"""Fetching from a hostile origin: the client under test, with limits that a test can wait for."""

import asyncio
import ssl
import tempfile
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from resources.fetch.http.allowed_ips import build_guard
from resources.fetch.http.client import DecideOnHead, FetchClient, OnSlowBody
from resources.fetch.http.deadlines import FetchPolicy
from resources.fetch.http.messages import Failure, Fetched, FetchFailed, FetchLimits, FetchRequest, Obstacle, Outcome

from ..support import clock
from .names import Names
from .origin import Behaviour, Origin, answer

LIMITS = FetchLimits(
    deadline_seconds=9,
    head_seconds=8,
    connect_seconds=7,
    min_bytes_per_second=1000,
    window_seconds=6,
    max_body_bytes=1_000_000,
    max_redirects=10,
    spool_bytes=50_000,
)
"""A fetch that ends for another reason ends before any of these, however busy the machine is."""
IMPATIENT = replace(LIMITS, deadline_seconds=3, head_seconds=1, window_seconds=0.5)
"""For an answer that never ends by itself."""
UNREACHED = replace(LIMITS, connect_seconds=0.6)
"""For an address without a connection."""
GRACE_SECONDS = 1.0
"""Time that a busy machine may take on top of a deadline."""
HOME = "127.0.0.1"
USER_AGENT = "Tarry (+https://tarry.example/contact)"


def served(certificate: Path) -> ssl.SSLContext:
    """The context of a server that has this certificate of our own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "certificate", certificate / "key")
    return context


def trusting(certificate: Path) -> ssl.SSLContext:
    """That of a client which trusts it."""
    return ssl.create_default_context(cafile=certificate / "certificate")


@asynccontextmanager
async def client(*, allowed: tuple[str, ...] = (HOME,), **given: Any) -> AsyncIterator[FetchClient]:
    """A client that may fetch from these loopback addresses. Leaves no file behind, or fails."""
    with tempfile.TemporaryDirectory(prefix="tarry-spool-") as name:
        directory = Path(name) / "spool"
        policy = FetchPolicy(
            build_guard([80, 443], allowed), USER_AGENT, directory, given.pop("allow_downgrade", False)
        )
        async with FetchClient(policy, **{"lookup": Names(), **given}) as opened:
            yield opened
            await _files_are_gone(directory)
        assert not directory.is_dir() or list(directory.iterdir()) == []


async def _files_are_gone(directory: Path) -> None:
    """A thread may be writing for a fetch that was cancelled: its file goes with that."""
    for _ in range(100):
        if not (left := list(directory.glob("*/*"))):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"files were left behind: {left}")


def visit(behaviour: Behaviour, limits: FetchLimits = LIMITS, **wanted: Any) -> Outcome:
    """The outcome of one fetch from an origin that behaves so, held to its deadline.

    Afterwards the same client fetches something decent from the same origin.
    """

    async def work() -> Outcome:
        async with visiting() as (origin, fetching):
            origin.does("/decent", answer(body=b"decent"))
            outcome = await timed(fetching, FetchRequest(origin.does("/", behaviour), limits=limits, **wanted))
            if isinstance(outcome, Fetched):
                outcome.body.discard()
            await assert_alive(fetching, origin)
            return outcome

    return asyncio.run(work())


def visit_and_measure(behaviour: Behaviour, limits: FetchLimits = LIMITS) -> tuple[Outcome, int]:
    """The outcome of `visit`, and the memory that Python took for it at the most."""
    tracemalloc.start()
    try:
        return visit(behaviour, limits), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def timed(
    fetching: FetchClient, fetch: FetchRequest, decide: DecideOnHead | None = None, slows: OnSlowBody | None = None
) -> Outcome:
    began = clock.seconds()
    outcome = await fetching.fetch(fetch, decide, slows)
    most = max(limits.deadline_seconds for limits in (fetch.limits, fetch.slow_limits) if limits)
    assert clock.seconds() - began < most + GRACE_SECONDS
    return outcome


async def assert_alive(fetching: FetchClient, origin: Origin) -> None:
    outcome = await fetching.fetch(FetchRequest(origin.does("/decent", answer(body=b"decent")), limits=LIMITS))
    assert isinstance(outcome, Fetched), outcome
    assert outcome.body.read() == b"decent"


def failure(outcome: Outcome) -> Failure:
    assert isinstance(outcome, FetchFailed), outcome
    return outcome.failure


def obstacle(outcome: Outcome) -> Obstacle | None:
    assert isinstance(outcome, FetchFailed), outcome
    return outcome.obstacle


@asynccontextmanager
async def visiting(**given: Any) -> AsyncIterator[tuple[Origin, FetchClient]]:
    """An origin, and a client as `client` makes it."""
    async with Origin() as origin, client(**given) as fetching:
        yield origin, fetching
