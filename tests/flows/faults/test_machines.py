"""Machines that share the stores of one site: by role, released once, one active beat, each under its own name."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import requests

from resources import machines
from tests.flows.slow.slow_content import SlowContent
from tests.support.databases import OwnDatabase
from tests.support.documentation import commands
from tests.support.processes import kill_family
from tests.support.stack import ROOT, Stack, eventually

from .conftest import IMPATIENT

SECONDS = 30
DATABASE_URL = os.environ.get("DATABASE_URL", "")

pytestmark = pytest.mark.skipif(not DATABASE_URL.startswith("postgres"), reason="SQLite has one machine")


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The first machine, which has all roles and the stores."""
    with Stack(**IMPATIENT, MACHINE="a") as first:
        yield first


@contextmanager
def another_machine(stack: Stack, directory: Path, block: str, **environment: str) -> Iterator[Path]:
    """A machine that runs the block with the stores of the first one. Yields its data directory."""
    data = directory / "data"
    given = {**stack.environment, **stores_of(stack), "DATA_DIR": str(data), "RUNTIME_DIR": f"{stack.directory}/b"}
    given |= {"MACHINE": "b", **environment}
    with (directory / "output").open("wb") as output:
        running = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", "bash", "-ec", f"exec {block}"],
            cwd=ROOT,
            env=given,
            stdout=output,
            stderr=output,
            process_group=0,
        )
    try:
        yield data
    finally:
        kill_family(running)
        stack.state.hdel(machines.KEY, given["MACHINE"])  # it will not come back


def stores_of(stack: Stack) -> Mapping[str, str]:
    return {
        "REDIS_URL": f"unix://{stack.runtime}/state.sock",
        "CACHE_URL": f"unix://{stack.runtime}/cache.sock",
        "STORAGE_URL": f"file://{stack.data}/blobs",
        "SECRET_KEY": stack.secret_key,
    }


def documented_machine(stack: Stack) -> str:
    """The documented start of a machine by role, with the stores of the first one."""
    block = commands("ROLES=paint,fetch")
    stores = {**stores_of(stack), "DATABASE_URL": stack.environment["DATABASE_URL"]}
    for name in ("REDIS_URL", "CACHE_URL", "DATABASE_URL", "STORAGE_URL"):
        scheme = {"DATABASE_URL": "postgres", "STORAGE_URL": "s3"}.get(name, "redis")
        block = block.replace(f"{name}={scheme}://…", f"{name}={stores[name]}")
    return f"env {block}"


def test_a_machine_that_paints_takes_the_work_of_one_that_no_longer_does(
    stack: Stack, tmp_path: Path, name: str
) -> None:
    stack.stop("paint-now")
    try:
        with another_machine(stack, tmp_path, documented_machine(stack)):
            found = requests.get(f"{stack.base_url}/slow/{name}", timeout=2 * SECONDS)
            assert found.content == SlowContent(name).body
    finally:
        stack.begin("paint-now")
    assert "nginx.log" not in {path.name for path in (tmp_path / "data" / "logs").iterdir()}


def test_another_beat_takes_over_from_a_machine_that_is_gone(stack: Stack, tmp_path: Path) -> None:
    active = stack.state.get("beat:active")
    assert active
    with another_machine(stack, tmp_path, "env ROLES=work,beat RELEASE=0 .venv/bin/python -m project.run") as data:
        eventually(lambda: stack.state.exists("workers:work.b"), SECONDS, "its worker is there")
        assert stack.state.get("beat:active") == active
        stack.stop("beat")
        try:
            eventually(lambda: stack.state.get("beat:active") not in {None, active}, 15, "it has taken over")
            installation = (data / "machine").read_text().split()[1].encode()
            assert bytes(stack.state.get("beat:active")).startswith(installation)  # type: ignore[arg-type]
            stack.state.delete("retry:{0}:swept")
            eventually(lambda: stack.state.exists("retry:{0}:swept"), SECONDS, "claims are swept")
        finally:
            stack.begin("beat")


def test_no_fetcher_runs_under_the_name_of_another_machine(stack: Stack, tmp_path: Path) -> None:
    stack.state.set("machine:b", "another installation", ex=2 * SECONDS)  # whose supervisord is not heard
    with another_machine(stack, tmp_path, documented_machine(stack)) as data:
        log = data / "logs" / "fetch.log"
        eventually(lambda: log.exists() and "has the name b" in log.read_text(), SECONDS, "its fetcher says so")
    stack.state.delete("machine:b")


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("MACHINE", "a", "Another machine is called a."),
        ("SECRET_KEY", "another", "SECRET_KEY is not the same here and on the machine a."),
        ("PUBLIC_URL", "https://b.example", "PUBLIC_URL is not the same here and on the machine a."),
    ],
)
def test_a_machine_that_contradicts_another_does_not_start(
    stack: Stack, tmp_path: Path, setting: str, value: str, reason: str
) -> None:
    eventually(lambda: stack.state.hexists(machines.KEY, "a"), SECONDS, "the first machine is heard")
    (tmp_path / "b").mkdir()
    given = {**stack.environment, **stores_of(stack), "MACHINE": "b", "DATA_DIR": f"{tmp_path}/b/data"}
    given |= {"RUNTIME_DIR": f"{stack.directory}/b", "RELEASE": "0", "ROLES": "work", setting: value}
    command = [sys.executable, "-m", "project.run"]
    done = subprocess.run(
        command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=2 * SECONDS, check=False
    )
    assert (done.returncode, reason in done.stderr) == (1, True), done.stderr
    assert value == "a" or value not in done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGKILL, 503), (signal.SIGTERM, 200)])
def test_a_machine_that_is_switched_off_is_told_of_and_one_that_is_stopped_is_not(
    stack: Stack, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    def is_alive() -> bool:
        return any(one.name == "b" and one.is_alive and one.running for one in machines.read_machines(stack.state))

    def own_painters() -> int:
        own = [one for one in machines.read_machines(stack.state) if one.name == "a"]
        return machines.count_workers(own).get("paint.now", 0)

    eventually(own_painters, SECONDS, "the painters of the first machine are heard")
    block = "env ROLES=paint RELEASE=0 PAINT_WORKERS=3 .venv/bin/python -m project.run"
    with another_machine(stack, tmp_path, block) as data:
        eventually(is_alive, SECONDS, "it is heard")
        all_workers = own_painters() + 3
        eventually(lambda: stack.metric("tarry_lane_workers", lane="paint.now") == all_workers, SECONDS, "all count")
        os.kill(int((data / "run.lock").read_text()), number)
        eventually(lambda: not is_alive(), 2 * SECONDS, "it is missed")
        eventually(lambda: stack.health()[0] == status, SECONDS, "health tells of it, or not")
        assert stack.metric("tarry_machine_overdue", machine="b") == (status == 503)
        assert requests.get(f"{stack.base_url}/healthz/ready", timeout=SECONDS).status_code == 200


def test_releases_at_once_are_one_after_the_other_and_others_wait_for_them(stack: Stack, tmp_path: Path) -> None:
    database = OwnDatabase(DATABASE_URL)
    given = {**stack.environment, **stores_of(stack), "DATABASE_URL": database.url}
    given["REDIS_URL"] += "?db=1"  # another site's
    try:
        with started(tmp_path, "waiting", "env RELEASE=0 ROLES=work .venv/bin/python -m project.run", given) as waiting:
            with ExitStack() as entered:
                block = commands("-m project.release")
                releases = [entered.enter_context(started(tmp_path, f"r{number}", block, given)) for number in range(3)]
                told = [release.communicate(timeout=2 * SECONDS)[0] for release in releases]
            assert [release.returncode for release in releases] == [0, 0, 0], told
            assert sum("Administrator: admin" in text for text in told) == 1
            socket = Path(f"{stack.runtime}-waiting/supervisor.sock")
            eventually(lambda: waiting.poll() is None and socket.exists(), 4 * SECONDS, "what waited runs")
    finally:
        database.drop()


@contextmanager
def started(
    directory: Path, name: str, block: str, environment: Mapping[str, str]
) -> Iterator["subprocess.Popen[str]"]:
    own = {"DATA_DIR": f"{directory}/{name}/data", "MACHINE": name}
    own["RUNTIME_DIR"] = f"{environment['RUNTIME_DIR']}-{name}"  # short, for its sockets
    (directory / name).mkdir()
    with subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", "bash", "-ec", f"exec {block}"],
        cwd=ROOT,
        env={**environment, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    ) as running:
        try:
            yield running
        finally:
            kill_family(running)
