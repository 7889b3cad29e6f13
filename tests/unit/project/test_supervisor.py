"""supervisord's own steps: files of the hot cache that nginx never looks at again. With a real nginx: tests/nginx."""

import fcntl
import os
from pathlib import Path
from signal import SIGCHLD as CHLD
from signal import SIGHUP as HUP
from signal import SIGINT as INT
from signal import SIGTERM as TERM
from unittest.mock import Mock

import pytest
from supervisor import events, supervisord

from project import program, supervisor
from project.supervisor import ForkingOptions, TarrySupervisor, TrafficLog
from resources.disk.meter import DiskMeter, DiskUse


def keeper() -> tuple[TarrySupervisor, Mock]:
    return TarrySupervisor(Path("hot"), None, None, options := Mock()), options.logger.warn


def test_what_is_lost_is_told_in_its_own_log() -> None:
    one, warn = keeper()
    log = Mock(spec=TrafficLog, **{"keep_bounded.side_effect": [0, 1234]})
    for _ in range(2):
        one.keep_bounded(log, Mock())
    assert [call.args for call in warn.mock_calls] == [
        ("no worker counts traffic: 1234 bytes of its log were dropped",)
    ]


def test_it_looks_after_the_hot_cache_every_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "callbacks", [])
    monkeypatch.setattr(supervisord.Supervisor, "runforever", Mock())
    TarrySupervisor(tmp_path, None, None, options := Mock()).runforever()
    file = tmp_path / f"{'0' * 32}.0000000001"
    file.touch()
    events.notify(events.Tick60Event(0, None))
    assert not file.exists()
    options.logger.info.assert_called_once_with("unfinished files of killed nginx workers were removed: 1")


def test_a_file_that_cannot_be_removed_or_put_aside_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one, warn = keeper()
    monkeypatch.setattr(supervisor, "remove_unfinished_files", Mock(side_effect=OSError("no permission")))
    one.remove_unfinished(Mock())
    assert "no permission" in warn.call_args.args[0]
    one.keep_bounded(Mock(spec=TrafficLog, **{"keep_bounded.side_effect": OSError("no space")}), Mock())
    assert "no space" in warn.call_args.args[0]


KEY = "0123456789abcdef" * 2


def test_an_unfinished_file_is_removed_unless_a_process_writes_it(tmp_path: Path) -> None:
    assert supervisor.remove_unfinished_files(tmp_path / "missing") == 0
    hot, folder = tmp_path / "link", tmp_path / "real" / "f" / "de"
    folder.mkdir(parents=True)
    hot.symlink_to("real")
    answer, left, written = (folder / name for name in (KEY, f"{KEY}.0000000042", f"{KEY}.0000000043"))
    answer.touch()
    for cache in (tmp_path / "real", hot):
        left.touch()
        with written.open("wb"):
            assert supervisor.remove_unfinished_files(cache) == 1
        assert {*folder.iterdir()} == {answer, written}


def test_it_drains_before_it_ends_and_ends_at_once_when_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    for told, later, found in (([HUP], 9, None), ([HUP], 10, TERM), ([INT, TERM], 0, TERM), ([CHLD], 0, CHLD)):
        draining = tmp_path / "draining"
        draining.unlink(missing_ok=True)
        receiver, now[0] = supervisor.EndingReceiver(draining, 10), 100.0
        for number in told:
            receiver.receive(number, None)
        now[0] += later
        assert (receiver.get_signal(), receiver.get_signal()) == (found, None)
        assert draining.exists() == (told != [CHLD])
    receiver = supervisor.EndingReceiver(tmp_path / "none", 0)
    receiver.receive(TERM, None)
    assert receiver.get_signal() == TERM
    assert not (tmp_path / "none").exists()


COMMAND = ["/venv/python", "-m", "project.program", "--end", "TERM", "celery"]


@pytest.fixture
def forking(monkeypatch: pytest.MonkeyPatch) -> ForkingOptions:
    """Those of a supervisord that starts, with a site that opens a file as it is loaded."""
    monkeypatch.setattr(program, "_loaded_code", [])
    given = ForkingOptions()
    given.first, given.logger = True, Mock()
    return given


def test_a_program_is_forked_with_the_code_that_is_on_the_disk_and_executed_else(
    forking: ForkingOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    forked, executed = Mock(side_effect=SystemExit), Mock()
    monkeypatch.setattr(program, "run_forked", forked)
    monkeypatch.setattr("os.execve", executed)
    monkeypatch.setattr(supervisor, "import_module", Mock())
    forking.load_site()
    with pytest.raises(SystemExit):
        forking.execve(COMMAND[0], COMMAND, {"ONE": "1"})
    forked.assert_called_once_with(COMMAND, {"ONE": "1"})
    forking.execve("/usr/sbin/nginx", ["/usr/sbin/nginx", "-c", "nginx.conf"], {})
    monkeypatch.setattr(program, "digest_code", lambda: "another")
    forking.execve(COMMAND[0], COMMAND, {})
    assert [call.args[0] for call in executed.mock_calls] == ["/usr/sbin/nginx", COMMAND[0]]


EMPTY = dict.fromkeys(("state", "layers", "other"), 0)

FAR = 800
"""A descriptor beyond those that the other threads of the tests open."""


def open_far(path: Path) -> int:
    """Opens a file whose descriptor no other thread of the tests gets."""
    with path.open("w") as file:
        return fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, FAR)


def test_a_child_keeps_the_files_of_loaded_modules_and_closes_the_others(
    forking: ForkingOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened = [open_far(tmp_path / "other")]
    site = Mock(load_site=lambda: opened.append(open_far(tmp_path / "loaded")))
    monkeypatch.setattr(supervisor, "import_module", lambda _: site)
    forking.load_site()
    for descriptor in opened:
        forking.close_fd(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.close(opened[0])
    os.close(opened[1])


@pytest.mark.parametrize("why", ["it cannot be loaded", "supervisord was reloaded"])
def test_programs_load_their_code_by_themselves_where_supervisord_has_not(
    why: str, forking: ForkingOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "import_module", Mock())
    forking.load_site()
    assert program.is_code_current()
    forking.first = "cannot" in why
    monkeypatch.setattr(supervisor, "import_module", Mock(side_effect=ImportError("no module named deep")))
    forking.load_site()
    assert not program.is_code_loaded()
    assert forking.logger.warn.called == forking.first


def test_a_trouble_of_the_disk_is_told_once_until_it_is_over() -> None:
    one, warn = keeper()
    full, well = (DiskUse(100, {"database": size}, 0, is_full=False) for size in (101, 99))
    meter = Mock(spec=DiskMeter, **{"measure.side_effect": [full, full, OSError("no permission"), well, full]})
    for _ in range(5):
        one.measure_disk(meter, Mock())
    told = [call.args[0] for call in warn.mock_calls]
    over = "this machine: its site takes 101 bytes of the disk, more than DISK_MAX_BYTES"
    assert told == [over, "the disk cannot be measured: no permission", over]


def test_each_trouble_of_the_disk_is_told_when_it_begins() -> None:
    one, warn = keeper()
    above, both = (DiskUse(100, {"database": 101, **EMPTY}, 0, is_full=is_full) for is_full in (False, True))
    meter = Mock(spec=DiskMeter, **{"measure.side_effect": [above, both, above, both]})
    for _ in range(4):
        one.measure_disk(meter, Mock())
    assert [call.args[0].count("DISK_MAX_BYTES") for call in warn.mock_calls] == [1, 2, 2]
