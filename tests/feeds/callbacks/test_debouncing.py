"""Many ask, one call is made, after all of them."""

from threading import Event, Semaphore

from feeds.callbacks.debouncing import Debounced

WAIT_SECONDS = 10


def test_many_who_ask_at_once_have_it_called_once_and_who_asks_during_the_call_has_it_called_again() -> None:
    begun, go_on, ended = Event(), Event(), Event()
    calls: list[int] = []

    def call() -> None:
        calls.append(len(calls))
        begun.set()
        if len(calls) > 1:
            ended.set()
        assert go_on.wait(WAIT_SECONDS)

    debounced = Debounced(call, 0.02)
    for _ in range(100):
        debounced.soon()
    assert begun.wait(WAIT_SECONDS)
    assert calls == [0]
    debounced.soon()
    go_on.set()
    assert ended.wait(WAIT_SECONDS)
    assert calls == [0, 1]


def test_who_asks_too_late_for_the_call_has_it_made_again() -> None:
    made = Semaphore(0)
    debounced = Debounced(made.release, 0.3, 0.25)
    debounced.soon()
    assert not made.acquire(timeout=0.1)
    debounced.soon()
    assert made.acquire(timeout=WAIT_SECONDS)
    assert made.acquire(timeout=WAIT_SECONDS)
    assert not made.acquire(timeout=0.3)
