"""Lines of the log and their sums; passes over real files, each line counted once under any interruption."""

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
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from resources.traffic import counter, log_files
from resources.traffic.asked import Asked
from resources.traffic.counter import FrontAnswer, check_traffic
from retry import popularity, stores
from retry.errors import StoreUnavailable
from retry.scripts import Reply, ScriptCall
from tests.conftest import RedisServers

_moments = count(time.time() - 3600, 0.001)


@pytest.fixture
def log(tmp_path: Path, settings: Any, redis_servers: RedisServers) -> Path:
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


def test_a_pass_is_bounded_and_the_next_one_goes_on(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter, "SLICE_BYTES", 500)
    monkeypatch.setattr(counter, "MAX_PASS_BYTES", 1000)
    count_lines(log, *(line() for _ in range(100)))
    assert 0 < counted()["hot"] < 30
    while counter.read_traffic():
        pass
    assert counted() == {"hot": 100}


def test_without_a_log_or_its_folder_or_when_measuring_is_off_nothing_is_counted(log: Path, settings: Any) -> None:
    assert counter.read_traffic() == 0
    settings.TRAFFIC_LOG = log.parent / "nowhere" / log.name
    assert counter.read_traffic() == 0
    settings.TRAFFIC_LOG, settings.OBSERVE = log, False
    assert count_lines(log, line()) == 0
    assert popularity.load_totals() == []


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
def test_a_broken_pass_neither_loses_nor_doubles(log: Path, monkeypatch: pytest.MonkeyPatch, executed: bool) -> None:
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


def test_without_state_the_oldest_is_dropped_and_the_loss_told(
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


NOW = 1_795_262_400.0
HALF_LIFE = 3600.0
PERIOD = int(NOW // 600)
HOT, MISSING = FrontAnswer("hot", wanted=True), FrontAnswer("missing", wanted=False)


def packed_line(address: str = "/a/1", *, age: float = 0, status: int = 200) -> bytes:
    return f"{NOW - age:.3f} {status} HIT 100 0.000 GET {address}".encode()


def name(address: str) -> Asked | None:
    """Addresses are /<group>[/<key>]."""
    _, group, *key = address.split("/")
    return None if group == "nothing" else Asked("tile", group, f"tile:{key[0]}" if key else "")


def tally(*found: bytes) -> counter.TrafficTally:
    return counter.tally_lines(b"\n".join(found), NOW, HALF_LIFE, name)


def test_alike_requests_are_added_up() -> None:
    whole = tally(packed_line("/a/1"), packed_line("/a/2"), packed_line("/b/1"), packed_line("/a/1", status=404))
    assert whole.hits == {
        (("tile", "a"), HOT, PERIOD): 2,
        (("tile", "b"), HOT, PERIOD): 1,
        (("tile", "a"), MISSING, PERIOD): 1,
    }
    assert whole.weights == {"tile:1": 2, "tile:2": 1}
    assert whole.unreadable == 0


def test_the_parts_of_a_group_are_counted_under_a_kind_of_their_own() -> None:
    whole = counter.tally_lines(packed_line(), NOW, HALF_LIFE, lambda _: Asked("tile", "a", "tile:1", part="9"))
    assert whole.hits == {(("tile", "a"), HOT, PERIOD): 1, (("tile/parts", "a/9"), HOT, PERIOD): 1}
    assert whole.weights == {"tile:1": 1}


def test_a_note_names_the_reader_where_there_is_one() -> None:
    found = [packed_line().replace(b"GET", b"GET 000001"), packed_line().replace(b"GET", b"GET 000002"), packed_line()]
    lines = b"\n".join([*found, *found])
    whole = counter.tally_lines(lines, NOW, HALF_LIFE, lambda _: Asked("feed", noted="sea"))
    assert whole.noted == {"feed": {"sea", "sea 000001", "sea 000002"}}


def test_requests_weigh_less_the_older_they_are() -> None:
    assert tally(packed_line(), packed_line(age=HALF_LIFE), packed_line(age=2 * HALF_LIFE)).weights == {"tile:1": 1.75}


def test_a_request_of_the_future_counts_as_one_of_now_and_one_of_long_ago_in_no_period() -> None:
    whole = tally(packed_line(age=-1e6))
    assert whole.weights == {"tile:1": 1}
    assert list(whole.hits) == [(("tile", "a"), HOT, PERIOD)]
    assert list(tally(packed_line(age=100_000)).hits) == [(("tile", "a"), HOT, -1)]


@pytest.mark.parametrize(
    ("addresses", "group"),
    [(("/nothing/1", r"/a\xFF"), ("other", "")), (("/a",), ("tile", "a"))],
    ids=["named by no function", "without a key"],
)
def test_requests_without_a_key_are_counted_and_not_popular(addresses: tuple[str, ...], group: tuple[str, str]) -> None:
    whole = tally(*map(packed_line, addresses))
    assert (whole.hits, whole.weights) == ({(group, HOT, PERIOD): len(addresses)}, {})


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Asked("tile", "a b\nc", "tile:1"), Asked("tile", "a_b_c", "tile:1")),
        (Asked("tile", "g" * 1000, "tile:1"), Asked("tile", "g" * 100, "tile:1")),
        (Asked("tile", "a", "k" * 501), Asked("tile", "a")),
        (Asked("two words", "a", "k"), counter.ASKED_OTHER),
        (Asked("", "a", "k"), counter.ASKED_OTHER),
    ],
)
def test_names_are_bounded_and_have_no_blanks(asked: Asked, expected: Asked) -> None:
    assert counter.read_asked(b"/", lambda _: asked) == expected


GOOD = b"1795262400.123 200 HIT 4312 0.000 GET /tiles/jams/1/0/0.png"

GARBAGE = {
    "empty": b"",
    "half a line": GOOD[:30],
    "another format": b'127.0.0.1 - - [21/Nov/2026:12:00:00 +0000] "GET /tiles/a HTTP/1.1" 200 1',
    "zeros of a machine that failed": b"\0" * 200,
    "two lines that a crash put together": GOOD[:40] + b"\0" + GOOD,
    "no number": GOOD.replace(b"200", b"2o0"),
    "no time": GOOD.replace(b"1795262400.123", b"-"),
    "infinite time": GOOD.replace(b"1795262400.123", b"inf"),
    "a great many digits": b"9" * 100_000 + GOOD,
    "no address": GOOD.replace(b"/tiles/jams/1/0/0.png", b"-"),
    "bytes that nginx escapes": GOOD + b"\xff",
    "another line's end": GOOD + b"\r",
}


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (GOOD.replace(b"HIT", b"-"), (b"-", b"GET", b"", b"/tiles/jams/1/0/0.png")),
        (GOOD + b" 200 HIT", (b"HIT", b"GET", b"", b"/tiles/jams/1/0/0.png 200 HIT")),
        (GOOD.replace(b"GET ", b"GET 012345 "), (b"HIT", b"GET", b"012345", b"/tiles/jams/1/0/0.png")),
    ],
    ids=["a dash stands for no cache", "blanks of an address belong to it", "a number stands for the reader"],
)
def test_a_line_is_read_with_its_peculiarities(line: bytes, fields: tuple[bytes, ...]) -> None:
    [found] = counter.parse_lines(line)
    assert found[2:] == fields


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_left_out_and_the_lines_around_it_are_not(garbage: bytes) -> None:
    assert counter.parse_lines(garbage) == []
    assert counter.parse_lines(b"\n".join([GOOD, garbage, GOOD])) == counter.parse_lines(GOOD) * 2


@given(st.binary(max_size=300))
def test_no_bytes_are_too_odd(data: bytes) -> None:
    assert len(counter.parse_lines(data)) <= data.count(b"\n") + 1


@pytest.mark.parametrize(
    ("status", "cache_status", "method", "name", "wanted"),
    [
        (b"200", b"HIT", b"GET", "hot", True),
        (b"200", b"STALE", b"GET", "hot", True),
        (b"200", b"HIT", b"HEAD", "hot", True),
        (b"206", b"FILE", b"GET", "hot", True),
        (b"200", b"MISS", b"GET", "passed", True),
        (b"200", b"-", b"GET", "passed", True),
        (b"302", b"MISS", b"GET", "waiting", True),
        (b"202", b"-", b"GET", "waiting", True),
        (b"404", b"HIT", b"GET", "missing", False),
        (b"503", b"-", b"GET", "busy", False),
        (b"502", b"-", b"GET", "failed", False),
        (b"200", b"-", b"OPTIONS", "other", False),
        (b"204", b"MISS", b"GET", "other", False),
        (b"000", b"-", b"GET", "other", False),
    ],
)
def test_answers_are_named_and_wanted_or_not(
    status: bytes, cache_status: bytes, method: bytes, name: str, wanted: bool
) -> None:
    assert counter.front_answer(status, cache_status, method) == counter.FrontAnswer(name, wanted)


@pytest.mark.parametrize(
    ("escaped", "address"),
    [
        (b"/tiles/a", "/tiles/a"),
        (rb"/prim\xC3\xA9/7", "/primé/7"),
        (rb"/a\x22b\x5Cc", '/a"b\\c'),
        (rb"/a\x0Ab", "/a\nb"),
        (rb"/a\xFF", None),
    ],
)
def test_addresses_are_those_that_were_asked_for(escaped: bytes, address: str | None) -> None:
    assert counter.unescape_address(escaped) == address


def primes(address: str) -> Asked:
    return Asked("prime", "", f"prime:{int(address.removeprefix('/primes/'))}")


def others(address: str) -> Asked:
    return Asked("other-primes")


@pytest.fixture
def _primes(settings: Settings) -> None:
    settings.TRAFFIC = {**settings.TRAFFIC, "/primes/": f"{__name__}.primes", "/primes/twin/": f"{__name__}.others"}


@pytest.mark.usefixtures("_primes")
@pytest.mark.parametrize(
    ("address", "asked"),
    [
        ("/tiles/jams/12/2046/1361.png", Asked("tile", "jams", "tile:jams:12:2046:1361:png", part="12")),
        ("/tiles/jams/12/2046/1361@2x.webp", Asked("tile", "jams", "tile:jams:12:2046:1361@2x:webp", part="12")),
        ("/tiles/jams/1/2/0.png", None),
        ("/tiles/jams.json", None),
        ("/tiles/", None),
        ("/primes/7", Asked("prime", "", "prime:7")),
        ("/primes/twin/7", Asked("other-primes")),
        ("/elsewhere", None),
    ],
)
def test_an_address_names_content(address: str, asked: Asked | None) -> None:
    assert counter.name_address(address) == asked


@pytest.mark.usefixtures("_primes")
def test_an_address_that_its_function_cannot_bear_names_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert counter.name_address("/primes/seven") is None
    assert "could not name" in caplog.text


@pytest.mark.parametrize(
    ("changes", "identifier"),
    [
        ({"TRAFFIC": {"tiles": "resources.tiles.tile_address.parse_requested_tile"}}, "resources.E001"),
        ({"TRAFFIC": {'/a" 1; evil': "resources.tiles.tile_address.parse_requested_tile"}}, "resources.E001"),
        ({"TRAFFIC": {"/a/": "resources.tiles.tile_address.nothing"}}, "resources.E002"),
        ({"TRAFFIC": {"/a/": "nowhere.at.all"}}, "resources.E002"),
        ({"TRAFFIC_LOG_MAX_BYTES": 10}, "resources.E003"),
    ],
)
def test_a_bad_setting_is_found_at_the_start(settings: Settings, changes: dict[str, object], identifier: str) -> None:
    assert check_traffic(None) == []
    for name, value in changes.items():
        setattr(settings, name, value)
    assert [message.id for message in check_traffic(None)] == [identifier]
