"""The waiting instance: its answers by ticket, limit, preference and delivery."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.utils.module_loading import import_string
from pytest_django import Settings

from retry import claim_state, claims, contents, stores, worker
from retry.contents import Prepared
from retry.deferral import serve_or_defer
from retry.instance import WaitingInstance
from retry.responses import ClientReply, ClientRequest
from retry.tickets import Ticket, read_ticket, ticket_address
from retry.work import Work
from tests.conftest import RedisServers
from tests.support import clock
from tests.support.claim_calls import look
from tests.support.waiting_clients import BACK, KEY, answered, asked, begin, is_back, joined, played, present, settled

pytestmark = pytest.mark.usefixtures("servers")


@pytest.mark.parametrize("front", ["", "asked", "handed"])
@played
async def test_when_the_time_is_up_the_client_comes_again_with_the_next_hop_in_every_delivery(
    instance: WaitingInstance, work: Work, settings: Settings, front: str
) -> None:
    settings.DEFAULT_RETRY_TIMEOUT, settings.RETRY_DELIVERY = 0.1, "internal"
    begin(work)
    reply = await answered(instance, asked(work, front=front))
    target = urlsplit(reply.headers["Location"])
    assert (reply.status, target.path) == (302, "/retry_after")
    ticket = read_ticket(target.query, now=time.time(), max_age_seconds=600, hosts=frozenset())
    assert (ticket.hop, ticket.redirect, ticket.work_key) == (2, BACK, work.key)


@pytest.mark.parametrize("fetch_mode", ["cors", "navigate"])
@played
async def test_the_last_hop_ends_in_503_or_the_waiting_page_while_the_work_goes_on(
    instance: WaitingInstance, work: Work, settings: Settings, fetch_mode: str
) -> None:
    settings.DEFAULT_RETRY_TIMEOUT = 0.1
    begin(work)
    reply = await answered(instance, asked(work, hop=2, fetch_mode=fetch_mode))
    assert (reply.status, reply.headers["Cache-Control"]) == (503, "no-store")
    assert int(reply.headers["Retry-After"]) >= 1
    assert BACK.encode() in reply.body if fetch_mode == "navigate" else json.loads(reply.body)["status"] == 503
    assert isinstance(look(work), claim_state.ClaimTaken)


@played
async def test_a_person_gets_the_content_within_the_patience_for_pages(
    instance: WaitingInstance, work: Work, settings: Settings
) -> None:
    settings.PAGE_PATIENCE_SECONDS = 10
    token = begin(work)
    [waiting] = await joined(instance, work, page="example.org")
    stores.execute_call(claims.finish_stored_call(work.key, token, 0.1))
    assert is_back(await waiting)


@played
async def test_after_that_the_person_sees_the_waiting_page_with_its_state(
    instance: WaitingInstance, work: Work, settings: Settings
) -> None:
    settings.PAGE_PATIENCE_SECONDS = 0.1
    begin(work)
    reply = await answered(instance, asked(work, page="<b>.example", accept="*/*"))
    assert (reply.status, reply.headers["Cache-Control"]) == (503, "no-store")
    assert int(reply.headers["Retry-After"]) >= 1
    assert b"Waiting for &lt;b&gt;.example, 1 in line." in reply.body
    assert f'content="1;url={BACK}"'.encode() in reply.body


@played
async def test_an_old_ticket_of_a_page_leads_to_the_content(instance: WaitingInstance, work: Work) -> None:
    ticket = Ticket(BACK, 0, "a", work.key, int(time.time()) - 601, page="")
    query = urlsplit(ticket_address(ticket, "/retry_after")).query.encode()
    assert is_back(await answered(instance, ClientRequest("GET", query, "testserver")))


@played
async def test_a_request_for_the_state_is_held_for_as_long_as_it_prefers(instance: WaitingInstance, work: Work) -> None:
    token = begin(work)
    held = asyncio.create_task(instance.status(asked(work, page="example.org", prefer="wait=20"), present))
    await settled(instance, work)
    stores.execute_call(claims.finish_stored_call(work.key, token, 0.1))
    reply = await clock.within(5, held)
    assert reply is not None
    assert (reply.status, reply.headers["Location"]) == (303, BACK)

    begin(replace(work, key="other"))
    short = await instance.status(asked(replace(work, key="other"), page="example.org", prefer="wait=1"), present)
    assert short is not None
    assert (short.status, short.headers["Preference-Applied"]) == (202, "wait=1")
    assert json.loads(short.body)["waiting"] == "Waiting for example.org, 1 in line."


@pytest.mark.parametrize("late", [{"hop": 3}, {"wait": -1}], ids=["past its hops", "past its own time"])
@played
async def test_a_client_whose_time_is_over_does_not_wait(
    instance: WaitingInstance, work: Work, late: dict[str, int]
) -> None:
    begin(work)
    assert (await clock.within(0.5, answered(instance, asked(work, **late)))).status == 503  # type: ignore[arg-type]


@played
async def test_closing_answers_everyone_with_the_same_ticket(instance: WaitingInstance, work: Work) -> None:
    begin(work)
    waiting = await joined(instance, work, 20)
    instance.waiting.close()
    for reply in await clock.within(1, asyncio.gather(*waiting)):
        assert reply.status == 302
        assert dict(parse_qsl(urlsplit(reply.headers["Location"]).query))["hop"] == "1"
    assert (await clock.within(0.5, answered(instance, asked(work)))).status == 302


@pytest.mark.parametrize("query", [b"", b"redirect=/a", b"%ff=1", b"hop=nan&retry_after=inf"])
@played
async def test_malformed_tickets_are_refused_at_once(instance: WaitingInstance, query: bytes) -> None:
    reply = await clock.within(0.5, answered(instance, ClientRequest("GET", query, "testserver")))
    assert reply.status == 400
    assert reply.headers["Content-Type"] == "application/problem+json"


ONE, OTHER = "192.0.2.1", "192.0.2.2"
NETWORK, OTHER_NETWORK = ("2001:db8:1:2::1", "2001:db8:1:2:3:4:5:6"), "2001:db8:1:103::1"


@pytest.mark.parametrize(
    ("limit", "most", "addresses"),
    [
        pytest.param("RETRY_MAX_CLIENTS", 2, ("", "", ""), id="all"),
        pytest.param("RETRY_CLIENTS_PER_ADDRESS", 1, (ONE, ONE, OTHER), id="IPv4"),
        pytest.param("RETRY_CLIENTS_PER_ADDRESS", 1, (*NETWORK, OTHER_NETWORK), id="network of IPv6"),
    ],
)
@played
async def test_clients_past_the_limit_of_all_or_of_one_address_or_network_are_refused(
    instance: WaitingInstance, work: Work, settings: Settings, *, limit: str, most: int, addresses: Sequence[str]
) -> None:
    setattr(settings, limit, most)
    settings.DEFAULT_RETRY_TIMEOUT = 0.3
    begin(work)
    replies = await asyncio.gather(*(answered(instance, asked(work, address=each)) for each in addresses))
    assert sorted(reply.status for reply in replies) == [302, 302, 503]
    assert instance._per_network == {}


@pytest.mark.parametrize(("respond_async", "status"), [(False, 503), (True, 202)], ids=["no", "a status address"])
@played
async def test_a_client_hears_when_its_own_time_is_up(
    instance: WaitingInstance, work: Work, respond_async: bool, status: int
) -> None:
    begin(work)
    began, ran = time.monotonic(), clock.seconds()
    reply = await answered(instance, asked(work, wait=2, respond_async=respond_async))
    assert reply.status == status
    assert time.monotonic() - began > 0.9
    assert clock.seconds() - ran < 3
    assert reply.headers["Preference-Applied"] == ("respond-async, wait=2" if respond_async else "wait=2")
    assert int(reply.headers["Retry-After"]) >= 1
    assert not respond_async or json.loads(reply.body)["status"] == reply.headers["Location"]


@played
async def test_a_long_preference_leaves_the_usual_waits_as_they_are(
    instance: WaitingInstance, work: Work, settings: Settings
) -> None:
    settings.DEFAULT_RETRY_TIMEOUT = 0.1
    begin(work)
    first = await answered(instance, asked(work, wait=60, respond_async=True))
    last = await answered(instance, asked(work, wait=60, respond_async=True, hop=2))
    assert (first.status, last.status) == (302, 202)


@pytest.mark.parametrize(
    ("delivery", "front", "expected"),
    [
        *(
            (*asked, None)
            for asked in (("redirect", "asked"), ("redirect", "handed"), ("inline", ""), ("internal", ""))
        ),
        *((delivery, "asked", "/retry_after/returned" + BACK) for delivery in ("inline", "internal")),
        ("internal", "handed", "@returned"),
    ],
)
@played
async def test_the_way_back_is_that_of_the_delivery(
    instance: WaitingInstance, work: Work, settings: Settings, *, delivery: str, front: str, expected: str | None
) -> None:
    settings.RETRY_DELIVERY = delivery
    stores.execute_call(claims.finish_stored_call(work.key, begin(work), 0.1))
    reply = await answered(instance, asked(work, front=front))
    assert reply.headers.get("X-Accel-Redirect") == expected
    assert reply.headers.get("Location") == (None if expected else BACK)
    if expected:
        assert set(reply.headers) == {"X-Accel-Redirect"}  # all else nginx would add to the content's fields


@pytest.mark.parametrize(
    ("kind", "fields", "is_delivered"),
    [
        ("image/png", {}, True),
        ("image/png", {"front": "asked"}, False),
        ("image/png", {"added": b""}, False),
        ("image/png", {"added": b"&least_version=4"}, False),
        ("image/png", {"is_simple": False}, False),
        ("text/html", {}, False),
        (None, {}, False),
    ],
    ids=["a picture", "not handed over", "not as it is", "stale", "a condition or range", "a page", "nothing there"],
)
@played
async def test_a_fresh_picture_is_delivered_to_a_request_that_main_has_handed_over(
    instance: WaitingInstance,
    work: Work,
    settings: Settings,
    *,
    kind: str | None,
    fields: dict[str, Any],
    is_delivered: bool,
) -> None:
    settings.RETRY_DELIVERY, settings.SECURE_HSTS_SECONDS = "internal", 3600
    token = begin(work)
    given: dict[str, Any] = {"front": "handed", "added": b"&least_version=3", "is_simple": True} | fields
    added = given.pop("added")
    handed = asked(work, **given)
    handed = replace(handed, query=handed.query + added)
    waiting = asyncio.create_task(answered(instance, handed))
    await settled(instance, work)
    if kind:
        content = Prepared(b"tile", kind, 60, 600, version=3)
        stores.execute_call(contents.store_call(KEY, content, 1, datetime.now(UTC), 0.1))
    stores.execute_call(claims.finish_stored_call(work.key, token, 0.1))
    reply = await waiting
    assert (reply.body == b"tile") == is_delivered == ("X-Accel-Redirect" not in reply.headers)
    if is_delivered:
        of_main = through_middleware(lambda request: serve_or_defer(request, KEY, work, version=3))
        assert (reply.status, {**reply.headers, "Content-Length": "4"}) == (200, dict(of_main.headers))


async def watched(servers: RedisServers, key: str = KEY) -> None:
    """Returns when the instance hears of the content at once."""
    name = contents.channel_name(key, 0)
    while not servers.cache.client.pubsub_numsub(name)[0][1]:
        await asyncio.sleep(0.005)


async def watching_client(instance: WaitingInstance, work: Work, servers: RedisServers) -> "asyncio.Task[ClientReply]":
    """A handed client of a picture, when the instance hears of its content."""
    begin(work)
    handed = asked(work, front="handed", is_simple=True)
    handed = replace(handed, query=handed.query + b"&least_version=3")
    waiting = asyncio.create_task(answered(instance, handed))
    await settled(instance, work)
    await watched(servers)
    return waiting


@pytest.mark.parametrize("body", [b"tile", b"x" * (contents.MAX_NOTICE_BYTES + 1)], ids=["small", "large"])
@played
async def test_a_picture_is_delivered_as_soon_as_it_is_stored_and_before_its_work_ends(
    instance: WaitingInstance, work: Work, servers: RedisServers, settings: Settings, body: bytes
) -> None:
    settings.RETRY_DELIVERY = "internal"
    waiting = await watching_client(instance, work, servers)
    content = Prepared(body, "image/png", 60, 600, version=3)
    stores.execute_call(contents.store_call(KEY, content, 1, datetime.now(UTC), 0.1, work.key, 0))
    reply = await clock.within(1, waiting)
    assert (reply.status, reply.body) == (200, body)
    assert isinstance(look(work), claim_state.ClaimTaken)


@played
async def test_a_client_does_not_get_content_that_was_stored_in_another_database_of_the_server(
    instance: WaitingInstance, work: Work, servers: RedisServers, settings: Settings
) -> None:
    settings.RETRY_DELIVERY = "internal"
    waiting = await watching_client(instance, work, servers)
    own = settings.CACHE_URL
    assert own.startswith("unix://")
    for url, body in [(f"{own}?db=1", b"of another site"), (own, b"tile")]:
        settings.CACHE_URL = url
        worker._store_contents({KEY: Prepared(body, "image/png", 60, 600, version=3)}, work.key, 1, time.monotonic())
        assert stores.fast_client("cache").hget(contents.content_name(KEY), "body") == body
    reply = await clock.within(1, waiting)
    assert (reply.status, reply.body) == (200, b"tile")


@played
async def test_a_picture_for_a_client_that_is_held_has_the_freshness_that_is_left(
    instance: WaitingInstance, work: Work, servers: RedisServers, settings: Settings
) -> None:
    settings.RETRY_DELIVERY = "internal"
    begin(work)
    handed = asked(work, front="handed", is_simple=True, least=1.5)
    handed = replace(handed, query=handed.query + b"&least_version=3")
    waiting = asyncio.create_task(answered(instance, handed))
    await settled(instance, work)
    await watched(servers)
    content = Prepared(b"tile", "image/png", 60, 600, version=3)
    stores.execute_call(contents.store_call(KEY, content, 1, datetime.now(UTC), 0.1, work.key, 0))
    reply = await clock.within(3, waiting)
    assert (reply.status, reply.body) == (200, b"tile")
    assert 0 < int(reply.headers["Cache-Status"].removeprefix("Tarry; hit; ttl=")) <= 58


@played
async def test_clients_are_sent_back_when_their_content_is_stored_and_those_of_other_work_wait_on(
    instance: WaitingInstance, work: Work, servers: RedisServers
) -> None:
    other = replace(work, key="paint:a:2")
    begin(work)
    begin(other)
    [waiting] = await joined(instance, work)
    [of_other] = await joined(instance, other)
    await watched(servers)
    content = Prepared(b"tile", "image/png", 60, 600)
    stores.execute_call(contents.store_call(KEY, content, 1, datetime.now(UTC), 0.1, work.key, 0))
    assert is_back(await clock.within(1, waiting))
    assert not of_other.done()
    instance.waiting.close()
    await of_other


def through_middleware(view: Callable[[HttpRequest], HttpResponse]) -> HttpResponse:
    """Main's answer to a request by https."""
    for name in reversed(settings.MIDDLEWARE):
        view = import_string(name)(view)
    return view(RequestFactory().get(BACK, secure=True, headers={"Host": "localhost"}))
