"""The judge of the chaos run: the results that it passes, and those that it does not."""

import re
from dataclasses import replace

import pytest

from project.paths import BASE_DIR

from .faults import Fault, kills
from .invariants import of_answers, of_recoveries
from .origins import Origin
from .prewarm_run import of_output
from .promises import Promises
from .questions import Questions
from .schedule import Suffered
from .steady import End, Question, Record, judged
from .table import table


def hears(body: bytes) -> bool:
    if body == b"unreadable":
        raise ValueError(body)
    return body == b"right"


ANSWER = Question("/", hears)


def record(end: End, *, began: float = 10, seconds: float = 1) -> Record:
    return Record("tile", "/tiles/a", began, began + seconds, (200,), end)


def suffered(fault: Fault, recovered: float | None = 13) -> Suffered:
    return Suffered(fault, began=9, ended=12, recovered=recovered, over=20)


@pytest.mark.parametrize(
    ("status", "retry_after", "body", "end"),
    [
        *((status, "", b"right", End.RIGHT) for status in (200, 202)),
        *((200, "", body, End.WRONG) for body in (b"wrong", b"unreadable")),
        *((status, seconds, b"", End.REFUSED) for status, seconds in ((503, "1"), (504, "30"))),
        *((status, seconds, b"", End.DISHONEST) for status, seconds in ((503, ""), (503, "0"), (500, "1"), (403, ""))),
    ],
)
def test_an_answer_is_right_or_says_honestly_when_to_come_again(
    status: int, retry_after: str, body: bytes, end: End
) -> None:
    assert judged(status, retry_after, body, ANSWER) is end


@pytest.mark.parametrize("end", [End.WRONG, End.DISHONEST, End.HUNG, End.BROKEN])
def test_nothing_else_is_let_pass(end: End) -> None:
    [said] = of_answers([record(End.RIGHT), record(End.REFUSED), record(end)], [])
    assert said.startswith(end.value)


AGED = replace(record(End.DISHONEST), statuses=(302, 403))


@pytest.mark.parametrize(
    ("visit", "excuse", "is_excused"),
    [
        pytest.param(record(End.BROKEN), "breaks_connections", True, id="a killed front breaks connections"),
        pytest.param(AGED, "ages_tickets", True, id="a set clock ages tickets"),
        *((visit, "", False) for visit in (record(End.BROKEN), AGED)),
        pytest.param(record(End.BROKEN, began=30), "breaks_connections", False, id="broken afterwards"),
        pytest.param(replace(AGED, began=30, ended=31), "ages_tickets", False, id="too old afterwards"),
        pytest.param(replace(AGED, statuses=(403,)), "ages_tickets", False, id="was not redirected"),
    ],
)
def test_a_visit_may_end_badly_only_during_a_fault_that_does_this(visit: Record, excuse: str, is_excused: bool) -> None:
    fault = Fault("a", kills()[0].holding, **({excuse: True} if excuse else {}))  # type: ignore[arg-type]
    assert bool([*of_answers([visit], [suffered(fault)])]) is not is_excused


def test_who_does_not_recover_is_told_and_what_was_skipped_is_not() -> None:
    fault = kills()[0]
    assert [*of_recoveries([suffered(fault), Suffered(fault, skipped="no root")])] == []
    assert [*of_recoveries([suffered(fault, None)])] == [f"not recovered from: {fault.name}"]


def test_the_table_tells_of_every_fault_what_it_cost_or_why_it_was_not_made() -> None:
    made, not_made = Fault("made", kills()[0].holding, 3), Fault("not made", kills()[0].holding)
    of_the_next = record(End.REFUSED, began=13, seconds=8)
    records = [record(End.RIGHT, seconds=2.5), record(End.REFUSED), of_the_next, record(End.RIGHT, began=30)]
    lines = table([suffered(made), Suffered(not_made, skipped="no root")], records).splitlines()[2:]
    assert lines[0] == "| made | 3 s | 2 | 1 | 0 | 2.5 s | 1.0 s | 0.5 s |"
    assert lines[1] == "| not made | skipped: no root | | | | | | |"


def test_the_client_asks_as_much_as_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Questions, "_line_tile", lambda _: b"")
    questions = Questions("", Origin("127.0.0.1"), Promises(), "", {}, {})
    kinds = questions.kinds({name: [] for name in ("well", "leaving", "sealed", "named")})
    written = re.search(r"asks about (\d+) questions a second", (BASE_DIR / "docs" / "reliability.md").read_text())
    assert written
    assert abs(sum(kind.per_second for kind in kinds) - int(written[1])) <= 0.5


PASS = "1,024 pieces prepared (8,192 tiles), 3 fresh already, 0 by others, 0 failed; 900 tiles in the hot cache"
IDLE = "0 pieces prepared (0 tiles), 3 fresh already, 0 by others, 0 failed; 0 tiles in the hot cache"


@pytest.mark.parametrize(
    ("said", "ended_itself", "found"),
    [
        (PASS, False, []),
        (f"{IDLE}\n{PASS}\nStopped.", False, []),
        (f"{IDLE}\n{IDLE}", False, ["nothing was pre-warmed"]),
        ("Traceback", False, ["nothing was pre-warmed"]),
        (PASS, True, ["pre-warming ended by itself"]),
    ],
)
def test_a_run_has_prepared_something_and_was_ended(said: str, ended_itself: bool, found: list[str]) -> None:
    assert [one.partition(":")[0] for one in of_output(said, ended_itself=ended_itself)] == found
