"""A file that one machine alone has, while the bucket is away: another one serves it, or says at once why not."""

import os
import time
from collections.abc import Iterator
from hashlib import sha256

import pytest
import redis
import requests

from tests.support import file_server, moto_bucket
from tests.support.divided_sites import Machine, Machines, site_of_machines
from tests.support.moto_bucket import MotoBucket
from tests.support.stack import eventually

START_SECONDS = 120
RUN = ".venv/bin/python -m project.run"
BODIES = [bytes([number]) * 300_000 for number in range(2)]

pytestmark = pytest.mark.skipif(
    not os.environ.get("DATABASE_URL", "").startswith("postgres"), reason="SQLite has one machine"
)


@pytest.fixture(scope="module")
def bucket() -> Iterator[MotoBucket]:
    with moto_bucket.running() as running:
        yield running


@pytest.fixture(scope="module")
def machines(bucket: MotoBucket) -> Iterator[Machines]:
    """Two machines: `a` with all roles and the stores, `b` with a front, a main and a waiting instance."""
    with site_of_machines(STORAGE_URL=bucket.storage_url, FETCH_ALLOW_PRIVATE="127.0.0.0/8") as running:
        running.shared["PUBLIC_URL"] = "http://localhost"
        first = running.run("a", f"MACHINE_URL=127.0.0.1:$PORT {RUN}", PUBLIC_URL="http://localhost")
        wait_until_healthy(running, first)
        stores = {f"{name}_URL": f"unix://{first.runtime}/{socket}.sock" for name, socket in STORES.items()}
        second = running.run("b", f"ROLES=front,main,retry OBSERVE=0 RELEASE=0 {RUN}", **stores)
        wait_until_healthy(running, second)
        yield running


STORES = {"REDIS": "state", "CACHE": "cache"}


def wait_until_healthy(machines: Machines, machine: Machine) -> None:
    def is_healthy() -> bool:
        try:
            return requests.get(f"{machine.base_url}/healthz", timeout=5).status_code == 200
        except requests.RequestException:
            return False

    try:
        eventually(is_healthy, START_SECONDS, "it is healthy")
    except AssertionError as error:
        raise RuntimeError(machines.logs()) from error


def test_a_file_of_another_machine_is_served_while_the_bucket_is_away(machines: Machines, bucket: MotoBucket) -> None:
    first, second = machines.all["a"], machines.all["b"]
    bucket.remove()
    with file_server.running() as origin:
        origin.files = {f"/{number}": body for number, body in enumerate(BODIES)}
        urls = first.data / "urls.txt"
        urls.write_text("".join(f"{origin.url}{path}\n" for path in origin.files))
        machines.manage(first, "manage.py", "ingest", str(urls))
    digests = [sha256(body).hexdigest() for body in BODIES]
    held = first.data / "held" / digests[0][:2] / digests[0][2:4] / digests[0]
    assert held.read_bytes() == BODIES[0]

    found = requests.get(f"{second.base_url}/resources/{digests[0]}", timeout=10)
    assert (found.status_code, found.content) == (200, BODIES[0])
    part = requests.get(f"{second.base_url}/resources/{digests[0]}", headers={"Range": "bytes=5-9"}, timeout=10)
    assert (part.status_code, part.content) == (206, BODIES[0][5:10])

    state = redis.Redis(unix_socket_path=f"{first.runtime}/state.sock")
    assert state.get("{machine:a}:address") == first.base_url.removeprefix("http://").encode()
    eventually(lambda: state.exists("{machine:a}:upload-pause"), 30, "the first machine tells that it cannot upload")
    state.delete("{machine:a}:address")  # as without MACHINE_URL
    began = time.monotonic()
    refused = requests.get(f"{second.base_url}/resources/{digests[1]}", timeout=10)
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "10")
    assert time.monotonic() - began < 2

    bucket.make()
    eventually(lambda: len(bucket.names()) >= len(BODIES), 60, "all is uploaded")
    served = requests.get(f"{second.base_url}/resources/{digests[1]}", timeout=30)
    assert (served.status_code, served.content) == (200, BODIES[1])
