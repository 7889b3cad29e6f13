"""A rolling restart of two machines behind a balancer, under load: each one drains first."""

import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.crowd import Crowd
from tests.support.deployment import adapt_haproxy
from tests.support.divided_sites import Machine, Machines, site_of_machines
from tests.support.stack import answers, eventually, free_port

from .faults.test_upgrade import asked_steadily, ended, told

START_SECONDS = 120
BALANCER_SECONDS = 3
"""The balancer has found a machine by then that is ready again."""
RUN = ".venv/bin/python -m project.run"

pytestmark = pytest.mark.skipif(
    not os.environ.get("DATABASE_URL", "").startswith("postgres"), reason="SQLite has one machine"
)


@pytest.fixture(scope="module")
def balancer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Machines]]:
    """The address of HAProxy, as documented, before two machines of a site; its stores and painters on a third one."""
    port = free_port()
    shared = {"PUBLIC_URL": f"http://127.0.0.1:{port}", "DRAIN_SECONDS": "4", "TRUSTED_PROXIES": "127.0.0.1"}
    with site_of_machines(**shared) as all_of:
        all_of.shared["STORAGE_URL"] = f"file://{tmp_path_factory.mktemp('shared')}/blobs"
        all_of.release()
        stores = all_of.run("s", f"ROLES=state,cache,paint,work,beat,fetch RELEASE=0 {RUN}")
        given = {f"{name}_URL": f"unix://{stores.runtime}/{role}.sock" for name, role in STORES.items()}
        block = f"ROLES=front,main,retry OBSERVE=0 RELEASE=0 {RUN}"
        fronts = [all_of.run(name, block, **given) for name in ("a", "b")]
        with haproxy(tmp_path_factory.mktemp("haproxy"), port, fronts):
            address = f"http://127.0.0.1:{port}"
            try:
                for each in fronts:
                    wait_until_it_answers(f"{each.base_url}/healthz")
                wait_until_it_answers(f"{address}/healthz")
            except AssertionError as error:
                raise RuntimeError(all_of.logs()) from error
            yield address, all_of


STORES = {"REDIS": "state", "CACHE": "cache"}


class haproxy:  # noqa: N801  a context manager
    """A running HAProxy as in deploy/balancers, at these machines. It leaves clients that wait alone."""

    def __init__(self, folder: Path, port: int, machines: Sequence[Machine]) -> None:
        servers = {f"s{number}": each.base_url.removeprefix("http://") for number, each in enumerate(machines)}
        text = adapt_haproxy(f"127.0.0.1:{port}", servers)
        self._file = folder / "haproxy.cfg"
        self._file.write_text(text.replace(" on-marked-down shutdown-sessions", ""))

    def __enter__(self) -> None:
        self._process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "haproxy", "-db", "-f", str(self._file)])

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)


def test_a_rolling_restart_answers_no_503(balancer: tuple[str, Machines], name: str) -> None:
    address, machines = balancer
    cached = f"/slow/{name}cached?size=5000"
    with Crowd(address) as crowd:
        crowd.insist([cached])

        def questions(number: int) -> Sequence[str]:
            cold = [f"/slow/{name}{number}?seconds=0.1"] if number % 10 == 0 else []
            long = [f"/slow/{name}{number}?seconds=6"] if number % 100 == 50 else []
            return [cached, f"{cached}&n={number}", *cold, *long]

        with asked_steadily(crowd, questions) as sent:
            for machine in (machines.all["a"], machines.all["b"]):
                eventually(lambda: len(sent) > 20, 30, "requests are sent")
                machine.shut_down()
                machine.start()
                wait_until_it_answers(f"{machine.base_url}/healthz/ready")
                time.sleep(BALANCER_SECONDS)
        visits = ended(sent)
    assert len(visits) > 500
    assert Counter(told(visit) for visit in visits) == {"served": len(visits)}


def wait_until_it_answers(address: str) -> None:
    eventually(lambda: answers(address, 200), START_SECONDS, f"{address} is 200")
