"""Cursors: what is written is read again, and nothing else."""

from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.changes.positions import MAX_CURSOR_CHARACTERS, ChangeCursor, ChangeScope, Kind, Position
from feeds.errors import CursorError

NUMBERS = st.integers(0, 2**63 - 1)
POSITIONS = st.builds(Position, NUMBERS, st.sampled_from(Kind), NUMBERS, NUMBERS)
SCOPES = st.builds(ChangeScope, st.sampled_from(["f", "c"]), NUMBERS)
CURSORS = st.builds(ChangeCursor, st.just("0123456789ab"), SCOPES, NUMBERS, POSITIONS)


@given(CURSORS)
def test_a_cursor_is_read_as_it_was_written(cursor: ChangeCursor) -> None:
    assert len(str(cursor)) <= MAX_CURSOR_CHARACTERS
    assert ChangeCursor.read(str(cursor)) == cursor


@given(st.text() | st.binary().map(lambda some: urlsafe_b64encode(some).decode()))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(CursorError):
        ChangeCursor.read(text)


@pytest.mark.parametrize(
    "text",
    [
        "1.0123456789ab.c1.0.0.0.0.9223372036854775808",
        "1.0123456789ab.c1.0.0.4.0.0",
        "1.0123456789ab.x1.0.0.0.0.0",
        "1.0123456789ab.c01.0.0.0.0.0",
    ],
)
def test_numbers_that_no_cursor_has_are_refused(text: str) -> None:
    with pytest.raises(CursorError):
        ChangeCursor.read(urlsafe_b64encode(text.encode()).decode().rstrip("="))


def test_positions_are_in_the_order_in_which_changes_are_given() -> None:
    places = [
        Position(),
        Position(5, Kind.REMOVAL, 0, 9),
        Position(5, Kind.ARRIVAL, 1, 7),
        Position(5, Kind.ARRIVAL, 2, 1),
        Position(5, Kind.ENTRY, 0, 1),
        Position.after(5),
        Position(6),
    ]
    assert places == sorted(places)
