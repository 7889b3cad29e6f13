"""A client that reads answers to their ends, and what is handed over meanwhile."""

from typing import Any

import pytest
from django.test import Client


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is handed over: task, work key, token, arguments, lane."""
    calls: list[Any] = []
    monkeypatch.setattr("retry.lanes.publish", lambda *call: calls.append(call))
    return calls


class Reader(Client):
    """Reads every answer to its end, so that no file stays open."""

    def get(self, *arguments: Any, **named: Any) -> Any:
        return super().get(*arguments, **named)

    def request(self, **request: Any) -> Any:
        response: Any = super().request(**request)
        response.body = b"".join(response) if response.streaming else response.content
        return response


@pytest.fixture
def client() -> Reader:
    return Reader()
