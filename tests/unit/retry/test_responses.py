"""The status address: each state of the work, by both instances."""

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from django.test import RequestFactory
from pytest_django import Settings

from retry import contents, stores, views
from retry.contents import Prepared
from retry.instance import WaitingInstance
from retry.responses import ClientReply, ClientRequest, accepted_reply
from retry.tickets import Ticket, status_address
from retry.work import Work
from tests.support import clock
from tests.support.claim_calls import begun, fail
from tests.support.waiting_clients import present

pytestmark = pytest.mark.usefixtures("servers")
KEY = "tile:a:1"
BACK = "/tiles/a.png"

Ask = Callable[[str], ClientReply]


def by_the_waiting_instance(address: str, method: str = "GET") -> ClientReply:
    async def run() -> ClientReply:
        instance = WaitingInstance()
        try:
            asked = ClientRequest(method, urlsplit(address).query.encode(), "testserver")
            reply = await instance.status(asked, present)
            assert reply is not None
            return reply
        finally:
            await instance.close()

    return asyncio.run(run())


def by_django(address: str, method: str = "GET") -> ClientReply:
    response = views.retry_status(RequestFactory().generic(method, address))
    return ClientReply(response.status_code, dict(response.headers), response.content)


both = pytest.mark.parametrize("ask", [by_the_waiting_instance, by_django])


def address(work: Work, *, age: int = 0) -> str:
    now = time.time()
    return status_address(Ticket(BACK, now, KEY, work.key, int(now) - age), "/retry_after")


@both
def test_while_it_is_prepared_it_says_so_at_once(ask: Ask, work: Work) -> None:
    begun(work)
    began, asked = clock.seconds(), address(work)
    reply = ask(asked)
    assert clock.seconds() - began < 0.5, "it was not waited for"
    assert reply.status == 202
    assert int(reply.headers["Retry-After"]) >= 1
    assert reply.headers["Cache-Control"] == "no-store"
    assert json.loads(reply.body)["content"] == BACK
    assert reply.headers["Location"] == asked


@pytest.mark.parametrize("is_there", [True, False], ids=["is there", "unknown"])
@both
def test_content_that_is_there_is_pointed_to_and_what_is_unknown_asked_for_anew(
    ask: Ask, work: Work, is_there: bool
) -> None:
    if is_there:
        begun(work)
        stores.execute_call(contents.store_call(KEY, Prepared(b"x", "image/png", 0, 60), 1, datetime.now(UTC), 0.1))
    reply = ask(address(work))
    assert (reply.status, reply.headers["Location"]) == (303, BACK)


@both
def test_a_failure_is_told_as_main_tells_it(ask: Ask, work: Work) -> None:
    fail(work, begun(work).token, status=504)
    reply = ask(address(work))
    assert (reply.status, json.loads(reply.body)["detail"]) == (504, "No.")
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert int(reply.headers["Retry-After"]) >= 1


@pytest.mark.parametrize("url", ["REDIS_URL", "CACHE_URL"])
@both
def test_without_redis_it_cannot_tell(ask: Ask, work: Work, settings: Settings, url: str) -> None:
    setattr(settings, url, "unix:///nowhere/redis.sock")
    reply = ask(address(work))
    assert (reply.status, reply.headers["Retry-After"]) == (503, "1")


@both
def test_only_own_and_young_tickets_are_answered_and_no_other_methods(
    ask: Callable[..., ClientReply], work: Work
) -> None:
    assert ask("/retry_after/status").status == 400
    assert ask(address(work, age=601)).status == 403
    assert ask(address(work).replace("hop=1", "hop=2")).status == 403
    others = [ask(address(work), method) for method in ("POST", "OPTIONS")]
    assert [(reply.status, reply.headers["Access-Control-Allow-Origin"]) for reply in others] == [
        (405, "*"),
        (204, "*"),
    ]


def test_a_status_address_is_to_be_asked_again_before_its_work_is_skipped(work: Work, settings: Settings) -> None:
    ticket = Ticket("/a", retry_after=0, content_key="a", work_key=work.key, issued_at=0)
    assert int(accepted_reply(ticket, wait_seconds=500).headers["Retry-After"]) < settings.RETRY_SKIP_SECONDS
