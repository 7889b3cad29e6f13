"""Passes over real files into a real `state`: each line is counted once, under any interruption."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from resources.traffic import counter, log_files
from retry import popularity, stores
from retry.errors import StoreUnavailable
from retry.scripts import Reply, ScriptCall
from tests.conftest import RedisServers

pytestmark = pytest.mark.usefixtures("redis_servers")
_moments = count(time.time() - 3600, 0.001)


@pytest.fixture
def log(tmp_path: Path, settings: Any) -> Path:
    settings.TRAFFIC_LOG = tmp_path / "traffic.log"
    settings.NGINX_PID_FILE = tmp_path / "nginx.pid"
    return tmp_path / "traffic.log"


def line(tile: str = "jams/1/0/0.png", *, status: int = 200) -> str:
    """No two lines are alike."""
    return f"{next(_moments):.3f} {status} HIT 100 0.000 GET /tiles/{tile}\n"


def write(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(lines)


def count_lines(log: Path, *lines: str) -> int:
    """Writes the lines to the log, and makes a pass."""
    write(log, *lines)
    return counter.read_traffic()


def counted() -> dict[str, float]:
    """Requests by answer, of all kinds."""
    totals = popularity.load_totals()
    return {answer: sum(one.number for one in totals if one.answer == answer) for answer in {o.answer for o in totals}}


def test_what_is_new_is_counted_once(log: Path) -> None:
    count_lines(log, line(), line(), line(status=404))
    counter.read_traffic()
    assert counted() == {"hot": 2, "missing": 1}
    count_lines(log, line())
    assert counted() == {"hot": 3, "missing": 1}
    assert popularity.weighted_requests("tile:jams:1:0:0:png") == pytest.approx(3, rel=0.2)  # an hour old


def test_a_line_counts_when_it_is_whole(log: Path) -> None:
    whole = line()
    count_lines(log, line(), whole[:30])
    assert counted() == {"hot": 1}
    count_lines(log, whole[30:])
    assert counted() == {"hot": 2}


def test_a_log_that_was_renamed_is_read_to_its_end(log: Path) -> None:
    count_lines(log, line(), line())
    write(log, line())
    log.rename(log.with_name("traffic.log.1"))
    count_lines(log, line())
    write(log.with_name("traffic.log.1"), line())  # nginx had not opened the new one yet
    counter.read_traffic()
    assert counted() == {"hot": 5}


def test_a_log_that_was_copied_and_emptied_is_counted_once(log: Path) -> None:
    count_lines(log, line(), line())
    write(log, line())
    log.with_name("traffic.log.1").write_bytes(log.read_bytes())
    counter.read_traffic()
    os.truncate(log, 0)
    counter.read_traffic()
    count_lines(log, *(line() for _ in range(10)))
    assert counted() == {"hot": 13}


def test_a_log_that_was_deleted_starts_anew(log: Path) -> None:
    count_lines(log, line())
    log.unlink()
    counter.read_traffic()
    count_lines(log, line())
    assert counted() == {"hot": 2}


def test_a_file_that_is_away_for_a_pass_is_not_counted_again(log: Path) -> None:
    count_lines(log, line(), line())
    away = log.with_name("elsewhere")
    log.rename(away)
    count_lines(log, line())
    away.rename(log.with_name("traffic.log.1"))
    counter.read_traffic()
    assert counted() == {"hot": 3}


def test_a_file_that_stays_for_days_is_not_counted_again(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(log.with_name("traffic.log.1"), line())
    now = time.time()
    for day in range(4):
        monkeypatch.setattr(time, "time", lambda day=day: now + 80_000 * day)
        os.utime(log.with_name("traffic.log.1"), (now + 80_000 * day,) * 2)
        count_lines(log, line())
    assert counted() == {"hot": 5}


def test_garbage_is_counted_as_such_and_stops_nothing(log: Path) -> None:
    count_lines(log, line(), "garbage\n", "\0" * 5000 + "\n", "\n", line())
    assert counted() == {"hot": 2, "other": 3}
    assert {one.kind for one in popularity.load_totals() if one.answer == "other"} == {counter.UNREADABLE_KIND}


def test_a_line_longer_than_a_slice_stops_nothing(log: Path) -> None:
    count_lines(log, line(), "x" * (2 * counter.SLICE_BYTES) + "\n", line())
    assert counted()["hot"] == 2


def test_many_slices_are_counted_in_one_pass(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter, "SLICE_BYTES", 500)
    count_lines(log, *(line() for _ in range(200)))
    assert counted() == {"hot": 200}


def test_a_pass_is_bounded_and_the_next_one_goes_on(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter, "SLICE_BYTES", 500)
    monkeypatch.setattr(counter, "MAX_PASS_BYTES", 1000)
    count_lines(log, *(line() for _ in range(100)))
    assert 0 < counted()["hot"] < 30
    while counter.read_traffic():
        pass
    assert counted() == {"hot": 100}


def test_without_a_log_nothing_is_counted(log: Path) -> None:
    assert counter.read_traffic() == 0
    assert popularity.load_totals() == []


def test_without_its_directory_nothing_is_counted(settings: Any, tmp_path: Path) -> None:
    settings.TRAFFIC_LOG = tmp_path / "nowhere" / "traffic.log"
    assert counter.read_traffic() == 0


def test_nothing_is_read_when_measuring_is_off(log: Path, settings: Any) -> None:
    settings.OBSERVE = False
    assert count_lines(log, line()) == 0


def test_counts_and_position_are_lost_together(log: Path, redis_servers: RedisServers) -> None:
    count_lines(log, line(), line())
    redis_servers.state.client.flushall()
    counter.read_traffic()
    assert counted() == {"hot": 2}


def test_each_machine_has_a_position_of_its_own(log: Path, settings: Any, tmp_path: Path) -> None:
    same = line()
    count_lines(log, same)
    (tmp_path / "other").mkdir()
    settings.TRAFFIC_LOG = tmp_path / "other" / "traffic.log"
    write(settings.TRAFFIC_LOG, same)
    counter.read_traffic()
    assert counted() == {"hot": 2}


@pytest.mark.parametrize("executed", [False, True])
def test_a_pass_that_breaks_off_at_the_step_neither_loses_nor_doubles(
    log: Path, monkeypatch: pytest.MonkeyPatch, executed: bool
) -> None:
    write(log, line(), line())
    execute = stores.execute_patiently

    def broken(call: ScriptCall) -> Reply:
        if executed:
            execute(call)
        raise StoreUnavailable("the connection broke")

    with monkeypatch.context() as patched:
        patched.setattr(stores, "execute_patiently", broken)
        with pytest.raises(StoreUnavailable):
            counter.read_traffic()
    counter.read_traffic()
    assert counted() == {"hot": 2}


def test_two_passes_on_one_position_count_once(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock may fail: on a network's file system, or for a pass that was given up and is carried out late."""
    write(log, line(), line())
    execute = stores.execute_patiently

    def twice(call: ScriptCall) -> Reply:
        assert execute(call) == 1
        return execute(call)

    monkeypatch.setattr(stores, "execute_patiently", twice)
    counter.read_traffic()
    assert counted() == {"hot": 2}


@contextmanager
def state_is_away(settings: Any) -> Iterator[None]:
    """And a pass fails by that."""
    working = settings.REDIS_URL
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stores, "PATIENT_RETRIES", 0)
        with pytest.raises(StoreUnavailable):
            yield
    settings.REDIS_URL = working


@pytest.fixture
def nginx(settings: Any, log: Path) -> Iterator[None]:
    """A process of that name, which does nothing when it is told to open its logs anew."""
    script = "import signal, sys; signal.signal(10, signal.SIG_IGN); open('/proc/self/comm', 'w').write('nginx')"
    waiting = f"{script}; print(flush=True); sys.stdin.read()"
    with Popen([sys.executable, "-c", waiting], stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout
        assert process.stdout.readline()
        settings.NGINX_PID_FILE.write_text(str(process.pid))
        yield


def test_without_the_state_the_pass_fails_and_the_next_one_counts(log: Path, settings: Any) -> None:
    write(log, line())
    with state_is_away(settings):
        counter.read_traffic()
    counter.read_traffic()
    assert counted() == {"hot": 1}


@pytest.mark.usefixtures("nginx")
def test_without_the_state_the_log_is_put_aside_all_the_same_and_counted_later(log: Path, settings: Any) -> None:
    settings.TRAFFIC_LOG_MAX_BYTES = 100
    for _ in range(3):
        write(log, *(line() for _ in range(3)))
        with state_is_away(settings):
            counter.read_traffic()
        assert not log.exists()
    counter.read_traffic()
    assert counted() == {"hot": 9}


def put_aside(log: Path, number: int) -> int:
    """Writes so many files of 200 lines; returns the bytes of one."""
    for each in range(number):
        path = log.with_name(f"{log.name}.{1_795_262_400_000 + each}")
        write(path, *(line() for _ in range(200)))
        os.utime(path, (time.time() - number + each,) * 2)
    return path.stat().st_size


def test_without_the_state_the_oldest_of_too_much_is_dropped_and_the_loss_is_told(
    log: Path, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    size = settings.TRAFFIC_LOG_MAX_BYTES = put_aside(log, log_files.MAX_KEPT_LOGS + 3)
    with state_is_away(settings):
        counter.read_traffic()
    assert [(record.name, vars(record)["bytes"]) for record in caplog.records] == [("tarry.traffic", 3 * size)]
    counter.read_traffic()
    assert counted() == {"hot": 200 * log_files.MAX_KEPT_LOGS}


def test_a_file_that_was_counted_is_no_loss(log: Path, settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.TRAFFIC_LOG_MAX_BYTES = put_aside(log, log_files.MAX_KEPT_LOGS + 3)
    counter.read_traffic()
    assert len(list(log.parent.glob("traffic.log.1795*"))) == log_files.MAX_KEPT_LOGS
    assert counted() == {"hot": 200 * (log_files.MAX_KEPT_LOGS + 3)}
    assert caplog.records == []
