"""`python -m project.run` says in one line why it cannot start."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from feeds.demo import loading
from project import facing, run, starting
from project.paths import BASE_DIR, DataDirectory, RuntimeDirectory, runtime_directory
from project.remembering import remembered
from project.storing import storage_from
from resources.demo import layers
from resources.mirroring.storing import blobs
from tests.flows.stack import free_port

PREPARED = """
from project import run
run._announce = lambda _: None  # which would wait for a site that nobody starts
run.prepare()
"""


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    runtime = runtime_directory(tmp_path / "data").root
    if runtime.exists():
        subprocess.run(["rm", "-r", str(runtime)], check=True)


def refusal(data: Path, **environment: str) -> str:
    """What a run that must not start says."""
    done = subprocess.run(
        [sys.executable, "-m", "project.run"],
        cwd=BASE_DIR,
        env={"PATH": os.environ["PATH"], "DATA_DIR": str(data), "PORT": str(free_port()), "DEMO": "0", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    assert "Tarry cannot start: " in done.stderr
    return done.stderr


def test_a_port_in_use(data: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "cannot listen on 127.0.0.1 port" in refusal(data, PORT=str(taken.getsockname()[1]))


def test_a_run_that_is_still_there(data: Path) -> None:
    data.mkdir()
    descriptor = starting.hold_lock(data / "run.lock")
    try:
        assert f"it already runs on {data} (process {os.getpid()})" in refusal(data)
    finally:
        os.close(descriptor)


def test_a_setting_that_cannot_be_read(data: Path) -> None:
    assert "a setting is wrong: MAIN_WORKERS is 'many'" in refusal(data, MAIN_WORKERS="many")


def test_what_a_killed_run_left_is_removed(data: Path) -> None:
    upload, answer = data / "uploads" / "held-x", data / "hot" / f"{'0' * 32}.0000000001"
    upload.mkdir(parents=True)
    answer.parent.mkdir()
    answer.touch()
    refusal(data, MAIN_WORKERS="many")
    assert not upload.exists()
    assert not answer.exists()


def test_settings_that_contradict_each_other(data: Path) -> None:
    assert "retry.E002" in refusal(data, DEFAULT_RETRY_TIMEOUT="50")


def test_a_database_that_is_not_there(data: Path) -> None:
    assert "database" in refusal(data, DATABASE_URL=f"sqlite:///{data}/missing/db.sqlite3")


def test_a_data_directory_that_cannot_be_made() -> None:
    assert "/proc/tarry cannot be used (No such file or directory). Choose another DATA_DIR." in refusal(
        Path("/proc/tarry")
    )


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is not a directory" in refusal(tmp_path / "file")


@pytest.mark.parametrize("url", ["file:///srv/blobs", "s3://key:secret@127.0.0.1:1/bucket?region=x&tls=0"])
def test_nginx_finds_mirrored_files_where_they_are_kept(settings: Any, url: str) -> None:
    settings.STORAGES = {**settings.STORAGES, "default": storage_from(url)}
    front = facing.front(DataDirectory(Path("/d")), RuntimeDirectory(Path("/r")), files=1024, samples=None)
    assert front.shelves == blobs.shelves()
    assert front.served == (Path("/srv/blobs/served") if url.startswith("file") else None)
    assert (front.bucket is None) == url.startswith("file")


@pytest.fixture
def offering(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The settings of a site with a demo, at a port that is free."""
    monkeypatch.setenv("SAMPLES", "10.0.0.1:80")  # of an operator, who has no say in it
    settings.DEMO, settings.PORT = True, free_port()
    return settings


def test_samples_are_offered_beside_the_site(offering: Any) -> None:
    assert run.offer_samples() == os.environ["SAMPLES"] == f"127.0.0.2:{offering.PORT}"


def test_no_samples_are_offered_where_something_else_listens(offering: Any) -> None:
    with closing(socket.create_server(("127.0.0.2", 0))) as taken:
        offering.PORT = taken.getsockname()[1]
        assert (run.offer_samples(), os.environ["SAMPLES"]) == ("", "")


@pytest.mark.parametrize("setting", ["LISTEN", "RETRY_LISTEN", "DEMO"])
def test_nor_where_the_site_itself_does_nor_without_a_demo(offering: Any, setting: str) -> None:
    values = {"LISTEN": "127.0.0.2", "RETRY_LISTEN": f"127.0.0.2:{offering.PORT}", "DEMO": False}
    setattr(offering, setting, values[setting])
    assert (run.offer_samples(), os.environ["SAMPLES"]) == ("", "")


@pytest.mark.parametrize("is_taken", [False, True])
def test_samples_may_be_asked_for_only_where_the_front_serves_them(data: Path, is_taken: bool) -> None:
    data.mkdir()
    (data / "demo_loaded").write_text("\n".join([loading.NAME, *(layer.slug for layer in layers.LAYERS)]))
    with ExitStack() as listening:
        port = free_port()
        if is_taken:
            listening.enter_context(closing(socket.create_server(("127.0.0.2", port))))
        subprocess.run(
            [sys.executable, "-c", PREPARED],
            cwd=BASE_DIR,
            env={"PATH": os.environ["PATH"], "DATA_DIR": str(data), "PORT": str(port), "DEMO": "1"},
            stdout=subprocess.DEVNULL,
            timeout=120,
            check=True,
        )
    served = "samples.conf" in (runtime_directory(data).nginx / "site.conf").read_text()
    told = remembered(data / "environment.json")["SAMPLES"]
    assert (served, told) == ((False, "") if is_taken else (True, f"127.0.0.2:{port}"))
