from datetime import timedelta
from typing import Any

import pytest

from resources.mirroring.admin import words
from tests.resources.mirroring.rows import NOW


def why(**fields: Any) -> list[str]:
    given = {"state": "wanted", "step": "", "failure": "", "attempts": 0, "due_at": NOW, "detail": "", **fields}
    return words.why(**given, now=NOW)


def test_it_is_said_why_there_is_nothing() -> None:
    assert why(state="failed", failure="permanent", detail="the server answered 404") == [
        "It is not there, or not what it was: it is not asked for again.",
        "The server answered 404.",
    ]
    assert why(state="failed", failure="blocked", detail="An admin has blocked its host.") == [
        "An admin has blocked its host."
    ]
    assert why(attempts=2, due_at=NOW + timedelta(minutes=5)) == ["It is tried again in 5 min.", "2 attempts so far."]
    assert why() == ["It is being fetched, or waits for its turn."]
    assert why(due_at=None) == ["It waits, and nobody has said until when."]


@pytest.mark.parametrize("step", ["known", "redirect", "validators", "unchanged", "content", "new", ""])
def test_it_is_said_what_settled_what_is_stored(step: str) -> None:
    [said] = why(state="stored", step=step, detail="an old one")
    assert said.endswith(".")
