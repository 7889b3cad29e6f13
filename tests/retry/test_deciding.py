"""Main's decision, as a table: what was found, what is answered, what becomes of the claim."""

from datetime import UTC, datetime, timedelta

import pytest

from retry.contents import Content
from retry.deciding import Answer, Defer, Fail, HandOver, Refuse, Serve, TakeBack, decide
from retry.looking import Found
from retry.standings import Begun, Claimed, Done, Failed, Full, Promoted, Standing, Unknown

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
FRESH = Content(b"x", "image/png", '"e"', NOON, 0.1, None, 0, 60)
STALE = Content(b"x", "image/png", '"e"', NOON - timedelta(hours=1), 0.1, None, 0, -1)


@pytest.mark.parametrize(
    ("standing", "answer", "action"),
    [
        (Begun(7, 2), Defer(2, "begun"), HandOver(7, ours=True)),
        (Promoted(7, 2), Defer(2, "promoted"), HandOver(7, ours=False)),
        (Claimed(7, 2), Defer(2, "claimed"), None),
        (Failed(504, "No.", 3), Fail(504, "No.", 3), None),
        (Done("stored", 4), Refuse(4, "prepared and gone again"), None),
        (Full(9), Refuse(9, "backlog full"), None),
        (Unknown(), Refuse(1, "nothing known"), None),
    ],
)
def test_without_content_the_standing_decides(
    standing: Standing, answer: Answer, action: HandOver | TakeBack | None
) -> None:
    assert decide(Found(None, standing), 0, None) == (answer, action)


@pytest.mark.parametrize("standing", [Begun(7, 2), Claimed(7, 2), Failed(504, "No.", 3), Done("stored", 4), Full(9)])
def test_stale_content_is_always_served(standing: Standing) -> None:
    answer, action = decide(Found(STALE, standing), 0, STALE)
    assert isinstance(answer, Serve)
    assert answer.stale
    assert action == (HandOver(7, ours=True) if isinstance(standing, Begun) else None)


def test_content_that_came_in_between_ends_the_claim() -> None:
    assert decide(Found(FRESH, Begun(7, 2)), 0, None) == (Serve(FRESH, stale=False, why="hit"), TakeBack(7))
    assert decide(Found(FRESH, Begun(7, 2)), 0, STALE) == (Serve(FRESH, stale=False, why="hit"), TakeBack(7))


def test_fresh_content_that_is_refreshed_early_keeps_the_claim() -> None:
    assert decide(Found(FRESH, Begun(7, 2)), 0, FRESH) == (Serve(FRESH, stale=False, why="hit"), HandOver(7, ours=True))


def test_content_of_an_older_version_is_served_as_stale() -> None:
    answer, action = decide(Found(FRESH, Begun(7, 2)), 1, FRESH)
    assert isinstance(answer, Serve)
    assert answer.stale
    assert action == HandOver(7, ours=True)
