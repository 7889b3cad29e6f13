from datetime import timedelta
from typing import Any

import pytest

from resources.mirror.admin import resources
from resources.mirror.models import Resource
from tests.support.mirror_rows import NOW


def why(**fields: Any) -> list[str]:
    given = {"state": "wanted", "step": "", "failure": "", "attempts": 0, "due_at": NOW, "detail": "", **fields}
    return resources.explain_url(Resource(**given), NOW)


def test_it_is_said_why_there_is_nothing() -> None:
    assert why(state="failed", failure="permanent", detail="the server answered 404") == [
        "Permanent failure: not fetched again.",
        "The server answered 404.",
    ]
    assert why(state="failed", failure="blocked", detail="The host is blocked by an admin.") == [
        "The host is blocked by an admin."
    ]
    assert why(attempts=2, due_at=NOW + timedelta(minutes=5)) == ["Retried in 5 min.", "2 attempts so far."]
    assert why() == ["Queued or being fetched."]
    assert why(due_at=None) == ["Waiting, without a time."]


@pytest.mark.parametrize("step", ["known", "redirect", "validators", "unchanged", "content", "new", ""])
def test_it_is_said_what_settled_what_is_stored(step: str) -> None:
    [said] = why(state="stored", step=step, detail="an old one")
    assert said.endswith(".")
