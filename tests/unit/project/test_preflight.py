"""Reasons that keep the site from starting, in words that help, and the limits of this machine."""

import errno
import os
import shutil
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from project import preflight
from project.environment import read_machine
from project.paths import DataDirectory, RuntimeDirectory, runtime_directory
from project.preflight import StartError, nginx_limits


@pytest.fixture
def runtime(tmp_path: Path) -> RuntimeDirectory:
    return RuntimeDirectory(tmp_path / "run")


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path / "data")


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(StartError, match=r"nginx is missing. Run ./setup.sh"):
        preflight.find_tool("nginx")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, "no permission for /data/run.lock"),
        (errno.EROFS, "/data/run.lock cannot be written: its file system is mounted read-only"),
        *((number, "no space is left to write /data/run.lock") for number in (errno.ENOSPC, errno.EDQUOT)),
        (errno.EIO, "/data/run.lock cannot be used (Input/output error)"),
    ],
)
def test_what_the_disk_does_not_allow_is_said_in_words(number: int, said: str) -> None:
    assert "one of its files" in preflight.explain_os_error(OSError(number, os.strerror(number)))
    told = preflight.explain_os_error(OSError(number, os.strerror(number), "/data/run.lock"))
    assert said in told
    assert told.endswith("DATA_DIR.")


def test_a_port_that_is_taken_or_cannot_be_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for port in (taken.getsockname()[1], -1, 65536):
            with pytest.raises(StartError, match=f"port {port}.*another PORT"):
                preflight.require_free_port("127.0.0.1", port)


@pytest.mark.parametrize(
    ("folder", "runtime_folder", "reason"),
    [
        *((name, "r", "characters") for name in ('a"b', "a$b", "a;b", "a\nb")),
        pytest.param("data", "x" * 100, "RUNTIME_DIR", id="too long for sockets"),
        pytest.param("file", "r", "not a directory", id="a file"),
        pytest.param("data", "link", "another user", id="a link"),
    ],
)
def test_an_unusable_directory_is_refused(tmp_path: Path, folder: str, runtime_folder: str, reason: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(StartError, match=reason):
        preflight.make_directories(DataDirectory(tmp_path / folder), RuntimeDirectory(tmp_path / runtime_folder))


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_data_directory_without_permission_is_refused(data: DataDirectory, runtime: RuntimeDirectory) -> None:
    data.root.mkdir(mode=0o500)
    with pytest.raises(StartError, match="no permission"):
        preflight.make_directories(data, runtime)


def test_other_users_cannot_enter_the_runtime_directory(data: DataDirectory, runtime: RuntimeDirectory) -> None:
    runtime.root.mkdir(mode=0o755)
    preflight.make_directories(data, runtime)
    assert stat.S_IMODE(runtime.root.stat().st_mode) == 0o700


def test_the_secret_key_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    preflight.make_secret_key(path)
    key = path.read_text()
    preflight.make_secret_key(path)
    assert path.read_text() == key
    assert len(key) > 50
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_server_of_an_earlier_run_is_not_joined_and_dead_sockets_are_cleared_away(
    data: DataDirectory, runtime: RuntimeDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "QUIET_TIMEOUT_SECONDS", 0.2)
    preflight.make_directories(data, runtime)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(runtime.socket("state")))
        server.listen()
        with pytest.raises(StartError, match="earlier run still serve state"):
            preflight.require_quiet(runtime)
    preflight.require_quiet(runtime)
    assert not runtime.socket("state").exists()


def test_each_data_directory_has_its_own_short_runtime_directory(tmp_path: Path) -> None:
    one, other = runtime_directory(tmp_path / "one"), runtime_directory(tmp_path / "other")
    assert one != other
    assert len(str(one.root)) < 40


def test_name_servers_are_as_nginx_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    assert preflight.read_nameservers(file) == []
    addresses = ("192.0.2.1", "2001:db8::1", "fe80::1%eth0", "")
    file.write_text("# comment\nsearch x\n" + "".join(f"nameserver {address}\n" for address in addresses))
    assert preflight.read_nameservers(file) == ["192.0.2.1", "[2001:db8::1]"]


@pytest.mark.parametrize(("files", "least"), [(1024, 64), (20_000, 16_000), (1_048_576, 40_000)])
def test_there_are_two_connections_for_every_waiting_client_as_far_as_files_allow(files: int, least: int) -> None:
    limits = nginx_limits(files, waiting_clients=20_000)
    assert limits.connections + limits.kept_open < files
    assert (limits.connections >= least, limits.kept_open >= 16) == (True, True)


@pytest.mark.parametrize(("host", "name"), [("maps1", "maps1"), ("0123456789ab", "machine-")])
def test_a_machine_is_named_once_by_its_host_but_not_by_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, name: str
) -> None:
    path = tmp_path / "machine"
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert read_machine(path) == (host, "")
    preflight.name_machine(path)
    named, installation = read_machine(path)
    assert named == (name if name == host else f"machine-{installation[:8]}")
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    preflight.name_machine(path)
    assert read_machine(path) == (named, installation)


def test_the_version_has_the_commit_where_git_knows_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    assert preflight.read_version(tmp_path) == "1.2.3"
    (tmp_path / ".git").mkdir()  # which is none
    assert preflight.read_version(tmp_path) == "1.2.3"
    shutil.rmtree(tmp_path / ".git")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "All"]):
        subprocess.run([*git, *command], check=True, timeout=20)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True, timeout=20).stdout
    version, _, known = preflight.read_version(tmp_path).partition(" ")
    assert (version, commit.startswith(known), len(known) >= 7) == ("1.2.3", True, True)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.4"\n')
    assert preflight.read_version(tmp_path) == f"1.2.4 {known}-dirty"
