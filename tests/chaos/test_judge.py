"""The judge of the chaos run: the results that it passes, and those that it does not."""

import re
import socket
import struct
from dataclasses import replace

import pytest

from project.paths import BASE_DIR

from . import names
from .faults import Fault, kills
from .invariants import of_answers, of_recoveries
from .origins import Origin
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
        (200, "", b"right", End.RIGHT),
        (202, "", b"right", End.RIGHT),
        (200, "", b"wrong", End.WRONG),
        (503, "1", b"", End.REFUSED),
        (504, "30", b"", End.REFUSED),
        (503, "", b"", End.DISHONEST),
        (503, "0", b"", End.DISHONEST),
        (500, "1", b"", End.DISHONEST),
        (403, "", b"", End.DISHONEST),
        (200, "", b"unreadable", End.WRONG),
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


@pytest.mark.parametrize(
    ("visit", "excuse"),
    [
        pytest.param(record(End.BROKEN), "breaks_connections", id="a killed front breaks connections"),
        pytest.param(
            replace(record(End.DISHONEST), statuses=(302, 403)), "ages_tickets", id="a set clock ages tickets"
        ),
    ],
)
def test_a_visit_may_end_badly_only_during_a_fault_that_does_this(visit: Record, excuse: str) -> None:
    excusing, other = (Fault("a", kills()[0].holding, **{excuse: value}) for value in (True, False))  # type: ignore[arg-type]
    assert [*of_answers([visit], [suffered(excusing)])] == []
    assert len([*of_answers([visit], [suffered(other)])]) == 1
    assert len([*of_answers([replace(visit, began=30, ended=31)], [suffered(excusing)])]) == 1


def test_a_ticket_is_too_old_only_for_a_client_that_was_redirected() -> None:
    clock = Fault("a", kills()[0].holding, ages_tickets=True)
    assert len([*of_answers([replace(record(End.DISHONEST), statuses=(403,))], [suffered(clock)])]) == 1


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


@pytest.mark.parametrize(("name", "found"), [("a.files.example", True), ("FILES.example", True), ("b.example", False)])
def test_names_below_the_host_have_its_address_and_others_do_not_exist(name: str, found: bool) -> None:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
    question = b"id" + struct.pack(">HHHHH", 0x100, 1, 0, 0, 0) + labels + struct.pack(">HH", 1, 1)
    answer = names.answer(question, "files.example", "127.9.0.4")
    assert answer[:2] == b"id"
    assert (answer[3] & 15, answer[7]) == ((0, 1) if found else (3, 0))
    assert answer.endswith(socket.inet_aton("127.9.0.4")) is found
