"""`python -m project.run`: reasons against a start in one line; static files are collected once for equal sources."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
from django.core.management import call_command
from django.db import OperationalError
from pytest_django import Settings

from project import checks, nginx_values, preflight, release, run
from project.environment import load_remembered, own_store_url, storage_from
from project.paths import BASE_DIR, DataDirectory, RuntimeDirectory, runtime_directory
from project.preflight import StartError
from project.processes import ROLES
from resources.mirror.storage import blobs
from tests.conftest import RedisServers
from tests.support.stack import free_port

AT_HOME = {
    "RUNTIME_DIR": Path("/run/tarry"),
    "REDIS_URL": "unix:///run/tarry/state.sock",
    "CACHE_URL": "unix:///run/tarry/cache.sock",
    "DATABASES": {"default": {"ENGINE": "django.db.backends.sqlite3"}},
    "STORAGES": {"default": storage_from("file:///srv/blobs")},
}
UNSET = {
    **dict.fromkeys(("MAIN_LISTEN", "RETRY_INSTANCE_LISTEN", "STATE_LISTEN", "CACHE_LISTEN"), ""),
    **dict.fromkeys(("METRICS_LISTEN", "MACHINE_URL"), ""),
    **dict.fromkeys(("STATE_PASSWORD", "CACHE_PASSWORD"), ""),
    **dict.fromkeys(("FRONTS", "MAIN_SERVERS", "RETRY_SERVERS"), ()),
}
OWN_STATE = {"REDIS_URL": "unix://:a%0Ab@/run/tarry/state.sock"}
OWN_CACHE = {"CACHE_URL": "unix://:long@/run/tarry/cache.sock"}
SERVED_ELSEWHERE = {"MAIN_SERVERS": ["10.0.0.2:8100", "main.internal:8100"], "RETRY_SERVERS": ["[::1]:8101"]}
ELSEWHERE = {
    "REDIS_URL": "redis://10.0.0.1:6379/0",
    "CACHE_URL": "redis://10.0.0.1:6380/0",
    "DATABASES": {"default": {"ENGINE": "django.db.backends.postgresql"}},
    "STORAGES": {"default": storage_from("s3://key:secret@s3.example/bucket")},
}


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    shutil.rmtree(runtime_directory(tmp_path / "data").root, ignore_errors=True)


def test_a_run_removes_what_a_killed_one_left_and_names_a_setting_that_cannot_be_read(data: Path) -> None:
    upload, answer = data / "uploads" / "held-x", data / "hot" / f"{'0' * 32}.0000000001"
    upload.mkdir(parents=True)
    answer.parent.mkdir()
    answer.touch()
    env = {"PATH": os.environ["PATH"], "DATA_DIR": str(data), "DEMO": "0", "MAIN_WORKERS": "many"}
    command = [sys.executable, "-m", "project.run"]
    done = subprocess.run(command, cwd=BASE_DIR, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert "Tarry cannot start: a setting is wrong: MAIN_WORKERS is 'many'" in done.stderr
    assert [upload.exists(), answer.exists()] == [False, False]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("SECRET_KEY_FILE", "/nowhere/key", "SECRET_KEY_FILE names /nowhere/key, which cannot be read: No such file"),
        ("SECRET_KEY_FILE", "/dev/null", "SECRET_KEY_FILE names /dev/null, which is empty"),
        ("DATABASE_URL", "foo", "DATABASE_URL must be postgres://"),
    ],
)
def test_a_run_without_a_key_or_a_database_says_so_and_makes_nothing(
    data: Path, name: str, text: str, said: str
) -> None:
    env = {"PATH": os.environ["PATH"], "DATA_DIR": str(data), "DEMO": "0", name: text}
    command = [sys.executable, "-m", "project.run"]
    done = subprocess.run(command, cwd=BASE_DIR, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert said in done.stderr
    assert not (data / "db.sqlite3").exists()
    assert (data / "secret_key").exists() == (name != "SECRET_KEY_FILE")


@pytest.fixture
def commands(data: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mock]:
    """Management commands of a run in this process, which ends where it would become supervisord."""
    mask, held, hold = os.umask(0o077), list[int](), preflight.hold_lock
    called = Mock()
    settings.DEMO, settings.PORT = False, free_port()
    monkeypatch.chdir(BASE_DIR)
    monkeypatch.setattr("django.setup", lambda: None)  # it is set up
    monkeypatch.setattr(os, "execv", Mock())
    monkeypatch.setattr(run, "_announce", Mock())
    monkeypatch.setattr(checks, "digest_settings", dict)
    monkeypatch.setattr(release, "_make_admin", Mock())
    monkeypatch.setattr(release, "call_command", called)
    monkeypatch.setattr(preflight, "raise_file_limit", lambda: 1024)
    monkeypatch.setattr(preflight, "hold_lock", lambda path: held.append(hold(path)))
    with patch.dict(os.environ, DATA_DIR=str(data), RUNTIME_DIR=str(runtime_directory(data).root)):
        yield called
    os.umask(mask)
    for descriptor in held:
        os.close(descriptor)


def refusal() -> str:
    with pytest.raises(SystemExit, match=r"\ATarry cannot start: ") as ended:
        run.main()
    return str(ended.value)


def test_a_port_in_use(commands: Mock, settings: Settings) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        settings.PORT = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1 port {settings.PORT}" in refusal()
    commands.assert_not_called()


def test_an_address_in_use_at_which_other_machines_would_ask(commands: Mock, settings: Settings) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        settings.MAIN_LISTEN = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "Choose another MAIN_LISTEN." in refusal()
    commands.assert_not_called()


def test_an_address_without_a_port(commands: Mock, settings: Settings) -> None:
    settings.MAIN_LISTEN = "127.0.0.1"
    assert "MAIN_LISTEN is '127.0.0.1'; it must be an address and a port." in refusal()


def test_a_machine_of_stores_alone_needs_no_release_and_no_database(
    commands: Mock, data: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ROLES, settings.STATE_PASSWORD = ["state"], "a long one"
    runtime = runtime_directory(data)
    settings.RUNTIME_DIR, settings.REDIS_URL = runtime.root, own_store_url(runtime.socket("state"), "a long one")
    run.main()
    assert [call.args[0] for call in commands.call_args_list] == ["check"]
    assert "[program:state]" in runtime.supervisor.read_text()
    assert "a long one" not in runtime.supervisor.read_text()
    kept = runtime.redis_configuration("state")
    assert ('requirepass "a long one"' in kept.read_text(), kept.stat().st_mode & 0o077) == (True, 0)


def test_a_run_that_is_still_there(commands: Mock, data: Path) -> None:
    data.mkdir()
    preflight.hold_lock(data / "run.lock")
    assert f"another Tarry runs on {data} (process {os.getpid()})" in refusal()


def test_settings_that_contradict_each_other(commands: Mock, settings: Settings) -> None:
    commands.side_effect = call_command
    settings.DEFAULT_RETRY_TIMEOUT = 50
    assert "retry.E002" in refusal()


def test_a_database_that_cannot_be_opened(commands: Mock) -> None:
    commands.side_effect = [None, OperationalError("unable to open database file")]
    assert "unable to open database file" in refusal()


def test_a_data_directory_that_cannot_be_one(commands: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_DIR", "/proc/tarry")
    assert "/proc/tarry cannot be used (No such file or directory). Choose another DATA_DIR." in refusal()


@pytest.mark.parametrize("url", ["file:///srv/blobs", "s3://key:secret@127.0.0.1:1/bucket?region=x&tls=0"])
def test_nginx_finds_mirrored_files_where_they_are_kept(settings: Any, url: str) -> None:
    settings.STORAGES = {**settings.STORAGES, "default": storage_from(url)}
    front = nginx_values.front_config(DataDirectory(Path("/d")), RuntimeDirectory(Path("/r")), files=1024, samples="")
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


@pytest.mark.parametrize("setting", ["LISTEN", "RETRY_LISTEN", "DEMO"])
def test_no_samples_are_offered_where_the_site_itself_listens_nor_without_a_demo(offering: Any, setting: str) -> None:
    values = {"LISTEN": "127.0.0.2", "RETRY_LISTEN": f"127.0.0.2:{offering.PORT}", "DEMO": False}
    setattr(offering, setting, values[setting])
    assert (run.offer_samples(), os.environ["SAMPLES"]) == ("", "")


@pytest.mark.django_db
@pytest.mark.parametrize("is_taken", [False, True])
def test_samples_may_be_asked_for_only_where_the_front_serves_them(
    commands: Mock, data: Path, settings: Settings, is_taken: bool
) -> None:
    settings.DEMO = True
    with closing(socket.create_server(("127.0.0.2", settings.PORT))) if is_taken else nullcontext():
        run.main()
    samples = "" if is_taken else f"127.0.0.2:{settings.PORT}"
    assert ("samples.conf" in (runtime_directory(data).nginx / "site.conf").read_text()) is bool(samples)
    assert load_remembered(data / "environment.json")["SAMPLES"] == samples
    assert commands.call_args.kwargs["samples"] == samples


class Site:
    def __init__(self, root: Path) -> None:
        self.source, self.target, self.note = root / "source" / "page.css", root / "static", root / "note"
        self.source.parent.mkdir()
        self.source.write_text("a {}")
        self.collect = Mock(side_effect=call_command)

    def start(self) -> None:
        release.collect_static(self.note)

    def served(self) -> set[str]:
        return {path.read_text() for path in self.target.glob("page.*.css")}


@pytest.fixture
def site(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path)
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    settings.STATICFILES_DIRS = [str(made.source.parent)]
    settings.STATIC_ROOT = str(made.target)
    backend = {"BACKEND": "project.backends.HashedStaticFiles"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": backend}
    monkeypatch.setattr(release, "call_command", made.collect)
    return made


def test_only_a_start_after_a_change_or_a_loss_collects_again(site: Site) -> None:
    site.start()
    site.start()
    assert (site.served(), site.collect.call_count) == ({"a {}"}, 1)
    for path in site.target.iterdir():
        path.unlink()
    site.start()
    assert (site.served(), site.collect.call_count) == ({"a {}"}, 2)
    site.source.write_text("a { color: red }")
    site.start()
    assert site.served() == {"a {}", "a { color: red }"}
    site.source.with_name("more.css").write_text("b {}")
    site.start()
    assert list(site.target.glob("more.*.css"))


def test_a_start_that_was_killed_while_it_collected_is_made_up_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.start()
    began = site.source.stat()
    site.source.write_text("b {}")
    with monkeypatch.context() as killed:
        killed.setattr(release, "call_command", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            site.start()
    site.source.write_text("a {}")
    os.utime(site.source, ns=(began.st_atime_ns, began.st_mtime_ns))
    site.start()
    assert site.collect.call_count == 2


@pytest.mark.parametrize(
    ("roles", "changed", "found"),
    [
        (ROLES, {}, []),
        (("paint", "work"), {}, ["project.E001", "project.E002", "project.E004", "project.W001"]),
        (("front", "main", "work", "beat"), ELSEWHERE, ["project.E003"]),
        (("front", "work", "beat"), ELSEWHERE, ["project.E003", "project.E003"]),
        (("front", "work", "beat"), {**ELSEWHERE, **SERVED_ELSEWHERE}, []),
        (("main", "paint"), ELSEWHERE, ["project.E010"]),
        (("main", "paint"), {**ELSEWHERE, "MAIN_LISTEN": "10.0.0.2:8100", "FRONTS": ("10.0.0.0/24",)}, []),
        (("main", "paint"), {**ELSEWHERE, "MAIN_LISTEN": "10.0.0.2:8100"}, ["project.E008"]),
        (ROLES, {"RETRY_INSTANCE_LISTEN": "10.0.0.2:8101"}, ["project.E008"]),
        (ROLES, {"MAIN_SERVERS": ["10.0.0.2:8100", "10.0.0.3"]}, ["project.E011"]),
        (ROLES, {"MAIN_SERVERS": ["10.0.0.2:8100 backup; #:1"]}, ["project.E011"]),
        (ROLES, {"MACHINE_URL": "http://10.0.0.2:8000"}, ["project.E011"]),
        (ROLES, {"FRONTS": ("10.0.0.2/33",)}, ["project.E012"]),
        (("state",), {"STATE_LISTEN": "10.0.0.2:6379"}, ["project.E009"]),
        (("state",), {"STATE_LISTEN": "127.0.0.1:6379", "CACHE_LISTEN": "[::1]:6380"}, []),
        (("state",), {"STATE_LISTEN": "10.0.0.2:6379", "STATE_PASSWORD": "a\nb", **OWN_STATE}, ["project.E009"]),
        (("cache",), {"CACHE_LISTEN": "10.0.0.2:6379", "CACHE_PASSWORD": "long", **OWN_CACHE}, []),
        (("state", "cache"), {"REDIS_URL": "redis://10.0.0.1:6379/0"}, ["project.E013"]),
        (ROLES, {"CACHE_LISTEN": "127.0.0.1:1", "CACHE_URL": "redis://10.0.0.1:6379/0"}, ["project.E013"]),
        (("paint",), {**ELSEWHERE, "METRICS_LISTEN": "10.0.0.2:9100", "METRICS_TOKEN": ""}, ["project.E014"]),
        (("paint",), {**ELSEWHERE, "METRICS_LISTEN": "10.0.0.2:9100", "METRICS_TOKEN": "long"}, []),
        (("paint",), {**ELSEWHERE, "METRICS_LISTEN": "127.0.0.1:9100", "METRICS_TOKEN": ""}, []),
        (("front", "main", "retry"), ELSEWHERE, ["project.E005"]),
        (("front", "main", "retry"), {**ELSEWHERE, "OBSERVE": False}, []),
        (("front", "main", "retry", "work", "beat"), ELSEWHERE, []),
    ],
)
def test_roles_that_lack_what_they_need_are_told(
    monkeypatch: pytest.MonkeyPatch, roles: Sequence[str], changed: dict[str, Any], found: list[str]
) -> None:
    monkeypatch.setattr(checks, "settings", Mock(ROLES=list(roles), **{**AT_HOME, **UNSET, **changed}))
    assert [message.id for message in checks.check_roles(None)] == found


@pytest.mark.django_db
def test_a_run_without_a_release_waits_for_one(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data.mkdir()
    lacking = [["resources.0021"], ["resources.0021"], []]
    monkeypatch.setattr(release, "_lacking_migrations", lambda: lacking.pop(0))
    monkeypatch.setattr(release, "collect_static", Mock())
    monkeypatch.setattr(time, "sleep", Mock())
    release.await_release(DataDirectory(data))
    assert lacking == []
    monkeypatch.setattr(release, "_lacking_migrations", lambda: ["resources.0021", "feeds.0015"])
    monkeypatch.setattr(release, "RELEASE_WAIT_SECONDS", 0)
    with pytest.raises(StartError, match=r"lacks 2 things, the first of them resources.0021. Run python -m project"):
        release.await_release(DataDirectory(data))


@pytest.mark.django_db
def test_a_released_database_lacks_no_migrations_and_has_one_administrator(capsys: pytest.CaptureFixture[str]) -> None:
    assert release._lacking_migrations() == []
    for _ in range(2):
        release._make_admin()
    assert capsys.readouterr().out.count("Administrator: admin, password: ") == 1


PUBLISH = """
from project import preflight, release
data, runtime = release.find_directories()
preflight.make_directories(data, runtime)
release.load_settings(data, runtime)
from resources import tasks
tasks.vary_demo.delay()
"""


def test_what_a_start_publishes_goes_to_the_sites_own_broker(data: Path, redis_servers: RedisServers) -> None:
    env = {"PATH": os.environ["PATH"], "DATA_DIR": str(data), "REDIS_URL": f"unix://{redis_servers.state.socket}"}
    done = subprocess.run(
        [sys.executable, "-c", PUBLISH], cwd=BASE_DIR, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert redis_servers.state.client.llen("work") == 1
