"""Pages are shown without Redis, too. Nothing remembers that it was away."""

from collections.abc import Iterator

import pytest

from retry.connections import BREAKERS


@pytest.fixture(autouse=True)
def _closed_breakers() -> Iterator[None]:
    yield
    for breaker in BREAKERS.values():
        breaker.succeeded()
