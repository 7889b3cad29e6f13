"""What supervisord does of its own. With a real nginx: tests/nginx."""

from pathlib import Path
from unittest.mock import Mock

import pytest
from supervisor import events, supervisord

from project import unfinished
from project.supervised import Keeper, TrafficLog


def keeper() -> tuple[Keeper, Mock]:
    options = Mock()
    return Keeper(Path("hot"), None, options), options.logger.warn


def test_what_is_lost_is_told_in_its_own_log() -> None:
    one, warn = keeper()
    log = Mock(spec=TrafficLog, **{"keep_bounded.side_effect": [0, 1234]})
    for _ in range(2):
        one.keep_bounded(log, Mock())
    assert [call.args for call in warn.mock_calls] == [("nobody counts traffic: 1234 bytes of its log were dropped",)]


def test_a_log_that_cannot_be_put_aside_ends_nothing() -> None:
    one, warn = keeper()
    one.keep_bounded(Mock(spec=TrafficLog, **{"keep_bounded.side_effect": OSError("no space")}), Mock())
    assert "no space" in warn.call_args.args[0]


def test_it_looks_after_the_hot_cache_every_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "callbacks", [])
    monkeypatch.setattr(supervisord.Supervisor, "runforever", Mock())
    options = Mock()
    Keeper(tmp_path, None, options).runforever()
    file = tmp_path / f"{'0' * 32}.0000000001"
    file.touch()
    events.notify(events.Tick60Event(0, None))
    assert not file.exists()
    options.logger.info.assert_called_once_with("what killed nginx workers were writing was removed: 1")


def test_an_unfinished_file_that_cannot_be_removed_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one, warn = keeper()
    monkeypatch.setattr(unfinished, "remove", Mock(side_effect=OSError("no permission")))
    one.remove_unfinished(Mock())
    assert "no permission" in warn.call_args.args[0]


@pytest.mark.parametrize("pid", ["", "garbage"])
def test_without_nginx_nothing_is_put_aside(tmp_path: Path, pid: str) -> None:
    log, pid_file = tmp_path / "traffic.log", tmp_path / "nginx.pid"
    log.write_text("x" * 100)
    pid_file.write_text(pid)
    assert TrafficLog(log, 1, pid_file).keep_bounded() == 0
    assert log.exists()
