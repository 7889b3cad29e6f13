"""The start of nginx: the workers of a killed one, and the sockets that the new one gets."""

import os
import socket
from pathlib import Path
from unittest.mock import Mock

import pytest

from project import nginx_start
from project.nginx_start import find_leftovers, remove_bodies
from tests.support.stack import free_port

HEX = "0123456789abcdef"
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


@pytest.mark.parametrize("is_emptied", [True, False])
def test_the_hot_cache_has_nginxs_folders_and_no_others_and_nothing_beside_it_changes(
    tmp_path: Path, is_emptied: bool
) -> None:
    hot = tmp_path / "hot"
    of_other_levels, answer, beside = hot / "a" / "bc" / "0123", hot / "bc" / "0123", tmp_path / "logs" / "main.log"
    for file in (of_other_levels, answer, beside):
        file.parent.mkdir(parents=True)
        file.touch()
    for place in (hot, tmp_path / "none"):
        nginx_start.make_hot_folders(place, is_emptied=is_emptied)
        assert {folder.name for folder in place.iterdir()} == {f"{one}{two}" for one in HEX for two in HEX}
    assert [file.exists() for file in (of_other_levels, answer, beside)] == [False, not is_emptied, True]


@pytest.mark.parametrize("given", [["--empty"], []])
def test_it_empties_the_hot_cache_if_it_is_told_then_becomes_nginx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str]
) -> None:
    monkeypatch.setattr("os.execvp", executed := Mock())
    answer = tmp_path / "hot" / "bc" / "0123"
    answer.parent.mkdir(parents=True)
    answer.touch()
    places = [str(tmp_path / name) for name in ("nginx.pid", "front.sock", "hot")]
    nginx_start.main(*places, *given, "--", "nginx", "-c", "x")
    executed.assert_called_once_with("nginx", ("nginx", "-c", "x"))
    assert answer.exists() is not bool(given)


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
