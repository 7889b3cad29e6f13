"""Upstream tiles from a cold address to the picture: main's view, the fetcher, and a real server."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

from resources.tiles import publication
from resources.tiles.models import Layer
from resources.tiles.render import painter
from tests.hostile.origin import Behaviour, Origin, Peer, answer
from tests.support.fetcher_threads import WAIT_SECONDS, at_rest, fetching
from tests.unit.resources.conftest import image

PNG = image()
PATH = "/1/0/0.png"
TILE = "/tiles/osm/1/0/1.png"
WEBP = "/tiles/osm/1/0/1.webp"

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_servers")]


@pytest.fixture(autouse=True)
def _quick(settings: Settings) -> None:
    settings.FETCH_DELAY_SECONDS = 0.02
    settings.FETCH_ALLOW_PRIVATE = ["127.0.0.1"]
    settings.FETCH_ATTEMPTS = 1


def in_a_thread(call: Callable[Parameters, Result]) -> Callable[Parameters, Awaitable[Result]]:
    """The same for coroutines. Its thread leaves no connection to the database behind."""

    def run(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            return call(*arguments, **named)
        finally:
            connections.close_all()

    return sync_to_async(run)


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


def held_until(released: asyncio.Event, behaviour: Behaviour, asked: asyncio.Event | None = None) -> Behaviour:
    async def behave(peer: Peer) -> None:
        if asked:
            asked.set()
        await released.wait()
        await behaviour(peer)

    return behave


def fetched_from(behaviour: Behaviour, test: Callable[[Origin], Awaitable[None]]) -> None:
    """Runs a test with a fetcher, and a layer whose server does so with the tile (1, 0, 1), row 0 from the south."""

    async def whole() -> None:
        async with Origin() as origin:
            await in_a_thread(publication.store_upstream_layer)("osm", origin.url("/{z}/{x}/{-y}.png"), {})
            origin.does(PATH, behaviour)
            async with fetching():
                await test(origin)

    asyncio.run(whole())


def test_a_cold_tile_is_there_after_one_request() -> None:
    async def test(origin: Origin) -> None:
        assert {(await get()).status_code for _ in range(3)} <= {302, 200}
        response = await final()
        assert (response.status_code, response["Content-Type"], response.content) == (200, "image/png", PNG)
        assert origin.targets == [PATH]
        assert origin.asked[0].fields["accept"].startswith("image/png")

    fetched_from(answer(body=PNG), test)


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


def test_an_expired_tile_is_asked_about_and_not_sent_again() -> None:
    async def unless_known(peer: Peer) -> None:
        known = peer.asked.fields.get("if-none-match") == 'W/"1"'
        whole, nothing = answer("200 OK", 'ETag: W/"1"', body=PNG), answer("304 Not Modified", 'ETag: W/"1"')
        await (nothing if known else whole)(peer)

    async def test(origin: Origin) -> None:
        first = await final()
        await expire()
        assert (await get()).content == PNG
        again = await newest()
        assert (again.content, again["ETag"]) == (PNG, first["ETag"])
        assert [asked.fields.get("if-none-match") for asked in origin.asked] == [None, 'W/"1"']

    fetched_from(unless_known, test)


def test_a_tile_that_is_not_there_is_empty_and_remembered() -> None:
    async def test(origin: Origin) -> None:
        for _ in range(3):
            response = await final()
            assert (response.status_code, response.content) == (200, painter.encode_empty_tile(1, "png"))
        assert len(origin.targets) == 1

    fetched_from(answer("404 Not Found", body=b"<h1>none</h1>"), test)


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (answer("200 OK", "Content-Type: text/html", body=b"<html>Over quota"), "a page or XML"),
        (answer(body=b"x" * 20_000), "more than 10,000 bytes"),
    ],
    ids=["page", "big"],
)
def test_a_server_that_fails_leaves_the_stale_tile_in_service(
    settings: Settings, behaviour: Behaviour, said: str
) -> None:
    settings.FETCH_TILE_MAX_BYTES = 10_000
    small = image(image_format="JPEG", quality=10)
    assert len(small) < 10_000

    async def test(origin: Origin) -> None:
        assert (await final()).content == small
        await at_rest()
        origin.does(PATH, behaviour)
        await expire()
        assert (await get()).content == small
        cold = await final(WEBP)  # of the same request, or the next: there is nothing stale
        assert cold.status_code == 502
        assert said in json.loads(cold.content)["detail"]
        assert (await get()).content == small

    fetched_from(answer(body=small), test)


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
