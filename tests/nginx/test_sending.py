"""The way in which answers leave nginx."""

import time
from http.client import HTTPConnection
from statistics import median

import pytest

from .conftest import RunningFront
from .origin import HOT, Answer

TIMES = 15
ACKNOWLEDGED_LATE_SECONDS = 0.04
"""How long Linux holds an acknowledgement back at least."""


@pytest.mark.parametrize("size", [10_000, 70_000, 100_000, 130_000])
def test_the_end_of_an_answer_does_not_wait_for_an_acknowledgement(site: RunningFront, size: int) -> None:
    site.main.answer = lambda _: Answer(headers=HOT, body=bytes(size))
    connection = HTTPConnection("127.0.0.1", site.port, timeout=10)
    try:
        assert median(_seconds(connection) for _ in range(TIMES)) < ACKNOWLEDGED_LATE_SECONDS / 2
    finally:
        connection.close()


def _seconds(connection: HTTPConnection) -> float:
    began = time.perf_counter()
    connection.request("GET", "/tiles/a")
    connection.getresponse().read()
    return time.perf_counter() - began
