"""The work of `state` and `cache` for one content of each kind, and the rate at which `state` is full."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from secrets import token_hex
from socket import AF_UNIX, socket
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from tests.chaos.origins import Origin
from tests.cluster.servers import RedisNode
from tests.support.crowd import Crowd
from tests.support.stack import eventually

from ..figures import Figure, Note
from .machines import Machines, running

REST_SECONDS = 10
CLIENTS, ROUNDS, HITS, FILES, DOMAINS = 50, 8, 2000, 500, 50
STORING_SECONDS = 120
SETTINGS = {
    "FETCH_DELAY_SECONDS": "0.001",
    "FETCH_MAX_PER_SECOND": "0",
    "FETCH_IN_FLIGHT": "20",
    "FETCH_SLOTS": "50",
    "FEEDS_SCAN_SECONDS": "60",
}
STORED = """
from resources.mirror.models import Resource
print(Resource.objects.filter(url__startswith="{url}/files/{run}/", blob_digest__gt="").count())
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """The work of Redis servers that are for the same."""

    calls: float
    bytes: float
    cpu_seconds: tuple[float, ...]
    """Of each server."""

    @classmethod
    def so_far(cls, nodes: Sequence[RedisNode]) -> "Spent":
        found = [node.client.info("all") for node in nodes]
        calls = sum(one[name]["calls"] for one in found for name in one if name.startswith("cmdstat_"))
        moved = sum(one["total_net_input_bytes"] + one["total_net_output_bytes"] for one in found)
        return cls(calls, moved, tuple(one["used_cpu_user"] + one["used_cpu_sys"] for one in found))

    def less(self, other: "Spent", times: float = 1) -> "Spent":
        cpu = tuple(mine - times * its for mine, its in zip(self.cpu_seconds, other.cpu_seconds, strict=True))
        return Spent(self.calls - times * other.calls, self.bytes - times * other.bytes, cpu)

    def by(self, number: float) -> "Spent":
        return Spent(self.calls / number, self.bytes / number, tuple(each / number for each in self.cpu_seconds))


def measure_one() -> Iterator[Figure | Note]:
    """The work of one server for `state` and one for `cache`."""
    yield from _measure("plain")


def measure_nodes() -> Iterator[Figure | Note]:
    """The work of a Cluster of three nodes for `state`, each with a replica, and of a server for Celery's queues."""
    yield from _measure("cluster")


def _measure(kind: str) -> Iterator[Figure | Note]:
    """Calls, bytes and CPU time of all servers, without those of an idle site for as long."""
    with running(1, "paint,fetch", SETTINGS, waits_for="fetch", kind=kind) as machines, ExitStack() as entered:
        origins = [Origin(machines.network.gateway) for _ in range(DOMAINS)]
        for origin in origins:
            origin.come()
            entered.callback(origin.go)
        contents: dict[str, Callable[[], int]] = {
            "cold tile": partial(ask_for_cold_tiles, machines),
            "main hit": partial(ask_main, machines),
            "fetched page": partial(ask_for_pages, machines, origins),
            "mirrored file": partial(mirror_files, machines, origins[0]),
        }
        contents["cold tile"]()  # everything runs
        idle = _idle(machines)
        for name in idle:
            yield Figure(f"{name}: calls a second of an idle site", idle[name].calls)
            yield Figure(f"{name}: CPU of an idle site", sum(idle[name].cpu_seconds) * 100, "%")
        for content, do in contents.items():
            yield from _costs(machines, content, do, idle)


def _spent(machines: Machines) -> dict[str, Spent]:
    return {name: Spent.so_far(nodes) for name, nodes in machines.stores.redis.servers().items()}


def _idle(machines: Machines) -> dict[str, Spent]:
    """The work of the servers in a second without requests."""
    before = _spent(machines)
    time.sleep(REST_SECONDS)
    return {name: spent.less(before[name]).by(REST_SECONDS) for name, spent in _spent(machines).items()}


def _costs(machines: Machines, content: str, do: Callable[[], int], idle: dict[str, Spent]) -> Iterator[Figure]:
    before = _spent(machines)
    began = time.monotonic()
    number = do()
    seconds = time.monotonic() - began
    for name, so_far in _spent(machines).items():
        spent = so_far.less(before[name]).less(idle[name], seconds).by(number)
        yield Figure(f"{content}: calls of {name}", spent.calls)
        yield Figure(f"{content}: bytes in and out of {name}", spent.bytes)
        yield Figure(f"{content}: CPU of {name}", sum(spent.cpu_seconds) * 1e6, "µs")
        if name == "state" and max(spent.cpu_seconds) > 0:
            yield Figure(
                f"{content}: a second at which a server of state is full, one core", 1 / max(spent.cpu_seconds)
            )


def ask_for_cold_tiles(machines: Machines) -> int:
    """Clients for content that was never asked for, each waiting for its own. Returns their number."""
    return _ask(machines, [f"/slow/{token_hex(8)}?kind=cold&size=10000" for _ in range(CLIENTS * ROUNDS)])


def ask_for_pages(machines: Machines, origins: list[Origin]) -> int:
    """The same for pages of other servers, which are fetched."""
    urls = [f"{origins[n % DOMAINS].url}/files/{token_hex(8)}" for n in range(CLIENTS * ROUNDS)]
    return _ask(machines, [f"/fetched/?url={url}" for url in urls])


def _ask(machines: Machines, addresses: list[str]) -> int:
    with Crowd(machines.front.base_url) as crowd:
        for first in range(0, len(addresses), CLIENTS):
            visits = crowd.send(addresses[first : first + CLIENTS]).result(60)
            if wrong := [visit for visit in visits if visit.status != 200]:
                raise RuntimeError(f"{len(wrong)} clients got no content: {wrong[0].statuses} {wrong[0].body[:200]!r}")
    return len(addresses)


def ask_main(machines: Machines) -> int:
    """Requests to main for cached content, past nginx. Returns their number."""
    address = f"/slow/{token_hex(8)}?size=10000"
    _ask(machines, [address])
    connection = HTTPConnection(urlsplit(machines.front.base_url).netloc)
    connection.sock = socket(AF_UNIX)
    connection.sock.connect(str(machines.front.runtime / "main.sock"))
    for _ in range(HITS):
        connection.request("GET", address)
        answer = connection.getresponse()
        if len(answer.read()) != 10_000 or answer.status != 200:
            raise RuntimeError(f"main answered {answer.status}")
    connection.close()
    return HITS


def mirror_files(machines: Machines, origin: Origin) -> int:
    """Files of a list, until all are stored. Returns their number."""
    run = token_hex(4)
    with TemporaryDirectory() as folder:
        listed = Path(folder) / "urls.txt"
        listed.write_text("".join(f"{origin.url}/files/{run}/{number}\n" for number in range(FILES)))
        machines.front.manage("ingest", "--no-wait", str(listed))
    question = STORED.format(url=origin.url, run=run)
    are_stored = lambda: int(machines.front.manage("shell", "-v", "0", "-c", question)) == FILES  # noqa: E731
    eventually(are_stored, STORING_SECONDS, "all files are stored")
    return FILES
