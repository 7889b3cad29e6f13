"""Upstream tiles from a cold address to the picture: main's view, the fetcher, and a real server."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

from resources.tiles import publication
from resources.tiles.models import Layer
from tests.hostile.origin import Behaviour, Origin, answer, held_until
from tests.support.fetcher_threads import WAIT_SECONDS, fetching
from tests.support.mirror_runs import in_a_thread
from tests.unit.resources.conftest import image

PNG = image()
PATH = "/1/0/0.png"
TILE = "/tiles/osm/1/0/1.png"
WEBP = "/tiles/osm/1/0/1.webp"

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_servers")]


@pytest.fixture(autouse=True)
def _quick(settings: Settings) -> None:
    settings.FETCH_DELAY_SECONDS, settings.FETCH_MAX_PER_SECOND = 0.02, 50
    settings.FETCH_ALLOW_PRIVATE = ["127.0.0.1"]
    settings.FETCH_ATTEMPTS = 1


@in_a_thread
def get(address: str = TILE) -> HttpResponse:
    """Main's answer, without waiting."""
    response = Client().get(address)
    assert isinstance(response, HttpResponse)
    return response


async def final(address: str = TILE) -> HttpResponse:
    """Main's answer once no work is under way."""
    async with asyncio.timeout(WAIT_SECONDS):
        while (response := await get(address)).status_code == 302:
            await asyncio.sleep(0.02)
    return response


async def newest(address: str = TILE) -> HttpResponse:
    """Main's answer once no refresh is under way."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not (response := await final(address))["Server-Timing"].endswith("desc=hit"):
            await asyncio.sleep(0.02)
    return response


@in_a_thread
def expire() -> None:
    Layer.objects.get().expire()


def fetched_from(behaviour: Behaviour, test: Callable[[Origin], Awaitable[None]]) -> None:
    """Runs a test with a fetcher, and a layer whose server does so with the tile (1, 0, 1), row 0 from the south."""

    async def whole() -> None:
        async with Origin() as origin:
            await in_a_thread(publication.store_upstream_layer)("osm", origin.url("/{z}/{x}/{-y}.png"), {})
            origin.does(PATH, behaviour)
            async with fetching():
                await test(origin)

    asyncio.run(whole())


def test_both_formats_asked_for_at_once_are_one_request() -> None:
    async def test(origin: Origin) -> None:
        released = asyncio.Event()
        origin.does(PATH, held_until(released, answer(body=PNG)))
        assert [(await get(address)).status_code for address in (TILE, WEBP)] == [302, 302]
        released.set()
        assert (await final())["Content-Type"] == "image/png"
        assert (await final(WEBP))["Content-Type"] == "image/webp"
        assert len(origin.targets) == 1

    fetched_from(answer(), test)


def test_a_request_that_crosses_a_change_of_the_layer_is_made_again() -> None:
    async def test(origin: Origin) -> None:
        asked, released = asyncio.Event(), asyncio.Event()
        origin.does(PATH, held_until(released, answer(body=PNG), asked))
        await get()
        await asyncio.wait_for(asked.wait(), WAIT_SECONDS)
        await expire()
        released.set()
        assert (await newest()).content == PNG
        assert len(origin.targets) == 2

    fetched_from(answer(), test)
