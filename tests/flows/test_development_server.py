"""One process for everything that HTTP asks, as `manage.py runserver` is: no nginx, no waiting instance."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from ..support import clock
from ..support.crowd import Crowd
from ..support.documentation import code_block
from ..support.redis_servers import RedisServer
from ..support.stack import ROOT, Stack, answers, eventually, free_port
from .slow.events import Diary
from .slow.slow_content import SlowContent

QUEUES = "paint.now,paint.refresh,paint.warm,work"
START_SECONDS = 40


@dataclass(frozen=True, slots=True)
class DevelopmentServer:
    base_url: str
    data: Path

    def executions(self, name: str) -> int:
        return Diary(self.data / "slow", name).count("start")


@pytest.fixture(scope="module")
def server() -> Iterator[DevelopmentServer]:
    """runserver, one worker and two Redis servers."""
    with ExitStack() as ending:
        directory = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="tarry-dev-", dir="/tmp")))
        for name in ("state", "cache"):
            redis_server = RedisServer(directory / f"{name}.sock")
            redis_server.start()
            ending.callback(redis_server.stop)
        port = free_port()
        environment = _environment(directory, port)
        serving = ["manage.py", "runserver", "--noreload", f"127.0.0.1:{port}"]
        working = ["-m", "celery", "-A", "project", "--quiet", "worker", "--queues", QUEUES, "--concurrency", "1"]
        for command in (serving, working):
            ending.callback(_kill, _start([sys.executable, *command], environment, directory))
        running = DevelopmentServer(f"http://127.0.0.1:{port}", directory)
        eventually(lambda: answers(f"{running.base_url}/retry_after", 400), START_SECONDS, "the server answers")
        yield running


@pytest.fixture
def beside(stack: Stack) -> Iterator[str]:
    """runserver on the data of a running site, as CONTRIBUTING.md has developers start it; its address."""
    port = free_port()
    named = ("PATH", "HOME", "DATA_DIR", "RUNTIME_DIR", "DATABASE_URL", "DJANGO_SETTINGS_MODULE")
    environment = {name: stack.environment[name] for name in named if name in stack.environment}
    block = code_block("CONTRIBUTING.md", "", "runserver").replace("8001", str(port))
    process = _start(["bash", "-ec", block], environment, stack.directory)
    try:
        eventually(lambda: answers(f"http://127.0.0.1:{port}/retry_after", 400), START_SECONDS, "the server answers")
        yield f"http://127.0.0.1:{port}"
    finally:
        _kill(process)


def _environment(directory: Path, port: int) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "DJANGO_SETTINGS_MODULE": "tests.flows.settings",
        "DEBUG": "1",
        "DATA_DIR": str(directory),
        "RUNTIME_DIR": str(directory),
        "PORT": str(port),
    }


def _start(command: list[str], environment: dict[str, str], directory: Path) -> "subprocess.Popen[bytes]":
    with (directory / "output.log").open("ab") as output:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )


def _kill(process: "subprocess.Popen[bytes]") -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.no_database
def test_one_process_sends_to_wait_and_waits_itself(server: DevelopmentServer, name: str) -> None:
    answer = requests.get(f"{server.base_url}/slow/{name}?seconds=0.5", timeout=30)
    assert [step.status_code for step in answer.history] == [302, 302]
    assert answer.content == SlowContent(name).body
    assert server.executions(name) == 1


@pytest.mark.no_database
def test_one_process_shows_people_the_waiting_page_and_tells_its_state(server: DevelopmentServer, name: str) -> None:
    address = f"{server.base_url}/slow/{name}?html=1&gated=1"
    answer = requests.get(address, headers={"Accept": "text/html"}, timeout=30)
    assert ([step.status_code for step in answer.history], answer.status_code) == ([302], 503)
    status = re.search('data-status="([^"]+)"', answer.text)
    assert status is not None
    told = requests.get(f"{server.base_url}{unescape(status[1])}", headers={"Prefer": "wait=9"}, timeout=5)
    assert (told.status_code, told.json()["waiting"]) == (202, "Work on it has begun.")
    Diary(server.data / "slow", name).open_gate()


@pytest.mark.no_database
def test_an_address_need_not_be_ascii(server: DevelopmentServer, name: str) -> None:
    with socket.create_connection(("127.0.0.1", urlsplit(server.base_url).port or 80), 10) as client:
        client.sendall(f"GET /slow/{name}?x=caf\u00e9 HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
        answer = client.makefile("rb").read()
    assert b" 302 " in answer.split(b"\r\n")[0]
    assert b"caf%25C3%25A9" in answer, "the way back, encoded within the ticket"


@pytest.mark.no_database
def test_many_clients_of_one_process_cost_one_preparation(server: DevelopmentServer, name: str) -> None:
    with Crowd(server.base_url) as crowd:
        visits = crowd.send([f"/slow/{name}?seconds=0.5"] * 30).result(30)
    assert {visit.body for visit in visits} == {SlowContent(name).body}
    assert server.executions(name) == 1


@pytest.mark.no_database
def test_a_server_beside_the_site_uses_its_workers_and_waits_itself(beside: str, stack: Stack, name: str) -> None:
    answer = requests.get(f"{beside}/slow/{name}?seconds=0.5", timeout=30)
    assert [step.status_code for step in answer.history] == [302, 302]
    assert {step.url.removeprefix(beside)[0] for step in answer.history} == {"/"}
    assert answer.content == SlowContent(name).body
    assert stack.executions(name) == 1


@pytest.mark.no_database
@pytest.mark.parametrize("query", ["", "?redirect=/", "?hop=nan&retry_after=inf", "?hop=1&hop=1", "?retry_after=-1"])
def test_bad_parameters_are_refused_at_once(query: str, server: DevelopmentServer) -> None:
    began = clock.seconds()
    answer = requests.get(f"{server.base_url}/retry_after{query}", timeout=30)
    assert answer.status_code == 400
    assert answer.json()["status"] == 400
    assert clock.seconds() - began < 1
