"""`python -m project.run`: reasons against a start in one line; static files are collected once for equal sources."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.management import call_command
from pytest_django import Settings

from feeds.demo import load
from project import nginx_values, preflight, run
from project.environment import load_remembered, storage_from
from project.paths import BASE_DIR, DataDirectory, RuntimeDirectory, runtime_directory
from resources.demo import demo_layers
from resources.mirror.storage import blobs
from tests.support.stack import free_port

PREPARED = """
from project import run
run._announce = lambda _: None  # which would wait for a site that nobody starts
run.prepare_run()
"""


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    runtime = runtime_directory(tmp_path / "data").root
    if runtime.exists():
        subprocess.run(["rm", "-r", str(runtime)], check=True)


def refusal(data: Path, **environment: str) -> str:
    """The output of a run that must not start."""
    env = {"PATH": os.environ["PATH"], "DATA_DIR": str(data), "PORT": str(free_port()), "DEMO": "0", **environment}
    command = [sys.executable, "-m", "project.run"]
    done = subprocess.run(command, cwd=BASE_DIR, env=env, capture_output=True, text=True, timeout=60, check=False)
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
    descriptor = preflight.hold_lock(data / "run.lock")
    try:
        assert f"another Tarry runs on {data} (process {os.getpid()})" in refusal(data)
    finally:
        os.close(descriptor)


def test_what_a_killed_run_left_is_removed(data: Path) -> None:
    upload, answer = data / "uploads" / "held-x", data / "hot" / f"{'0' * 32}.0000000001"
    upload.mkdir(parents=True)
    answer.parent.mkdir()
    answer.touch()
    refusal(data, MAIN_WORKERS="many")
    assert not upload.exists()
    assert not answer.exists()


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"MAIN_WORKERS": "many"}, "a setting is wrong: MAIN_WORKERS is 'many'"),
        ({"DEFAULT_RETRY_TIMEOUT": "50"}, "retry.E002"),
        ({"DATABASE_URL": "sqlite:////nowhere/db.sqlite3"}, "database"),
        (
            {"DATA_DIR": "/proc/tarry"},
            "/proc/tarry cannot be used (No such file or directory). Choose another DATA_DIR.",
        ),
    ],
    ids=["setting that cannot be read", "settings that contradict each other", "no database", "no directory"],
)
def test_a_site_that_cannot_start_says_why(data: Path, environment: dict[str, str], reason: str) -> None:
    assert reason in refusal(data, **environment)


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is not a directory" in refusal(tmp_path / "file")


@pytest.mark.parametrize("url", ["file:///srv/blobs", "s3://key:secret@127.0.0.1:1/bucket?region=x&tls=0"])
def test_nginx_finds_mirrored_files_where_they_are_kept(settings: Any, url: str) -> None:
    settings.STORAGES = {**settings.STORAGES, "default": storage_from(url)}
    front = nginx_values.front_config(DataDirectory(Path("/d")), RuntimeDirectory(Path("/r")), files=1024, samples=None)
    assert front.shelves == blobs.local_blob_folder()
    assert front.served == (Path("/srv/blobs/served") if url.startswith("file") else None)
    assert (front.bucket is None) == url.startswith("file")


@pytest.fixture
def offering(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The settings of a site with a demo, at a port that is free."""
    monkeypatch.setenv("SAMPLES", "10.0.0.1:80")  # of an operator, without effect here
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
    (data / "demo_loaded").write_text("\n".join([load.MEMORY_NAME, *(layer.slug for layer in demo_layers.DEMO_LAYERS)]))
    with ExitStack() as listening:
        port = free_port()
        if is_taken:
            listening.enter_context(closing(socket.create_server(("127.0.0.2", port))))
        env = {"PATH": os.environ["PATH"], "DATA_DIR": str(data), "PORT": str(port), "DEMO": "1"}
        command = [sys.executable, "-c", PREPARED]
        subprocess.run(command, cwd=BASE_DIR, env=env, stdout=subprocess.DEVNULL, timeout=120, check=True)
    served = "samples.conf" in (runtime_directory(data).nginx / "site.conf").read_text()
    told = load_remembered(data / "environment.json")["SAMPLES"]
    assert (served, told) == ((False, "") if is_taken else (True, f"127.0.0.2:{port}"))


class Site:
    """A site with one static file, and how often it collected."""

    def __init__(self, root: Path) -> None:
        self.source, self.target, self.note = root / "source" / "page.css", root / "static", root / "note"
        self.source.parent.mkdir()
        self.source.write_text("a {}")
        self.collect = Mock(side_effect=call_command)

    def start(self) -> None:
        run.collect_static(self.note)

    def served(self) -> set[str]:
        return {path.read_text() for path in self.target.glob("page.*.css")}


@pytest.fixture
def site(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path)
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    settings.STATICFILES_DIRS = [str(made.source.parent)]
    settings.STATIC_ROOT = str(made.target)
    backend = {"BACKEND": "project.static_files.HashedStaticFiles"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": backend}
    monkeypatch.setattr(run, "call_command", made.collect)
    return made


def test_a_second_start_collects_nothing(site: Site) -> None:
    site.start()
    site.start()
    assert site.served() == {"a {}"}
    assert site.collect.call_count == 1


def test_what_has_changed_is_there_after_the_next_start(site: Site) -> None:
    site.start()
    site.source.write_text("a { color: red }")
    site.start()
    assert site.served() == {"a {}", "a { color: red }"}


def test_a_file_that_came_is_there_after_the_next_start(site: Site) -> None:
    site.start()
    site.source.with_name("more.css").write_text("b {}")
    site.start()
    assert list(site.target.glob("more.*.css"))


def test_a_start_that_was_killed_while_it_collected_is_made_up_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.start()
    began = site.source.stat()
    site.source.write_text("b {}")
    with monkeypatch.context() as killed:
        killed.setattr(run, "call_command", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            site.start()
    site.source.write_text("a {}")
    os.utime(site.source, ns=(began.st_atime_ns, began.st_mtime_ns))
    site.start()
    assert site.collect.call_count == 2


def test_a_folder_that_was_emptied_is_filled_again(site: Site) -> None:
    site.start()
    for path in site.target.iterdir():
        path.unlink()
    site.start()
    assert site.served() == {"a {}"}
