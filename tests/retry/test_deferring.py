"""How main sends clients to wait, by what they prefer and by what stands between."""

import json
import time
from datetime import datetime
from urllib.parse import urlsplit

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from pytest_django import Settings

from retry.serving import serve_or_defer
from retry.tickets import Ticket, read_ticket
from retry.work import Work
from tests.conftest import RedisServers

pytestmark = pytest.mark.usefixtures("servers")
KEY = "tile:a:1"


def ask(work: Work, path: str = "/tiles/a.png", *, html: bool = False, **headers: str) -> HttpResponse:
    return serve_or_defer(RequestFactory(headers=headers).get(path), KEY, work, html=html)


def ticket_of(query: str) -> Ticket:
    return read_ticket(query, now=time.time(), max_age_seconds=600, hosts=frozenset())


def test_who_prefers_so_is_answered_202_at_once(work: Work, servers: RedisServers) -> None:
    response = ask(work, prefer="respond-async")
    assert response.status_code == 202
    status = urlsplit(response["Location"])
    assert status.path == "/retry_after/status"
    assert ticket_of(status.query).redirect == "/tiles/a.png"
    assert int(response["Retry-After"]) >= 1
    assert response["Preference-Applied"] == "respond-async"
    assert response["Vary"] == "Prefer"
    assert response["Cache-Control"] == "no-store"
    body = json.loads(response.content)
    assert (body["state"], body["content"], body["status"]) == ("preparing", "/tiles/a.png", response["Location"])
    assert 0 <= datetime.fromisoformat(body["expected"]).timestamp() - time.time() + 1 < 10
    assert servers.state.client.llen("paint.now") == 1


def test_who_does_not_wait_is_told_when_to_come_again(work: Work, servers: RedisServers) -> None:
    response = ask(work, prefer="wait=0")
    assert response.status_code == 503
    assert int(response["Retry-After"]) >= 1
    assert response["Content-Type"] == "application/problem+json"
    assert response["Preference-Applied"] == "wait=0"
    assert servers.state.client.llen("paint.now") == 1  # it is prepared all the same


def test_no_wait_and_a_status_address_go_together(work: Work) -> None:
    response = ask(work, prefer="respond-async, wait=0")
    assert (response.status_code, response["Preference-Applied"]) == (202, "respond-async, wait=0")


def test_the_ticket_carries_how_long_the_client_waits(work: Work) -> None:
    began = time.time()
    response = ask(work, prefer="respond-async, wait=7")
    ticket = ticket_of(urlsplit(response["Location"]).query)
    assert (response.status_code, response["Preference-Applied"]) == (302, "wait=7")
    assert ticket.deadline == pytest.approx(began + 7, abs=0.5)
    assert (ticket.wait_seconds, ticket.respond_async) == (7, True)


def test_preferences_change_nothing_about_a_page_for_people(work: Work) -> None:
    response = ask(work, html=True, prefer="wait=7", sec_fetch_mode="navigate")
    assert (response.status_code, response["Content-Type"]) == (503, "text/html; charset=utf-8")


def test_nginx_is_handed_the_request_when_it_can_take_it(work: Work, settings: Settings) -> None:
    settings.RETRY_DELIVERY = "internal"
    response = ask(work, "/tiles/ä.png?x=%3F", x_front="asked")
    assert response["X-Accel-Redirect"] == "@wait"
    assert ticket_of(response["X-Ticket"]).redirect == "/tiles/%C3%A4.png?x=%3F"
    for name in ("Cache-Control", "Content-Type", "Expires", "Accept-Ranges", "Set-Cookie"):
        assert name not in response.headers  # nginx would add it to the content's own


@pytest.mark.parametrize("mark", ["returned", "refresh", "handed", "Asked", ""])
def test_nothing_else_is_handed_over(work: Work, settings: Settings, mark: str) -> None:
    settings.RETRY_DELIVERY = "internal"
    assert ask(work, x_front=mark).status_code == 302
    assert ask(work).status_code == 302


@pytest.mark.parametrize("delivery", ["redirect", "inline"])
def test_other_deliveries_begin_with_a_redirect(work: Work, settings: Settings, delivery: str) -> None:
    settings.RETRY_DELIVERY = delivery
    assert ask(work, x_front="asked").status_code == 302
