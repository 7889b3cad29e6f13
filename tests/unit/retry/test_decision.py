"""Main's decision, as a table: the state found, the answer, the end of the claim."""

from datetime import UTC, datetime, timedelta

import pytest

from retry import claim_state, claims
from retry.contents import Content
from retry.decision import (
    Decision,
    Defer,
    Fail,
    HandOver,
    LookResult,
    Refuse,
    Serve,
    TakeBack,
    decide_answer,
    decide_without_cache,
    look_up_content,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
FRESH = Content(b"x", "image/png", '"e"', NOON, 0.1, None, 0, 60)
STALE = Content(b"x", "image/png", '"e"', NOON - timedelta(hours=1), 0.1, None, 0, -1)


@pytest.mark.parametrize(
    ("state", "answer", "action"),
    [
        (claim_state.ClaimBegun(7, 2), Defer(2, "begun"), HandOver(7, ours=True)),
        (claim_state.ClaimPromoted(7, 2), Defer(2, "promoted"), HandOver(7, ours=False)),
        (claim_state.ClaimBegun(7, 2, is_sent=True), Defer(2, "begun"), None),
        (claim_state.ClaimPromoted(7, 2, is_sent=True), Defer(2, "promoted"), None),
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
    ("state", "answer"),
    [
        (claim_state.ClaimTaken(7, 0.2), Defer(1, "claimed", 1)),
        (claim_state.ClaimTaken(7, 5), Defer(5, "claimed", 1)),
        (claim_state.WorkDone("stored", 4), Defer(1, "done", 1)),
        (claim_state.WorkFailed(504, "No.", 3), Fail(504, "No.", 3)),
        (claim_state.WorkUnknown(), Refuse(1, "cache unreachable")),
    ],
)
def test_without_the_cache_what_is_prepared_already_is_waited_for_and_nothing_is_begun(
    state: claim_state.ClaimState, answer: Decision
) -> None:
    assert decide_without_cache(state) == answer


def test_content_that_went_with_the_cache_is_waited_for_until_it_may_be_prepared_anew() -> None:
    found = LookResult(None, claim_state.WorkDone(claim_state.LOST, 4))
    assert decide_answer(found, 0, None) == (Defer(4, "done", 4), None)


@pytest.mark.parametrize(
    ("seen", "answer"), [(None, Defer(2, "begun")), (STALE, Serve(STALE, stale=True, why="begun"))]
)
def test_a_cache_that_fails_after_the_claim_does_not_lose_the_work(seen: Content | None, answer: Decision) -> None:
    found = LookResult(None, claim_state.ClaimBegun(7, 2), cache_is_away=True)
    assert decide_answer(found, 0, seen) == (answer, HandOver(7, ours=True))


@pytest.mark.parametrize(
    ("seen", "action"),
    [(None, TakeBack(7)), (STALE, TakeBack(7)), (FRESH, HandOver(7, ours=True))],
    ids=["came in between", "came in between, to replace stale content", "is refreshed early"],
)
def test_only_content_that_came_in_between_ends_the_claim(seen: Content | None, action: HandOver | TakeBack) -> None:
    hit = Serve(FRESH, stale=False, why="hit")
    assert decide_answer(LookResult(FRESH, claim_state.ClaimBegun(7, 2)), 0, seen) == (hit, action)
    sent = LookResult(FRESH, claim_state.ClaimBegun(7, 2, is_sent=True))
    assert decide_answer(sent, 0, seen) == (hit, action if isinstance(action, TakeBack) else None)


@pytest.mark.parametrize("state", [b"begun", b"promoted"])
def test_missing_content_is_not_looked_for_again_once_its_work_is_handed_over(state: bytes) -> None:
    steps = look_up_content(claims.look_call("slow:a"), "slow:a", with_body=True, was_missing=True)
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send([state, b"7", b"1000", b"1"])
    assert end.value.value.content is None
