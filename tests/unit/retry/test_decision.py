"""Main's decision, as a table: the state found, the answer, the end of the claim."""

from datetime import UTC, datetime, timedelta

import pytest

from retry import claim_state
from retry.contents import Content
from retry.decision import Decision, Defer, Fail, HandOver, LookResult, Refuse, Serve, TakeBack, decide_answer

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
FRESH = Content(b"x", "image/png", '"e"', NOON, 0.1, None, 0, 60)
STALE = Content(b"x", "image/png", '"e"', NOON - timedelta(hours=1), 0.1, None, 0, -1)


@pytest.mark.parametrize(
    ("state", "answer", "action"),
    [
        (claim_state.ClaimBegun(7, 2), Defer(2, "begun"), HandOver(7, ours=True)),
        (claim_state.ClaimPromoted(7, 2), Defer(2, "promoted"), HandOver(7, ours=False)),
        (claim_state.ClaimTaken(7, 2), Defer(2, "claimed"), None),
        (claim_state.WorkFailed(504, "No.", 3), Fail(504, "No.", 3), None),
        (claim_state.WorkDone("stored", 4), Refuse(4, "prepared and gone again"), None),
        (claim_state.LaneFull(9), Refuse(9, "backlog full"), None),
        (claim_state.WorkUnknown(), Refuse(1, "nothing known"), None),
    ],
)
def test_without_content_the_state_of_the_work_decides_and_stale_content_is_always_served(
    state: claim_state.ClaimState, answer: Decision, action: HandOver | TakeBack | None
) -> None:
    assert decide_answer(LookResult(None, state), 0, None) == (answer, action)
    bridged, stale_action = decide_answer(LookResult(STALE, state), 0, STALE)
    assert isinstance(bridged, Serve)
    assert (bridged.stale, stale_action) == (True, action)


@pytest.mark.parametrize(
    ("seen", "action"),
    [(None, TakeBack(7)), (STALE, TakeBack(7)), (FRESH, HandOver(7, ours=True))],
    ids=["came in between", "came in between, to replace stale content", "is refreshed early"],
)
def test_only_content_that_came_in_between_ends_the_claim(seen: Content | None, action: HandOver | TakeBack) -> None:
    found = LookResult(FRESH, claim_state.ClaimBegun(7, 2))
    assert decide_answer(found, 0, seen) == (Serve(FRESH, stale=False, why="hit"), action)
