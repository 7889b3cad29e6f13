"""The start of nginx: the workers of a killed one, and the sockets that the new one gets."""

import os
import socket
from pathlib import Path
from unittest.mock import Mock

import pytest

from project import nginx_start
from project.nginx_start import find_leftovers, remove_bodies
from tests.support.stack import free_port

MASTER = 100
PROCESSES = {
    101: "101 (nginx) S 1 100 100 0",
    102: "102 (nginx) S 1 200 200 0",
    103: "103 (bash) S 1 100 100 0",
    105: "105 (an (nginx) x) S 1 100 100 0",
    104: "104 (nginx) S 1 100 100 0",
}


@pytest.fixture
def processes(tmp_path: Path) -> Path:
    for pid, stat in PROCESSES.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(stat)
    (tmp_path / "106").mkdir()  # ended a moment ago
    (tmp_path / "self").mkdir()
    return tmp_path


def test_nginx_processes_of_the_last_masters_group_are_found(tmp_path: Path, processes: Path) -> None:
    pid_file = tmp_path / "nginx.pid"
    assert find_leftovers(pid_file, processes) == []
    for text, found in (("", []), ("none", []), (f"{MASTER}\n", [101, 104])):
        pid_file.write_text(text)
        assert find_leftovers(pid_file, processes) == found
    (processes / str(MASTER)).mkdir()  # a living process of that number is another one
    assert find_leftovers(pid_file, processes) == []


def test_bodies_that_a_killed_nginx_left_are_removed_and_nothing_else(tmp_path: Path) -> None:
    left = [tmp_path / "body" / "0000000001", tmp_path / "proxy" / "1" / "02" / "0000000021"]
    kept = tmp_path / "site.conf"
    for file in (*left, kept):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    remove_bodies(tmp_path)
    assert [file.exists() for file in (*left, kept)] == [False, False, True]
    assert left[1].parent.is_dir()  # which an nginx that runs expects


def test_the_hot_cache_is_emptied_and_nothing_beside_it(tmp_path: Path) -> None:
    answer, beside = tmp_path / "hot" / "a" / "bc" / "0123", tmp_path / "logs" / "main.log"
    for file in (answer, beside):
        file.parent.mkdir(parents=True)
        file.touch()
    for hot in (tmp_path / "hot", tmp_path / "none"):
        nginx_start.empty_hot_cache(hot)
    assert [*(tmp_path / "hot").iterdir()] == []
    assert beside.exists()


@pytest.mark.parametrize(("given", "is_emptied"), [(["--empty", "{hot}"], True), ([], False)])
def test_it_empties_the_hot_cache_if_it_is_told_then_becomes_nginx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], is_emptied: bool
) -> None:
    monkeypatch.setattr("os.execvp", executed := Mock())
    (tmp_path / "hot" / "a").mkdir(parents=True)
    words = [word.format(hot=tmp_path / "hot") for word in given]
    nginx_start.main(str(tmp_path / "nginx.pid"), str(tmp_path / "front.sock"), *words, "--", "nginx", "-c", "x")
    executed.assert_called_once_with("nginx", ("nginx", "-c", "x"))
    assert (tmp_path / "hot" / "a").exists() is not is_emptied


def given(value: str) -> list[socket.socket]:
    """The sockets, which end with the test."""
    return [socket.socket(fileno=int(descriptor)) for descriptor in value.split(";")[:-1]]


def test_nginx_inherits_sockets_that_neither_block_nor_delay_and_opens_all_others_itself() -> None:
    [listener] = given(nginx_start.open_sockets([f"127.0.0.1:{free_port()}"]))
    with listener, socket.create_connection(listener.getsockname()):
        assert os.get_inheritable(listener.fileno())
        assert not os.get_blocking(listener.fileno())
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        taken = f"127.0.0.1:{listener.getsockname()[1]}"
        assert nginx_start.open_sockets([taken, "localhost:8000"], patience_seconds=0) == ""
