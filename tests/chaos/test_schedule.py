"""The schedule: its faults, the ones left out with their reasons, and its end."""

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from ..support.documentation import code_block
from . import __main__, means, schedule
from .faults import BACK_SECONDS, Fault, Seen
from .invariants import of_effects
from .schedule import NO_TIME, PATIENCE_SECONDS, Suffered

PLENTY = 1000
ENDLESS = "never done"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A world with a healthy site."""
    monkeypatch.setattr(schedule, "_recovery", lambda _, ended: ended)
    return SimpleNamespace(client=SimpleNamespace(died=""))


def fault(effect: str = "it broke", seconds: float = 0) -> Fault:
    @contextmanager
    def holding(_: object) -> Iterator[Seen]:
        def seen() -> str:
            if not effect:
                raise AssertionError("it is whole")
            return effect

        yield seen

    return Fault("a", holding, seconds)


@pytest.mark.parametrize(
    ("effect", "line", "violations"),
    [
        ("it broke", "a: it broke; recovered after 0.0 s", []),
        ("", "a: WITHOUT EFFECT: it is whole; recovered after 0.0 s", ["without effect: a: it is whole"]),
    ],
    ids=["with effect", "without"],
)
def test_a_fault_tells_its_effect_and_one_without_is_a_violation(
    world: Any, effect: str, line: str, violations: list[str]
) -> None:
    lines: list[str] = []
    [one] = schedule.run(world, [fault(effect)], PLENTY, lines.append)
    assert (one.effect, lines, [*of_effects([one])]) == (effect, [line], violations)


def test_no_fault_begins_that_could_not_end_and_recover_in_time(world: Any) -> None:
    needed = PATIENCE_SECONDS + BACK_SECONDS
    suffered = schedule.run(world, [fault(seconds=6), fault()], needed + 5, str)
    assert [one.skipped for one in suffered] == [NO_TIME, ""]
    assert __main__.out_of_time(suffered) == ["a"]


def test_nothing_more_is_broken_once_the_client_has_died(world: Any) -> None:
    world.client.died = "of an answer"
    assert [one.skipped for one in schedule.run(world, [fault()], PLENTY, str)] == ["the client died"]


@pytest.mark.parametrize(
    ("arguments", "skipped", "wrong", "status"),
    [
        *(([], skipped, [], status) for skipped, status in (("", 0), (NO_TIME, 1), ("no root", 0))),
        *((arguments, NO_TIME, [], 0) for arguments in (["--only", "a"], ["--seconds", "300"])),
        ([], "", ["wrong bytes"], 1),
        (["--seconds", str(__main__.ENDING_SECONDS + 0.1)], ENDLESS, [], 1),
    ],
)
def test_a_run_fails_when_something_is_wrong_or_was_never_tried(
    arguments: list[str], skipped: str, wrong: list[str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    suffered = [Suffered(fault(), skipped=skipped)]
    monkeypatch.setattr("sys.argv", ["chaos", *arguments])
    monkeypatch.setattr(means, "move_apart", lambda _: None)
    made = (lambda *_: time.sleep(30)) if skipped == ENDLESS else (lambda *_: (suffered, wrong))
    monkeypatch.setattr(__main__, "_suffer", made)
    assert __main__.main() == status


def test_faults_are_chosen_by_words_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    _, command = code_block("docs/reliability.md", "", "tests.chaos --only").splitlines()
    _, _, *arguments = shlex.split(command, comments=True)
    suffer = Mock(return_value=([], []))
    monkeypatch.setattr("sys.argv", arguments)
    monkeypatch.setattr(means, "move_apart", lambda _: None)
    monkeypatch.setattr(__main__, "_suffer", suffer)
    assert __main__.main() == 0
    names = {each.name for each in suffer.call_args.args[0]}
    assert {"SIGKILL state", "SIGKILL main"} <= names
    assert all("SIGKILL" in name or "state" in name for name in names)
