"""Look-ups behind two memories (one trip, one query for the rest, outages), and snapshots of rows."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Event

import pytest
from django.db import Error as DatabaseError
from django.db import OperationalError

from resources import caches
from resources.caches import CachedBatch, CacheFormat, Snapshot, cached_batch
from tests.conftest import RedisServers


class Source:
    """The loader's rows. Records its queries."""

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}
        self.asked: list[list[str]] = []

    def load(self, keys: Sequence[str]) -> Mapping[str, str]:
        self.asked.append(list(keys))
        return {key: self.rows[key] for key in keys if key in self.rows}


Made = Callable[..., CachedBatch[str]]


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def made(redis_servers: RedisServers, source: Source) -> Iterator[Made]:
    """Processes with a memory each."""

    def make(
        memory_seconds: float = 0, at_once: int = 900, memory_size: int = 1000, provisional: bytes = b""
    ) -> CachedBatch[str]:
        def read(packed: bytes) -> str:
            if not packed.startswith(b"1"):
                raise ValueError("of another version")
            return packed[1:].decode()

        kept = CacheFormat(
            "t", lambda text: b"1" + text.encode(), read, lambda _: 60, lambda: memory_seconds, memory_size, provisional
        )
        address = f"unix://{redis_servers.cache.socket}"
        return cached_batch(kept, lambda: address, at_once=at_once)(source.load)

    yield make
    if redis_servers.cache.process is None:
        redis_servers.cache.start()


def test_unknown_keys_are_loaded_once_for_all_processes(made: Made, source: Source) -> None:
    source.rows = {"a": "1", "b": "2"}
    assert made()(["a", "b", "a"]) == {"a": "1", "b": "2"}
    assert made()(["a", "b"]) == {"a": "1", "b": "2"}
    assert source.asked == [["a", "b"]]


def test_missing_keys_are_not_cached(made: Made, source: Source) -> None:
    look_up = made(memory_seconds=60)
    assert look_up(["a"]) == {}
    source.rows = {"a": "1"}
    assert look_up(["a"]) == {"a": "1"}


def test_a_process_remembers_for_a_while_and_only_so_much(made: Made, source: Source) -> None:
    source.rows = {key: key for key in "abc"}
    look_up = made(memory_seconds=60, memory_size=2)
    look_up("abc")
    source.rows = {}
    made().forget("abc")
    assert look_up("abc") == {"b": "b", "c": "c"}


def test_all_processes_know_a_note_at_once(made: Made, source: Source) -> None:
    look_up = made()
    source.rows = {"a": "old"}
    look_up(["a"])
    source.rows = {"a": "new"}
    made().note({"a": "new"})
    assert look_up(["a"]) == {"a": "new"}


def test_of_two_notes_of_a_key_the_source_decides_whichever_comes_last(made: Made, source: Source) -> None:
    source.rows = {"a": "newer"}
    for values in ("older", "newer"), ("newer", "older"):
        made().forget(["a"])
        for value in values:
            made().note({"a": value})
        assert made()(["a"]) == {"a": "newer"}


def test_a_note_after_a_forgotten_value_leaves_the_decision_to_the_source(made: Made, source: Source) -> None:
    made().note({"a": "old"})
    made().forget(["a"])
    made().note({"a": "old"})
    source.rows = {"a": "new"}
    assert made()(["a"]) == {"a": "new"}


def test_a_provisional_value_gives_way_to_a_note(made: Made, source: Source) -> None:
    look_up = made(provisional=b"1wanted")
    look_up.note({"a": "wanted"})
    look_up.note({"a": "stored"})
    assert look_up(["a"]) == {"a": "stored"}
    assert source.asked == []


@pytest.mark.parametrize("change", ["note", "forget"])
def test_a_reading_from_before_a_change_puts_no_old_value_back(made: Made, source: Source, change: str) -> None:
    other = made()
    source.rows = {"a": "old"}

    def changed_meanwhile(keys: Sequence[str]) -> Mapping[str, str]:
        found = source.load(keys)
        if change == "note":
            other.note({"a": "new"})
        else:
            other.forget(["a"])
        return found

    assert CachedBatch(changed_meanwhile, other._kept, other._address, 900)(["a"]) == {"a": "old"}
    source.rows = {}
    assert other(["a"]) == ({"a": "new"} if change == "note" else {})


def test_a_note_of_new_values_replaces_no_known_value(made: Made) -> None:
    look_up = made()
    look_up.note({"a": "stored"})
    look_up.note_new({"a": "wanted", "b": "wanted"})
    assert look_up("ab") == {"a": "stored", "b": "wanted"}


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of commands in each trip to Redis."""
    found: list[int] = []
    piped = caches._run_pipeline

    def counted(client: object, commands: Sequence[tuple[object, ...]]) -> list[object]:
        found.append(len(commands))
        return piped(client, commands)  # type: ignore[arg-type]

    monkeypatch.setattr(caches, "_run_pipeline", counted)
    return found


def test_many_keys_are_one_trip_and_questions_of_bounded_size(made: Made, source: Source, trips: list[int]) -> None:
    keys = [f"k{number}" for number in range(10_000)]
    source.rows = dict.fromkeys(keys, "x")
    assert len(made()(keys)) == 10_000
    assert [len(asked) for asked in source.asked] == [900] * 11 + [100]
    assert trips == [10, 10_000]  # ten MGETs in one trip, and the rows found in another
    assert len(made()(keys)) == 10_000
    assert trips[2:] == [10]


def test_very_many_are_written_in_portions(
    made: Made, trips: list[int], redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "MAX_PIPELINE_COMMANDS", 3)
    made().note({f"k{number}": "x" for number in range(10)})
    assert trips == [3, 3, 3, 1]
    assert redis_servers.cache.client.dbsize() == 10


def test_values_of_another_version_are_asked_for_again(made: Made, source: Source, redis_servers: RedisServers) -> None:
    source.rows = {"a": "1"}
    redis_servers.cache.client.set("t:a", b"2?")
    assert made()(["a"]) == {"a": "1"}


def test_a_missing_server_is_asked_once_a_second(
    made: Made, source: Source, trips: list[int], redis_servers: RedisServers
) -> None:
    redis_servers.cache.stop()
    look_up = made()
    source.rows = {"a": "1"}
    for _ in range(5):
        assert look_up(["a"]) == {"a": "1"}
        look_up.note({"a": "1"})
        look_up.forget(["a"])
    assert len(trips) == 1


@pytest.mark.parametrize("change", ["forget", "note"])
def test_what_a_server_that_was_away_could_not_be_told_it_does_not_say(change: str, made: Made, source: Source) -> None:
    """It was out of reach of one process, and kept all that it knew."""
    source.rows = {"a": "old", "b": "same"}
    writer, reader = made(), made()
    assert reader(["a", "b"]) == {"a": "old", "b": "same"}
    source.rows["a"] = "new"
    writer._breaker.failed(time.monotonic())
    if change == "note":
        writer.note({"a": "new"})
    else:
        writer.forget(["a"])
    assert reader(["a"]) == {"a": "old"}
    writer._breaker.succeeded()
    assert writer(["b"]) == {"b": "same"}
    assert reader(["a"]) == {"a": "new"}


class Rows:
    """Counts how often it is read; can be away."""

    def __init__(self) -> None:
        self.read, self.is_away = 0, False

    def __call__(self) -> int:
        self.read += 1
        if self.is_away:
            raise OperationalError("away")
        return self.read


def test_rows_are_read_once_while_they_are_new_and_current_ones_are_returned_without_reading() -> None:
    rows = Rows()
    lasting, passing = Snapshot("rows", rows, lambda: 60), Snapshot("rows", rows, lambda: 0)
    assert lasting.current() is None
    assert [lasting.get(), passing.get(), lasting.get(), passing.get()] == [1, 2, 1, 3]
    assert (lasting.current(), passing.current()) == (1, None)
    lasting.forget()
    assert lasting.get() == rows.read == 4


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_of_callers_that_never_wait_one_at_a_time_is_to_read_nearly_new_rows(clock: list[float]) -> None:
    snapshot = Snapshot("rows", Rows(), lambda: 1)
    assert [snapshot.current(), snapshot.current(), snapshot.get()] == [None, None, 1]
    clock[0] += 1.5
    assert [snapshot.current(), snapshot.current()] == [None, 1]
    snapshot.get()
    clock[0] += 1.5
    assert [snapshot.current(), snapshot.current()] == [None, 2]
    clock[0] += 0.5
    assert [snapshot.current(), snapshot.current()] == [None, None], "the one has not read them in time"


@pytest.mark.parametrize("known", [True, False])
def test_a_database_that_is_away_is_asked_no_more_often_than_one_that_answers(clock: list[float], known: bool) -> None:
    rows = Rows()
    snapshot = Snapshot("rows", rows, lambda: 1)
    assert not known or snapshot.get() == 1
    rows.is_away, rows.read = True, 0
    for _ in range(10):
        clock[0] += 0.25
        with nullcontext() if known else pytest.raises(DatabaseError, match="rows could not be read"):
            assert snapshot.get() == 1
    assert rows.read == (2 if known else 3)
    rows.is_away = False
    clock[0] += 1
    assert snapshot.get() == rows.read


class BlockedRows(Rows):
    """Lets no reading end but the first, until it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.let = Event(), Event()

    def __call__(self) -> int:
        if self.read:
            self.asked.set()
            assert self.let.wait(5)
        return super().__call__()


@pytest.mark.parametrize(
    ("idle_seconds", "patience_seconds", "second"),
    [
        pytest.param(1.5, 60.0, 1, id="nearly new rows serve meanwhile"),
        pytest.param(60.0, 2.0, 2, id="old rows do not"),
        pytest.param(60.0, 0.01, 1, id="no reader is waited for without end"),
    ],
)
def test_while_another_thread_reads(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, idle_seconds: float, patience_seconds: float, second: int
) -> None:
    monkeypatch.setattr(caches, "SNAPSHOT_WAIT_SECONDS", patience_seconds)
    rows = BlockedRows()
    snapshot = Snapshot("rows", rows, lambda: 1)
    assert snapshot.get() == 1
    clock[0] += idle_seconds
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(snapshot.get)
        assert rows.asked.wait(5)
        other = threads.submit(snapshot.get)
        if second == 1:
            assert other.result(5) == 1
        rows.let.set()
        assert (first.result(5), other.result(5)) == (2, second)
    assert rows.read == 2
