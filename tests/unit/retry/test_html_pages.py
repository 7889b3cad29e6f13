"""Pages for people: the waiting page, and problems by Accept, from both instances."""

import json
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from pytest_django import Settings

from retry import responses
from retry.html_pages import ProblemPagesMiddleware, present_reply, waiting_page_reply
from retry.responses import ClientReply, ClientRequest, problem_reply
from retry.tickets import Ticket

TICKET = Ticket("/feeds/a/?q=%22&limit=3", 0, "a", "w", 0, page="example.org")
PERSON = {"Accept": "text/html, */*;q=0.8"}
SEARCH = "/feeds/?q=<b>"


def by_the_waiting_instance(fields: dict[str, str]) -> ClientReply:
    asked = ClientRequest("GET", b"", "testserver", fields.get("Sec-Fetch-Mode"), fields.get("Accept"))
    return present_reply(problem_reply(503, "<i>Busy</i>", wait_seconds=3, preference="wait=1"), asked)


def by_django(fields: dict[str, str]) -> ClientReply:
    def view(_: HttpRequest) -> HttpResponse:
        response = responses.problem_response(503, "<i>Busy</i>", wait_seconds=3)
        response["Vary"] = "Prefer"
        return response

    answer = ProblemPagesMiddleware(view)(RequestFactory(headers=fields).get(SEARCH))
    return ClientReply(answer.status_code, dict(answer.headers), answer.content)


both = pytest.mark.parametrize("ask", [by_the_waiting_instance, by_django])


@both
@pytest.mark.parametrize("fields", [PERSON, {"Sec-Fetch-Mode": "navigate", "Accept": "*/*"}])
def test_whoever_prefers_a_page_gets_a_problem_as_a_page(ask: Any, fields: dict[str, str]) -> None:
    reply = ask(fields)
    assert (reply.status, reply.headers["Content-Type"]) == (503, "text/html; charset=utf-8")
    assert (reply.headers["Retry-After"], reply.headers["Cache-Control"]) == ("3", "no-store")
    assert reply.headers["Vary"] == "Prefer, Accept, Sec-Fetch-Mode"
    assert b"&lt;i&gt;Busy&lt;/i&gt;" in reply.body
    assert b"<b>" not in reply.body
    assert b"script" not in reply.body
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
    assert reply.headers.get("Content-Length", str(len(reply.body))) == str(len(reply.body))


@both
@pytest.mark.parametrize("fields", [{}, {"Accept": "text/html;q=0, */*"}, {"Accept": "application/json"}])
def test_all_others_get_json_and_caches_know_on_what_that_depends(ask: Any, fields: dict[str, str]) -> None:
    reply = ask(fields)
    assert (reply.status, reply.headers["Content-Type"]) == (503, "application/problem+json")
    assert reply.headers["Vary"] == "Prefer, Accept, Sec-Fetch-Mode"
    assert json.loads(reply.body)["detail"] == "<i>Busy</i>"


def test_what_is_no_problem_is_left_as_it_is() -> None:
    asked = ClientRequest("GET", b"", "testserver", "navigate")
    for reply in (ClientReply(302, {"Location": "/"}), ClientReply(202, {"Content-Type": "application/json"}, b"{}")):
        assert present_reply(reply, asked) is reply


def test_the_waiting_page_loads_the_content_again_and_runs_and_shows_only_what_is_of_this_site() -> None:
    reply = waiting_page_reply(TICKET, "Waiting.", 2.5)
    assert b'<noscript><meta http-equiv="refresh" content="3;url=/feeds/a/?q=%22&amp;limit=3"></noscript>' in reply.body
    assert b'data-status="/retry_after/status?redirect=' in reply.body
    policy = reply.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src ")


def test_at_another_host_the_page_takes_its_files_from_the_site(settings: Settings) -> None:
    settings.RETRY_AFTER_SERVER, settings.PUBLIC_URL = "https://wait.example/retry_after", "https://tiles.example"
    reply = waiting_page_reply(TICKET, "Waiting.", 1)
    assert b'src="https://tiles.example/static/retry/waiting' in reply.body
    assert b'data-status="https://wait.example/retry_after/status?' in reply.body
    policy = reply.headers["Content-Security-Policy"]
    assert "script-src 'self' https://tiles.example; connect-src 'self' https://wait.example;" in policy
