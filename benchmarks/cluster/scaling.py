"""Work that sleeps, on one, two and four machines of painters, or of fetchers: the throughput of each number."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from uuid import uuid4

from tests.cluster.network import Network
from tests.support.crowd import Crowd
from tests.support.server import Handler, serving

from ..figures import Figure, Note
from .machines import Machines, running

NUMBERS = (1, 2, 4)
PAINTERS, SLOTS = 8, 16
WORK_SECONDS = 1
ROUNDS = 10
"""So many pieces of work for each painter, or slot, of a machine: an ideal run takes as many seconds."""
DOMAINS = 64
"""So many for each machine: with as many pieces of work for each domain, all runs have the same end."""
LEAST = 0.9
WARM_SECONDS = 60
AT_ONCE, CLIENTS_PER_SECOND = 25, 100


def measure_painters() -> Iterator[Figure | Note]:
    """Pieces of work a second that painters of several machines finish, beside those of one."""
    settings = {"PAINT_WORKERS": str(PAINTERS)}
    rates = []
    for number in NUMBERS:
        with running(number, "paint", settings, waits_for="paint-now") as machines:
            _warm_painters(machines)
            names = [uuid4().hex for _ in range(PAINTERS * number * ROUNDS)]
            _ask(machines, [f"/slow/{name}?seconds={WORK_SECONDS}&kind=sleep" for name in names])
            began, ended = machines.events(names, "start"), machines.events(names, "finish")
        if len(ended) != len(names):
            raise RuntimeError(f"{len(ended)} of {len(names)} pieces of work were finished")
        rates.append(len(names) / (ended[-1] - began[0]))
    yield from _figures("painters", rates, PAINTERS / WORK_SECONDS)


def _warm_painters(machines: Machines) -> None:
    """Has work done until each machine has done some."""
    deadline = time.monotonic() + WARM_SECONDS
    names: list[str] = []
    while not all(any(host.executions(name) for name in names) for host in machines.workers):
        if time.monotonic() > deadline:
            raise RuntimeError("not every machine takes work")
        some = [uuid4().hex for _ in range(PAINTERS * len(machines.workers))]
        names += some
        _ask(machines, [f"/slow/{name}?seconds=0.3&kind=warm" for name in some])


def measure_fetchers() -> Iterator[Figure | Note]:
    """Pages a second that fetchers of several machines get from slow servers, beside those of one."""
    settings = {"FETCH_SLOTS": str(SLOTS), "FETCH_DELAY_SECONDS": "0.01", "FETCH_MAX_PER_SECOND": "0"}
    rates = []
    for number in NUMBERS:
        with (
            running(number, "fetch", settings, waits_for="fetch") as machines,
            origins(machines.network, DOMAINS * number) as slow,
        ):
            _warm_fetchers(machines, slow)
            slow.asked.clear()
            count = SLOTS * number * ROUNDS
            _ask(machines, [f"/fetched/?url={slow.urls[n % len(slow.urls)]}/{uuid4().hex}" for n in range(count)])
            asked = sorted(slow.asked)
        if len(asked) != count:
            raise RuntimeError(f"{len(asked)} requests for {count} pages")
        rates.append(count / (asked[-1][0] + WORK_SECONDS - asked[0][0]))
    yield from _figures("fetchers", rates, SLOTS / WORK_SECONDS)


@dataclass(slots=True)
class SlowOrigins:
    """Servers at a port each. `asked` has the time and the client's address of each request."""

    urls: list[str] = field(default_factory=list)
    asked: list[tuple[float, str]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)


@contextmanager
def origins(network: Network, domains: int) -> Iterator[SlowOrigins]:
    """Domains whose servers answer after a second."""
    slow = SlowOrigins()

    class Slow(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            with slow.lock:
                slow.asked.append((time.time(), self.client_address[0]))
            time.sleep(WORK_SECONDS)
            self.answer(200, self.path.encode(), Content_Type="text/plain")

    with ExitStack() as entered:
        slow.urls = [entered.enter_context(serving(Slow, (network.gateway, 0))) for _ in range(domains)]
        yield slow


def _warm_fetchers(machines: Machines, slow: SlowOrigins) -> None:
    """Has pages fetched until each machine has fetched some, and each domain is known."""
    deadline = time.monotonic() + WARM_SECONDS
    wanted = {host.place.address for host in machines.workers}
    while not wanted <= {address for _, address in slow.asked}:
        if time.monotonic() > deadline:
            raise RuntimeError("not every machine fetches")
        _ask(machines, [f"/fetched/?url={url}/{uuid4().hex}" for url in slow.urls])


def _ask(machines: Machines, addresses: Sequence[str]) -> None:
    """A client for each address, more a second than are served. Raises RuntimeError for other ends than content.

    A busy main may refuse a client that has waited: its work was done all the same, and is counted where that is.
    """
    with Crowd(machines.front.base_url) as crowd:
        coming = []
        for first in range(0, len(addresses), AT_ONCE):
            coming.append(crowd.send(addresses[first : first + AT_ONCE], patient=True))
            time.sleep(AT_ONCE / CLIENTS_PER_SECOND)
        visits = [visit for some in coming for visit in some.result(120)]
    if wrong := [visit for visit in visits if visit.status != 200 and not visit.is_honest_refusal]:
        told = f"{wrong[0].statuses} {wrong[0].body[:200]!r}"
        raise RuntimeError(f"{len(wrong)} clients got no content, one of them {told}")


def _figures(what: str, rates: Sequence[float], ideal: float) -> Iterator[Figure | Note]:
    for number, rate in zip(NUMBERS, rates, strict=True):
        yield Figure(f"{what}: pieces of work a second on {number} machines, of {ideal * number:g}", rate)
    for number, rate in zip(NUMBERS[1:], rates[1:], strict=True):
        yield Figure(f"{what}: {number} machines ÷ ({number} × one)", rate / (number * rates[0]), at_least=LEAST)
