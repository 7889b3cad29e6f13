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


@pytest.fixture(autouse=True)
def _published_in_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Main publishes work by `lanes.publish_work`, where tests stand in, and not in the step of its claim."""
    monkeypatch.setattr("retry.lanes.write_claim_message", lambda *_: "")
