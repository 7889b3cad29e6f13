"""What keeps the site from starting is said in words that help."""

import errno
import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from project import starting
from project.paths import DataDirectory, RuntimeDirectory, runtime_directory
from project.starting import StartError


@pytest.fixture
def runtime(tmp_path: Path) -> RuntimeDirectory:
    return RuntimeDirectory(tmp_path / "run")


@pytest.fixture
def short_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s")


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(StartError, match=r"nginx is missing. Run ./setup.sh"):
        starting.tool("nginx")


@pytest.mark.parametrize("script", [None, "exit 1"])
def test_what_may_not_be_idle_is_as_nice_as_can_be(
    script: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script:
        (tmp_path / "chrt").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "chrt").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert starting.idle() == ("nice", "-n", "19")


def test_what_nobody_waits_for_is_run_where_nobody_else_has_a_use_for_a_processor() -> None:
    prefix = starting.idle()
    if prefix[0] == "nice":
        pytest.skip("the system does not allow it")
    shown = subprocess.run([*prefix, "chrt", "--pid", "0"], capture_output=True, text=True, check=True)
    assert "SCHED_IDLE" in shown.stdout


def test_a_second_run_on_the_same_data_is_told_who_has_it(tmp_path: Path) -> None:
    descriptor = starting.hold_lock(tmp_path / "lock")
    with pytest.raises(StartError, match=f"already runs on .* \\(process {os.getpid()}\\)"):
        starting.hold_lock(tmp_path / "lock")
    os.close(descriptor)
    os.close(starting.hold_lock(tmp_path / "lock"))


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, "no permission for /data/run.lock"),
        (errno.EROFS, "read-only"),
        (errno.ENOSPC, "no space is left to write /data/run.lock"),
        (errno.EDQUOT, "no space is left"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_what_the_disk_does_not_allow_is_said_in_words(number: int, said: str) -> None:
    told = starting.trouble(OSError(number, os.strerror(number), "/data/run.lock"))
    assert said in told
    assert told.endswith("DATA_DIR.")


def test_a_write_that_fails_names_no_file() -> None:
    assert "one of its files" in starting.trouble(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=f"port {port}.*another PORT"):
            starting.require_free_port("127.0.0.1", port)


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_cannot_be_is_refused(port: int) -> None:
    with pytest.raises(StartError, match="another PORT"):
        starting.require_free_port("127.0.0.1", port)


@pytest.mark.parametrize("name", ['a"b', "a$b", "a;b", "a\nb"])
def test_paths_that_would_break_a_configuration_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StartError, match="characters"):
        starting.make_directories(DataDirectory(tmp_path / name), RuntimeDirectory(tmp_path / "r"))


def test_a_runtime_directory_that_is_too_long_for_sockets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="RUNTIME_DIR"):
        starting.make_directories(DataDirectory(tmp_path), RuntimeDirectory(tmp_path / ("x" * 100)))


def test_a_file_in_the_place_of_the_data_directory_is_refused(tmp_path: Path, runtime: RuntimeDirectory) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(StartError, match="not a directory"):
        starting.make_directories(DataDirectory(tmp_path / "data"), runtime)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_data_directory_without_permission_is_refused(tmp_path: Path, runtime: RuntimeDirectory) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    with pytest.raises(StartError, match="no permission"):
        starting.make_directories(DataDirectory(tmp_path / "data"), runtime)


def test_a_runtime_directory_that_is_a_link_is_refused(tmp_path: Path, runtime: RuntimeDirectory) -> None:
    (tmp_path / "elsewhere").mkdir()
    runtime.root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StartError, match="somebody else"):
        starting.make_directories(DataDirectory(tmp_path / "data"), runtime)


def test_nobody_else_can_enter_the_runtime_directory(tmp_path: Path, runtime: RuntimeDirectory) -> None:
    runtime.root.mkdir(mode=0o755)
    starting.make_directories(DataDirectory(tmp_path / "data"), runtime)
    assert stat.S_IMODE(runtime.root.stat().st_mode) == 0o700


def test_the_secret_key_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    starting.make_secret_key(path)
    key = path.read_text()
    starting.make_secret_key(path)
    assert path.read_text() == key
    assert len(key) > 50
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_server_of_an_earlier_run_is_not_joined(
    runtime: RuntimeDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "QUIET_SECONDS", 0.2)
    starting.make_directories(DataDirectory(tmp_path / "data"), runtime)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(runtime.socket("state")))
        server.listen()
        with pytest.raises(StartError, match="earlier run still serve state"):
            starting.require_quiet(runtime)


def test_dead_sockets_are_cleared_away(runtime: RuntimeDirectory, tmp_path: Path) -> None:
    starting.make_directories(DataDirectory(tmp_path / "data"), runtime)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(runtime.socket("main")))
    starting.require_quiet(runtime)
    assert not runtime.socket("main").exists()


def test_each_data_directory_has_its_own_short_runtime_directory(tmp_path: Path) -> None:
    one, other = runtime_directory(tmp_path / "one"), runtime_directory(tmp_path / "other")
    assert one != other
    assert len(str(one.root)) < 40


def test_name_servers_are_as_nginx_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    assert starting.nameservers(file) == []
    file.write_text(
        "# comment\nsearch x\nnameserver 192.0.2.1\nnameserver 2001:db8::1\nnameserver fe80::1%eth0\nnameserver\n"
    )
    assert starting.nameservers(file) == ["192.0.2.1", "[2001:db8::1]"]


def test_a_path_that_means_something_in_a_configuration_is_refused() -> None:
    with pytest.raises(StartError, match="characters"):
        starting.require_plain(Path("/srv/a$b"))
