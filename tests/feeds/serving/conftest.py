"""What main hands to workers, and a worker that does it."""

from typing import Any

import pytest

from feeds import tasks


class Workers:
    """What was handed over and not done yet: name of the task, work key, token, arguments, lane."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def work(self) -> None:
        """Does all of it."""
        while self.calls:
            task, work_key, token, arguments, _lane = self.calls.pop(0)
            assert task == tasks.render.name
            tasks.render(work_key, token, *arguments)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    found = Workers()
    monkeypatch.setattr("retry.lanes.publish", lambda *call: found.calls.append(call))
    return found
