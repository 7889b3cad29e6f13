"""What supervisord does of its own for the log of traffic. With a real nginx: tests/nginx."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from project.supervised import Keeper, TrafficLog


def keeper(log: Mock) -> tuple[Keeper, Mock]:
    options = Mock()
    return Keeper(log, options), options.logger.warn


def test_what_is_lost_is_told_in_its_own_log() -> None:
    one, warn = keeper(Mock(spec=TrafficLog, **{"keep_bounded.side_effect": [0, 1234]}))
    for _ in range(2):
        one.keep_bounded(Mock())
    assert [call.args for call in warn.mock_calls] == [("nobody counts traffic: 1234 bytes of its log were dropped",)]


def test_a_log_that_cannot_be_put_aside_ends_nothing() -> None:
    one, warn = keeper(Mock(spec=TrafficLog, **{"keep_bounded.side_effect": OSError("no space")}))
    one.keep_bounded(Mock())
    assert "no space" in warn.call_args.args[0]


@pytest.mark.parametrize("pid", ["", "garbage"])
def test_without_nginx_nothing_is_put_aside(tmp_path: Path, pid: str) -> None:
    log, pid_file = tmp_path / "traffic.log", tmp_path / "nginx.pid"
    log.write_text("x" * 100)
    pid_file.write_text(pid)
    assert TrafficLog(log, 1, pid_file).keep_bounded() == 0
    assert log.exists()
