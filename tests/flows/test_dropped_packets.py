"""A machine whose packets to PostgreSQL are dropped: in a network namespace of the test, which ends with it.

No server of the machine is touched: in the namespace a forwarder leads to the tests' own PostgreSQL.
"""

import http.client
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.divided_sites import Machine, site_of_machines
from tests.support.stack import ROOT, eventually

START_SECONDS = 120
BOUND_SECONDS = 15
"""TCP gives a silent connection up after 10 s (tcp_user_timeout), and a new one after 2 s."""
DATABASE_PORT = 15432
HOT_SECONDS = 5
ENTER = ("nsenter", "--net", "--target")
FORWARDER = textwrap.dedent(
    """
    import asyncio, sys

    async def pass_on(source, target):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        target.close()

    async def lead(reader, writer):
        try:
            there_reader, there_writer = await asyncio.open_unix_connection(sys.argv[1])
            await asyncio.gather(pass_on(reader, there_writer), pass_on(there_reader, writer))
        except OSError:
            writer.close()

    async def main():
        async with await asyncio.start_server(lead, "127.0.0.1", int(sys.argv[2])) as server:
            await server.serve_forever()

    asyncio.run(main())
    """
)


def may_have_namespaces() -> bool:
    tools = all(map(shutil.which, ("unshare", "nsenter", "nft", "ip")))
    return tools and subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.skipif(not os.environ.get("DATABASE_URL", "").startswith("postgres"), reason="needs PostgreSQL"),
    pytest.mark.skipif(not may_have_namespaces(), reason="network namespaces are not permitted here"),
]


class Namespace:
    """A network namespace with a loopback interface of its own."""

    def __init__(self, ends: ExitStack) -> None:
        self._ends = ends
        holder = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"])
        ends.callback(_stop, holder)
        self.prefix = (*ENTER, str(holder.pid))
        own = os.readlink("/proc/self/ns/net")
        eventually(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own, 10, "the namespace is there")
        self.run("ip", "link", "set", "lo", "up")
        self.run("nft", "add table inet cut; add chain inet cut out { type filter hook output priority 0; }")

    def run(self, *command: str) -> None:
        subprocess.run([*self.prefix, *command], check=True, capture_output=True, timeout=20)

    def start(self, *command: str) -> None:
        started = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *self.prefix, *command])
        self._ends.callback(_stop, started)

    @contextmanager
    def dropping(self, port: int) -> Iterator[None]:
        """Drops all packets to and from the port."""
        for direction in ("dport", "sport"):
            self.run("nft", f"add rule inet cut out tcp {direction} {port} drop")
        try:
            yield
        finally:
            self.run("nft", "flush chain inet cut out")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


class CutOffSite:
    """A site in the namespace, reached by the socket of its front."""

    def __init__(self, machine: Machine, namespace: Namespace) -> None:
        self.machine, self.namespace = machine, namespace

    def ask(self, address: str) -> tuple[int, float]:
        """The status of the answer, after redirects, and the seconds until it came."""
        began, status = time.monotonic(), 302
        while status == 302:
            status, address = self._ask_once(address)
        return status, time.monotonic() - began

    def ask_all(self, addresses: Sequence[str]) -> list[tuple[int, float]]:
        with ThreadPoolExecutor(len(addresses)) as threads:
            return list(threads.map(self.ask, addresses))

    def _ask_once(self, address: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("localhost", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(60)
        try:
            connection.sock.connect(str(self.machine.runtime / "front.sock"))
            connection.request("GET", address)
            answer = connection.getresponse()
            answer.read()
            return answer.status, answer.headers.get("Location", "")
        except OSError:
            return 0, ""
        finally:
            connection.close()


@pytest.fixture(scope="module")
def site() -> Iterator[CutOffSite]:
    with ExitStack() as ends:
        namespace = Namespace(ends)
        machines = ends.enter_context(site_of_machines(HOT_SECONDS=str(HOT_SECONDS)))
        shared = machines.shared["DATABASE_URL"]
        directory, _, name = shared.partition("@/")[2].rpartition("/")
        namespace.start(sys.executable, "-c", FORWARDER, f"/{directory}/.s.PGSQL.5432", str(DATABASE_PORT))
        machines.shared["DATABASE_URL"] = f"postgres://tarry@127.0.0.1:{DATABASE_PORT}/{name}"
        run = f"{' '.join(namespace.prefix)} {ROOT}/.venv/bin/python -m project.run"
        cut_off = CutOffSite(machines.run("a", run), namespace)
        try:
            eventually(lambda: cut_off.ask("/healthz")[0] == 200, START_SECONDS, "it is healthy")
        except AssertionError as error:
            raise RuntimeError(machines.logs()) from error
        yield cut_off


def test_requests_end_in_time_and_cached_content_goes_on_while_packets_to_the_database_are_dropped(
    site: CutOffSite, name: str
) -> None:
    cached, cold = f"/slow/{name}?size=5000", f"/slow/{name}cold"
    of_database = [f"/resources/{number:064}" for number in range(10)]
    assert site.ask(cached)[0] == 200
    assert {status for status, _ in site.ask_all(of_database)} == {404}
    time.sleep(HOT_SECONDS)  # nginx keeps that for a second
    with site.namespace.dropping(DATABASE_PORT):
        found = site.ask_all(of_database)
        assert {status for status, _ in found} == {503}
        assert max(seconds for _, seconds in found) < BOUND_SECONDS
        goes_on = [site.ask(f"{cached}&n={number}") for number in range(5)]  # each by main, from the cache
        goes_on += [site.ask(cached) for _ in range(5)]
        assert {status for status, _ in goes_on} == {200}
        assert max(seconds for _, seconds in goes_on) < 5
        assert site.ask(cold)[0] == 200  # the painter needs no database for it
        assert site.ask("/healthz/ready")[0] == 200
    eventually(lambda: site.ask(of_database[0])[0] == 404, 30, "the database is found again")
