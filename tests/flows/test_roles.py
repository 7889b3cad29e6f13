"""A site on several machines, by the documented commands: fronts, main and waiting instances and stores apart."""

import os
import re
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import requests

from tests.flows.slow.slow_content import SlowContent
from tests.support.crowd import Crowd
from tests.support.divided_sites import Machine, Machines, site_of_machines
from tests.support.documentation import commands
from tests.support.stack import eventually, free_port

from .faults.test_upgrade import asked_steadily, ended, told

START_SECONDS = 120
PASSWORD = "a long/one@home:1"  # every character that an address gives a meaning
QUOTED = "a%20long%2Fone%40home%3A1"
MAINS = ("127.0.0.2", "127.0.0.3")

pytestmark = pytest.mark.skipif(
    not os.environ.get("DATABASE_URL", "").startswith("postgres"), reason="SQLite has one machine"
)


class DividedSite:
    """Stores, two machines with both instances, the first of which also works, and a front."""

    def __init__(self, machines: Machines, folder: Path) -> None:
        self._machines = machines
        self.ports = {name: free_port() for name in ("main", "retry", "state", "cache", "metrics")}
        machines.run(
            "stores", self._here(commands("ROLES=state,cache")), DATABASE_URL="postgres://nobody@192.0.2.1/none"
        )
        machines.shared |= {
            "REDIS_URL": f"redis://:{QUOTED}@127.0.0.4:{self.ports['state']}/0",
            "CACHE_URL": f"redis://:{QUOTED}@127.0.0.4:{self.ports['cache']}/0",
            "STORAGE_URL": f"file://{folder}/blobs",
        }
        port = free_port()
        machines.shared |= {"PORT": str(port), "PUBLIC_URL": f"http://127.0.0.1:{port}"}
        machines.release()
        block = self._here(commands("ROLES=main,retry"))
        block_of_first = block.replace("main,retry", "main,retry,paint,fetch,work,beat", 1)
        metrics = f"{MAINS[0]}:{self.ports['metrics']}"
        self.first = machines.run("b", block_of_first, METRICS_LISTEN=metrics)
        self.second = machines.run("c", block.replace(*MAINS))
        self.front = machines.run("a", self._here(commands("ROLES=front OBSERVE=0")))
        self.base_url = self.front.base_url

    def wait_until_healthy(self) -> None:
        try:
            eventually(self._is_healthy, START_SECONDS, "all parts work")
        except AssertionError as error:
            raise RuntimeError(self._machines.logs()) from error

    def manage(self, *arguments: str) -> None:
        self._machines.manage(self.first, "manage.py", *arguments)

    def _is_healthy(self) -> bool:
        try:
            mains = [f"http://{host}:{self.ports['main']}/healthz" for host in MAINS]
            found = [requests.get(url, headers=self.host, timeout=5) for url in [*mains, f"{self.base_url}/healthz"]]
        except requests.RequestException:
            return False
        return {answer.status_code for answer in found} == {200}

    @property
    def host(self) -> dict[str, str]:
        return {"Host": "localhost"}

    def _here(self, block: str) -> str:
        """The documented commands at addresses of this machine."""
        block = block.replace("_PASSWORD=…", f"_PASSWORD='{PASSWORD}'")
        block = block.replace("10.0.0.0/28", "127.0.0.1/32").replace("10.0.0.5", MAINS[0]).replace("10.0.0.6", MAINS[1])
        block = block.replace("10.0.0.4", "127.0.0.4")
        documented = {"8100": "main", "8101": "retry", "6379": "state", "6380": "cache"}
        for port, name in documented.items():
            block = block.replace(f":{port}", f":{self.ports[name]}")
        return block


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DividedSite]:
    with site_of_machines(FETCH_ALLOW_PRIVATE="127.0.0.0/8", HOT_SECONDS="4") as machines:
        divided = DividedSite(machines, tmp_path_factory.mktemp("shared"))
        divided.wait_until_healthy()
        yield divided


def test_tiles_are_painted_and_served_through_a_front_that_has_neither_instance(
    site: DividedSite, tmp_path: Path
) -> None:
    line = tmp_path / "line.geojson"
    line.write_text(
        '{"type": "FeatureCollection", "features": [{"type": "Feature", "id": "a", "properties": {},'
        ' "geometry": {"type": "LineString", "coordinates": [[-90, 0.1], [90, 0.1]]}}]}'
    )
    site.manage("load_layer", "equator", "--lines", str(line))
    address = f"{site.base_url}/tiles/equator/1/0/0.png"
    eventually(lambda: requests.get(address, timeout=60).status_code == 200, 30, "the layer is known")
    cold = requests.get(f"{site.base_url}/tiles/equator/2/1/1.png", timeout=60)
    assert (cold.status_code, cold.headers["Content-Type"]) == (200, "image/png")
    assert [hop.status_code for hop in cold.history][:1] in ([302], [])  # a neighbour may have been painted with it
    warm = requests.get(address, timeout=10)
    assert (warm.status_code, warm.history) == (200, [])
    assert not (site.front.runtime / "main.sock").exists()


def test_a_client_waits_for_cold_content_on_another_machine(site: DividedSite, name: str) -> None:
    cold = requests.get(f"{site.base_url}/slow/{name}?seconds=0.5", timeout=60)
    assert cold.content == SlowContent(name).body
    assert [hop.status_code for hop in cold.history] == [302, 302]


def test_a_machine_without_a_front_tells_the_figures_of_its_processes(site: DividedSite, name: str) -> None:
    assert requests.get(f"{site.base_url}/slow/{name}?seconds=0", timeout=60).status_code == 200
    asked = f"http://{MAINS[0]}:{site.ports['metrics']}/metrics"
    told = requests.get(asked, timeout=10)
    assert told.headers["Content-Type"].startswith("text/plain; version=")
    assert re.search(r'^tarry_preparations_total\{outcome="stored",task="\S+"\} [1-9]', told.text, re.MULTILINE)


@pytest.mark.parametrize("instance", ["main", "retry"])
def test_other_machines_get_403_at_once(site: DividedSite, instance: str) -> None:
    address = (MAINS[0], site.ports[instance])
    with socket.create_connection(address, timeout=5, source_address=("127.0.0.9", 0)) as connection:
        assert connection.makefile("rb").readline() == b"HTTP/1.1 403 Forbidden\r\n"
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")


def test_the_stores_want_their_password(site: DividedSite) -> None:
    with socket.create_connection(("127.0.0.4", site.ports["state"]), timeout=5) as connection:
        connection.sendall(b"PING\r\n")
        assert connection.makefile("rb").readline().startswith(b"-NOAUTH")
    commands_seen = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert [line for line in commands_seen.splitlines() if "redis-server" in line and PASSWORD in line] == []


def test_no_request_fails_while_one_of_two_machines_with_main_is_killed_and_comes_back(
    site: DividedSite, name: str
) -> None:
    cached = f"/slow/{name}cached?size=5000"
    with Crowd(site.base_url) as crowd:
        crowd.insist([cached])

        def questions(number: int) -> Sequence[str]:
            cold = [f"/slow/{name}{number}?seconds=0.1"] if number % 10 == 0 else []
            return [cached, f"{cached}&n={number}", *cold]

        with asked_steadily(crowd, questions) as sent:
            eventually(lambda: len(sent) > 50, 30, "requests are sent")
            site.second.crash()
            eventually(lambda: len(sent) > 200, 60, "requests are sent")
            site.second.start()
            eventually(lambda: is_ready(site, site.second), START_SECONDS, "it is back")
            eventually(lambda: len(sent) > 300, 60, "requests are sent")
        visits = ended(sent)
    assert Counter(told(visit) for visit in visits) == {"served": len(visits)}


def is_ready(site: DividedSite, machine: Machine) -> bool:
    try:
        url = f"http://{MAINS[1]}:{site.ports['main']}/healthz/ready"
        return machine.process.poll() is None and requests.get(url, headers=site.host, timeout=2).status_code == 200
    except requests.RequestException:
        return False
