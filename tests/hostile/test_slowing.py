"""Bodies that turn out to be slow: they go on under other limits, from the same answer, and the caller is told."""

import asyncio
import gzip
from collections.abc import Callable
from dataclasses import replace
from unittest.mock import Mock

import pytest

from resources.fetch.http.messages import Failure, Fetched, FetchLimits, FetchRequest, Outcome

from .origin import Behaviour, Origin, Peer, answer, head, raw, steps
from .test_bodies import packed
from .visits import LIMITS, assert_alive, client, failure, timed, visit

pytestmark = pytest.mark.anyio

SIZE = 300_000
FAST = replace(LIMITS, slow_after_seconds=8, max_body_bytes=SIZE // 2)
SOON = replace(FAST, slow_after_seconds=0.2, min_bytes_per_second=0)
SLOW = replace(LIMITS, deadline_seconds=20, max_body_bytes=SIZE)


def slowing(
    behaviour: Callable[[asyncio.Event], Behaviour], fast: FetchLimits = FAST, slow: FetchLimits | None = SLOW
) -> tuple[Outcome, int, int]:
    """Its outcome, the number of times its caller was told that it is slow, and the number of requests to the origin.

    The behaviour gets the event of being told.
    """

    async def work() -> tuple[Outcome, int, int]:
        told = asyncio.Event()
        tellings = 0

        def slows() -> None:
            nonlocal tellings
            tellings += 1
            told.set()

        async with Origin() as origin, client() as fetching:
            fetch = FetchRequest(origin.does("/", behaviour(told)), limits=fast, slow_limits=slow)
            outcome = await timed(fetching, fetch, slows=slows)
            if isinstance(outcome, Fetched):
                outcome.body.discard()
            return outcome, tellings, len(origin.asked)

    return asyncio.run(work())


def whole(_: asyncio.Event) -> Behaviour:
    return answer(body=b"x" * SIZE)


def unannounced(_: asyncio.Event) -> Behaviour:
    return raw(head("200 OK", "Connection: close") + b"x" * SIZE, close=True)


def unpacking(_: asyncio.Event) -> Behaviour:
    return packed("gzip", gzip.compress(b"x" * SIZE))


def late(told: asyncio.Event) -> Behaviour:
    """A body of 1,000 bytes whose second half comes when the fetch has been found to be slow."""

    half = b"x" * 500
    return steps(head("200 OK", "Content-Length: 1000") + half, lambda _: told.wait(), half)


TURNS = {
    "announced as too large": (whole, FAST),
    "announced as too long at the speed that is known": (
        whole,
        replace(FAST, max_body_bytes=SIZE, learnt_bytes_per_second=SIZE / 12),
    ),
    "growing too large": (unannounced, FAST),
    "unpacking to too much": (unpacking, FAST),
    "still coming": (late, SOON),
    "still coming at the deadline": (late, replace(FAST, deadline_seconds=2, min_bytes_per_second=0)),
}


@pytest.mark.parametrize(("behaviour", "fast"), TURNS.values(), ids=TURNS)
def test_a_body_that_turns_out_to_be_slow_goes_on(
    behaviour: Callable[[asyncio.Event], Behaviour], fast: FetchLimits
) -> None:
    outcome, tellings, asked = slowing(behaviour, fast)
    assert isinstance(outcome, Fetched), outcome
    assert outcome.body.size in (SIZE, 1000)
    assert (tellings, asked) == (1, 1)


def test_what_is_announced_as_too_much_for_slow_bodies_too_is_not_begun_and_nobody_is_told() -> None:
    outcome, tellings, _ = slowing(whole, slow=replace(SLOW, max_body_bytes=SIZE - 1))
    assert failure(outcome) is Failure.TOO_BIG
    assert (tellings, outcome.timing.wire_bytes) == (0, 0)


def test_a_slow_body_that_grows_beyond_its_limit_is_too_big() -> None:
    outcome, tellings, _ = slowing(unannounced, slow=replace(SLOW, max_body_bytes=SIZE - 1))
    assert (failure(outcome), tellings) == (Failure.TOO_BIG, 1)


def hanging(_: asyncio.Event) -> Behaviour:
    return steps(head("200 OK", "Content-Length: 1000") + b"x" * 500, Peer.hang)


def test_the_deadline_of_a_slow_body_counts_from_the_start_of_the_fetch() -> None:
    slow = replace(SLOW, deadline_seconds=2, min_bytes_per_second=0)
    outcome, tellings, _ = slowing(hanging, replace(SOON, slow_after_seconds=1.5), slow)
    assert (failure(outcome), tellings) == (Failure.TOO_SLOW, 1)
    assert 2 <= outcome.timing.seconds < 1.5 + 2


def outgrowing(_: asyncio.Event) -> Behaviour:
    return steps(head("200 OK", "Connection: close") + b"x" * (SIZE - 1), Peer.hang)


STOPPING = {
    "slow": (hanging, replace(FAST, slow_after_seconds=0.2)),
    "slow without a minimum rate so far": (hanging, SOON),
    "growing too large": (outgrowing, replace(FAST, deadline_seconds=20, slow_after_seconds=19)),
}


@pytest.mark.parametrize(("behaviour", "fast"), STOPPING.values(), ids=STOPPING)
def test_a_slow_body_has_a_minimum_rate_too(behaviour: Callable[[asyncio.Event], Behaviour], fast: FetchLimits) -> None:
    slow = replace(SLOW, deadline_seconds=30, window_seconds=0.3)
    outcome, tellings, _ = slowing(behaviour, fast, slow)
    assert (failure(outcome), tellings) == (Failure.TOO_SLOW, 1)
    assert outcome.timing.seconds < slow.deadline_seconds / 2


def test_without_a_minimum_rate_a_body_may_pause() -> None:
    limits = replace(LIMITS, min_bytes_per_second=0, window_seconds=0.5)
    pausing = steps(head("200 OK", "Content-Length: 2") + b"x", 2 * limits.window_seconds, b"x")
    assert isinstance(visit(pausing, limits), Fetched)


def test_a_head_that_does_not_come_is_no_slow_body() -> None:
    outcome, tellings, _ = slowing(lambda _: Peer.hang, replace(SOON, head_seconds=0.4))
    assert (failure(outcome), tellings) == (Failure.TOO_SLOW, 0)


async def test_who_raises_on_being_told_ends_no_other_fetch() -> None:
    raises = Mock(side_effect=RuntimeError("on being told"))
    async with Origin() as origin, client() as fetching:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        slow = replace(SLOW, deadline_seconds=2, min_bytes_per_second=0)
        url = origin.does("/", hanging(asyncio.Event()))
        fetches = [FetchRequest(url, limits=SOON, slow_limits=slow) for _ in range(3)]
        found = await asyncio.gather(*(timed(fetching, fetch, slows=raises) for fetch in fetches))
        assert [failure(each) for each in found] == [Failure.TOO_SLOW] * 3
        await assert_alive(fetching, origin)
