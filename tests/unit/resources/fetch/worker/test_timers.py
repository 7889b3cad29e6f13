"""Calls that are due a while later."""

import asyncio
from functools import partial

import pytest

from resources.fetch.worker.timers import LateCalls

pytestmark = pytest.mark.anyio


async def test_a_function_is_called_once_when_it_is_due() -> None:
    calls, called = LateCalls(0.02), list[float]()
    began = asyncio.get_running_loop().time()
    calls.add(lambda: called.append(asyncio.get_running_loop().time() - began))
    await asyncio.sleep(0.1)
    [seconds] = called
    assert 0.015 < seconds < 0.1


async def test_a_withdrawn_function_is_not_called_and_later_ones_are() -> None:
    calls, called = LateCalls(0.02), list[str]()
    late = {name: partial(called.append, name) for name in ("first", "second", "third")}
    for call in late.values():
        calls.add(call)
    calls.withdraw(late["first"])
    await asyncio.sleep(0.01)
    calls.withdraw(late["second"])
    await asyncio.sleep(0.05)
    assert called == ["third"]
    calls.withdraw(late["third"])  # does nothing
    calls.add(late["first"])
    await asyncio.sleep(0.05)
    assert called == ["third", "first"]


@pytest.mark.parametrize("pause_seconds", [0.0, 0.01])
async def test_functions_are_called_in_the_order_of_their_times(pause_seconds: float) -> None:
    calls, called = LateCalls(0.02), list[int]()
    for number in range(3):
        calls.add(partial(called.append, number))
        await asyncio.sleep(pause_seconds)
    await asyncio.sleep(0.1)
    assert called == [0, 1, 2]
