from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The works handed to workers: task, work key, token, arguments, lane."""
    calls: list[Any] = []
    monkeypatch.setattr("retry.lanes.publish_work", lambda *call: calls.append(call))
    return calls


def run(*arguments: object) -> str:
    """Runs a management command. Returns its output."""
    out = StringIO()
    call_command(*map(str, arguments), stdout=out)
    return out.getvalue()
