"""The waiting instance: what it answers to whom, by ticket, limit, preference and delivery."""

import asyncio
import json
import time
from collections.abc import Awaitable, Sequence
from urllib.parse import parse_qsl, urlsplit

import pytest
from pytest_django import Settings

from retry import claims, connections, standings
from retry.instance import Instance
from retry.replies import Reply, Request
from retry.tickets import read_ticket
from retry.work import Work
from tests import clock
from tests.retry.clients import BACK, asked, begin, play, present, settled

pytestmark = pytest.mark.usefixtures("servers")


def test_when_the_time_is_up_the_client_comes_again_with_the_next_hop(work: Work, settings: Settings) -> None:
    settings.DEFAULT_RETRY_TIMEOUT = 0.2

    async def scene(instance: Instance) -> None:
        begin(work)
        reply = await instance.answer(asked(work), present)
        assert reply is not None
        assert reply.status == 302
        target = urlsplit(reply.headers["Location"])
        assert target.path == "/retry_after"
        ticket = read_ticket(target.query, now=time.time(), max_age_seconds=600, hosts=frozenset())
        assert (ticket.hop, ticket.redirect, ticket.work_key) == (2, BACK, work.key)

    play(scene)


def test_the_last_hop_ends_in_503_while_the_work_goes_on(work: Work, settings: Settings) -> None:
    settings.DEFAULT_RETRY_TIMEOUT = 0.2

    async def scene(instance: Instance) -> None:
        begin(work)
        reply = await instance.answer(asked(work, hop=2), present)
        assert reply is not None
        assert reply.status == 503
        assert int(reply.headers["Retry-After"]) >= 1
        assert reply.headers["Cache-Control"] == "no-store"
        assert json.loads(reply.body)["status"] == 503
        assert isinstance(standings.standing(connections.execute(claims.looking(work.key))), standings.Claimed)

    play(scene)


def test_a_navigation_that_waited_in_vain_gets_the_waiting_page(work: Work, settings: Settings) -> None:
    settings.DEFAULT_RETRY_TIMEOUT = 0.1

    async def scene(instance: Instance) -> None:
        begin(work)
        reply = await instance.answer(asked(work, hop=2, fetch_mode="navigate"), present)
        assert reply is not None
        assert reply.status == 503
        assert BACK.encode() in reply.body

    play(scene)


def test_a_hop_past_the_budget_does_not_wait(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        begin(work)
        reply = await clock.within(0.5, instance.answer(asked(work, hop=3), present))
        assert reply is not None
        assert reply.status == 503

    play(scene)


def test_closing_answers_everyone_with_the_same_ticket(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        begin(work)
        waiting = [asyncio.create_task(instance.answer(asked(work), present)) for _ in range(20)]
        await settled(instance, work)
        instance.waiting.close()
        for reply in await clock.within(1, asyncio.gather(*waiting)):
            assert reply is not None
            assert reply.status == 302
            assert dict(parse_qsl(urlsplit(reply.headers["Location"]).query))["hop"] == "1"
        late = await clock.within(0.5, instance.answer(asked(work), present))
        assert late is not None
        assert late.status == 302

    play(scene)


@pytest.mark.parametrize("query", [b"", b"redirect=/a", b"%ff=1", b"hop=nan&retry_after=inf"])
def test_malformed_tickets_are_refused_at_once(query: bytes) -> None:
    async def scene(instance: Instance) -> None:
        reply = await clock.within(0.5, instance.answer(Request("GET", query, "testserver"), present))
        assert reply is not None
        assert reply.status == 400
        assert reply.headers["Content-Type"] == "application/problem+json"

    play(scene)


def test_methods_and_preflights() -> None:
    async def scene(instance: Instance) -> None:
        posted = await instance.answer(Request("POST", b"", "testserver"), present)
        preflight = await instance.answer(Request("OPTIONS", b"", "testserver"), present)
        assert posted is not None
        assert preflight is not None
        assert (posted.status, preflight.status) == (405, 204)
        assert preflight.headers["Access-Control-Allow-Origin"] == "*"

    play(scene)


async def answers(coroutines: Sequence[Awaitable[Reply | None]]) -> list[int]:
    return sorted(reply.status for reply in await asyncio.gather(*coroutines) if reply)


def test_clients_past_the_limit_are_refused_at_once(work: Work, settings: Settings) -> None:
    settings.RETRY_MAX_CLIENTS = 2
    settings.DEFAULT_RETRY_TIMEOUT = 0.3

    async def scene(instance: Instance) -> None:
        begin(work)
        assert await answers([instance.answer(asked(work), present) for _ in range(3)]) == [302, 302, 503]

    play(scene)


def test_clients_of_one_address_can_be_limited(work: Work, settings: Settings) -> None:
    settings.RETRY_CLIENTS_PER_ADDRESS = 1
    settings.DEFAULT_RETRY_TIMEOUT = 0.3

    async def scene(instance: Instance) -> None:
        begin(work)
        addresses = ("192.0.2.1", "192.0.2.1", "192.0.2.2")
        many = [instance.answer(asked(work, address=address), present) for address in addresses]
        assert await answers(many) == [302, 302, 503]
        assert instance._per_network == {}

    play(scene)


def test_the_addresses_of_a_network_are_limited_together(work: Work, settings: Settings) -> None:
    settings.RETRY_CLIENTS_PER_ADDRESS = 1
    settings.DEFAULT_RETRY_TIMEOUT = 0.3

    async def scene(instance: Instance) -> None:
        begin(work)
        addresses = ("2001:db8:1:2::1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:3::1")
        many = [instance.answer(asked(work, address=address), present) for address in addresses]
        assert await answers(many) == [302, 302, 503]
        assert instance._per_network == {}

    play(scene)


def test_a_client_that_waits_no_longer_is_told_so(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        begin(work)
        began, ran = time.monotonic(), clock.seconds()
        reply = await instance.answer(asked(work, wait=2), present)
        assert reply is not None
        assert reply.status == 503
        assert time.monotonic() - began > 0.9
        assert clock.seconds() - ran < 3
        assert reply.headers["Preference-Applied"] == "wait=2"
        assert int(reply.headers["Retry-After"]) >= 1

    play(scene)


def test_a_client_that_prefers_so_gets_a_status_address_when_its_time_is_up(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        begin(work)
        reply = await instance.answer(asked(work, wait=1, respond_async=True), present)
        assert reply is not None
        assert reply.status == 202
        assert reply.headers["Preference-Applied"] == "respond-async, wait=1"
        assert json.loads(reply.body)["status"] == reply.headers["Location"]

    play(scene)


def test_a_client_whose_time_is_long_over_does_not_wait(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        begin(work)
        reply = await clock.within(0.5, instance.answer(asked(work, wait=-1), present))
        assert reply is not None
        assert reply.status == 503

    play(scene)


def test_a_long_preference_leaves_the_usual_waits_as_they_are(work: Work, settings: Settings) -> None:
    settings.DEFAULT_RETRY_TIMEOUT = 0.2

    async def scene(instance: Instance) -> None:
        begin(work)
        first = await instance.answer(asked(work, wait=60, respond_async=True), present)
        last = await instance.answer(asked(work, wait=60, respond_async=True, hop=2), present)
        assert first is not None
        assert last is not None
        assert (first.status, last.status) == (302, 202)

    play(scene)


@pytest.mark.parametrize(
    ("delivery", "front", "expected"),
    [
        ("redirect", "asked", None),
        ("redirect", "handed", None),
        ("inline", "", None),
        ("inline", "asked", "/retry_after/returned" + BACK),
        ("internal", "asked", "/retry_after/returned" + BACK),
        ("internal", "handed", "@returned"),
        ("internal", "", None),
    ],
)
def test_the_way_back_is_that_of_the_delivery(
    work: Work, settings: Settings, delivery: str, front: str, expected: str | None
) -> None:
    settings.RETRY_DELIVERY = delivery

    async def scene(instance: Instance) -> None:
        connections.execute(claims.finishing_stored(work.key, begin(work), 0.1))
        reply = await instance.answer(asked(work, front=front), present)
        assert reply is not None
        assert reply.headers.get("X-Accel-Redirect") == expected
        assert reply.headers.get("Location") == (None if expected else BACK)
        if expected:
            assert set(reply.headers) == {"X-Accel-Redirect"}  # all else nginx would add to the content's fields

    play(scene)


@pytest.mark.parametrize("front", ["asked", "handed"])
def test_a_wait_that_is_over_is_seen_by_the_client_in_every_delivery(
    work: Work, settings: Settings, front: str
) -> None:
    settings.RETRY_DELIVERY = "internal"
    settings.DEFAULT_RETRY_TIMEOUT = 0.2

    async def scene(instance: Instance) -> None:
        begin(work)
        reply = await instance.answer(asked(work, front=front), present)
        assert reply is not None
        assert (reply.status, urlsplit(reply.headers["Location"]).path) == (302, "/retry_after")

    play(scene)
