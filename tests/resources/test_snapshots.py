"""What a process knows of some rows, and for how long."""

from threading import Event, Thread

import pytest
from django.db import Error as DatabaseError
from django.db import OperationalError

from resources.snapshots import Snapshot


class Rows:
    """Counts how often it is read; can be away."""

    def __init__(self) -> None:
        self.read, self.is_away = 0, False

    def __call__(self) -> int:
        self.read += 1
        if self.is_away:
            raise OperationalError("away")
        return self.read


def test_it_is_read_once_for_all_who_ask_in_time() -> None:
    rows = Rows()
    snapshot = Snapshot("rows", rows, lambda: 60)
    assert [snapshot.get(), snapshot.get()] == [1, 1]
    snapshot.forget()
    assert snapshot.get() == 2


def test_it_is_read_again_when_it_is_old() -> None:
    snapshot = Snapshot("rows", Rows(), lambda: 0)
    assert [snapshot.get(), snapshot.get()] == [1, 2]


def test_what_is_current_is_told_without_reading() -> None:
    rows = Rows()
    lasting, passing = Snapshot("rows", rows, lambda: 60), Snapshot("rows", rows, lambda: 0)
    assert lasting.current() is None
    assert [lasting.get(), passing.get()] == [1, 2]
    assert (lasting.current(), passing.current()) == (1, None)
    assert rows.read == 2


def test_a_database_that_is_away_leaves_what_was_known() -> None:
    rows = Rows()
    snapshot = Snapshot("rows", rows, lambda: 0)
    assert snapshot.get() == 1
    rows.is_away = True
    assert [snapshot.get(), snapshot.get()] == [1, 1]
    rows.is_away = False
    assert snapshot.get() == 4


def test_what_could_never_be_read_is_an_error() -> None:
    rows = Rows()
    rows.is_away = True
    snapshot = Snapshot("rows", rows, lambda: 60)
    for _ in range(2):
        with pytest.raises(DatabaseError, match="rows could not be read"):
            snapshot.get()
    assert rows.read == 1  # it is not asked in vain again and again


def test_nobody_waits_for_another_ones_reading_who_has_something() -> None:
    begun, go_on, is_slow = Event(), Event(), Event()

    def read() -> int:
        if is_slow.is_set():
            begun.set()
            go_on.wait(5)
        return 1

    snapshot = Snapshot("rows", read, lambda: 60 if begun.is_set() else 0)
    assert snapshot.get() == 1
    is_slow.set()
    thread = Thread(target=snapshot.get)
    thread.start()
    assert begun.wait(5)
    assert snapshot.get() == 1
    go_on.set()
    thread.join()
