"""Closed breakers for every test: no server counts as away because a test before stopped it."""

from collections.abc import Iterator

import pytest

from retry.stores import BREAKERS


def close_breakers() -> None:
    for breaker in BREAKERS.values():
        breaker.succeeded()


@pytest.fixture(autouse=True)
def _closed_breakers() -> Iterator[None]:
    close_breakers()
    yield
    close_breakers()
