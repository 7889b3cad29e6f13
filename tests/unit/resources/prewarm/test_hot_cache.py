"""The front's hot cache: filled one address after the other, as many as there is room for, and not for ever."""

import asyncio

import pytest

from resources.prewarm import hot_cache
from resources.prewarm.hot_cache import HotCacheFiller
from retry.rooms import FrontClient

NAMES = ["maps.example", "www.maps.example"]


class Asked(list[tuple[str, str]]):
    """The requests to the front. It answers when it is told to; one of its names has no tile of `/bad`."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.most = self.now = 0

    async def answer(self, host: str, address: str) -> bool:
        self.append((host, address))
        self.now += 1
        self.most = max(self.most, self.now)
        await self.answers.wait()
        self.now -= 1
        return (host, address) != (NAMES[1], "/bad")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()

    async def fill(_: FrontClient, host: str, address: str) -> bool:
        return await found.answer(host, address)

    monkeypatch.setattr(FrontClient, "fill", fill)
    return found


def fill(*wanted: list[str], base: str = "http://front", names: list[str] = NAMES, stop: bool = False) -> int:
    """Wants these addresses and settles. Returns the number of filled ones."""

    async def scene() -> int:
        stopped = asyncio.Event()
        async with asyncio.timeout(2), HotCacheFiller(base, names) as cache:
            for addresses in wanted:
                cache.want(addresses)
            if stop:
                asyncio.get_running_loop().call_later(0.01, stopped.set)
            await cache.settle(stopped)
            return cache.filled

    return asyncio.run(scene())


def test_it_is_asked_under_each_name_one_after_the_other(asked: Asked) -> None:
    asked.answers.set()
    assert fill(["/a", "/bad"], ["/b"]) == 2
    assert asked == [(name, address) for address in ("/a", "/bad", "/b") for name in NAMES]
    assert asked.most == 1


def test_what_there_is_no_room_for_is_left_to_others(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot_cache, "MAX_QUEUED_ADDRESSES", 2)
    asked.answers.set()
    fill(["/1", "/2", "/3"], ["/4"], names=NAMES[:1])
    assert [address for _, address in asked] == ["/1", "/2"]


def test_a_run_that_is_stopped_does_not_wait_for_it(asked: Asked) -> None:
    assert fill(["/a"], stop=True) == 0


def test_a_front_that_does_not_answer_is_not_waited_for_for_ever(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot_cache, "SETTLE_SECONDS", 0.05)
    assert fill(["/a"]) == 0
    assert asked == [(NAMES[0], "/a")]
