"""Tickets that were tampered with: the answers of the waiting instance, which are never cached."""

import time
from collections.abc import Iterator
from email.message import Message
from http.client import HTTPConnection
from socket import AF_UNIX, socket
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from pytest_django import Settings

from retry.tickets import Ticket, ticket_address

from ..support import clock
from ..support.crowd import Crowd
from ..support.stack import Stack, eventually
from .slow.slow_content import SlowContent

pytestmark = pytest.mark.no_database

AT_ONCE_SECONDS = 1
WAITING_SECONDS = 1.5
"""Longer than the waiting instance holds a client without running work."""
INSTANCES = ("retry", "main")


class Answer(NamedTuple):
    status: int
    headers: Message
    seconds: float


def ask_at_its_own_socket(stack: Stack, instance: str, address: str) -> Answer:
    """Without the front."""
    connection = HTTPConnection(stack.host)
    with socket(AF_UNIX) as connection.sock:
        connection.sock.settimeout(10)
        connection.sock.connect(str(stack.runtime / f"{instance}.sock"))
        began = clock.seconds()
        connection.request("GET", address)
        with connection.getresponse() as response:
            response.read()
            return Answer(response.status, response.headers, clock.seconds() - began)


@pytest.fixture
def ticket(stack: Stack, crowd: Crowd, name: str) -> Iterator[dict[str, str]]:
    """The parameters of a ticket that main wrote."""
    crowd.send([f"/slow/{name}?gated=1"])
    eventually(lambda: crowd.visits and crowd.visits[0].answers, 10, "main has answered")
    location = crowd.visits[0].answers[0].headers["Location"]
    yield dict(parse_qsl(urlsplit(location).query))
    stack.open_gate(name)


PARAMETERS = ("redirect", "retry_after", "key", "work", "hop", "sig")
Parameters = dict[str, str] | list[tuple[str, str]]
MALFORMED = [
    *({"retry_after": moment} for moment in ("NaN", "inf", "-1", "9" * 5000)),
    *({"hop": hop} for hop in ("nan", "-1", "1" * 5000)),
    *({"redirect": way} for way in ("/" + "a" * 5000, "https://elsewhere.example/", "//elsewhere.example/", "/slow/é")),
    {"sig": ""},
    {"key": "k" * 5000},
]


def test_a_malformed_ticket_is_refused_at_once(stack: Stack, crowd: Crowd, ticket: dict[str, str]) -> None:
    """By both instances, at their own sockets, and through the front."""
    broken: list[Parameters] = [{**ticket, **changes} for changes in MALFORMED]
    for parameter in PARAMETERS:
        broken.append({name: value for name, value in ticket.items() if name != parameter})
        broken.append([*ticket.items(), (parameter, ticket[parameter])])
    for parameters in broken:
        address = f"/retry_after?{urlencode(parameters)}"
        for instance in INSTANCES:
            answer = ask_at_its_own_socket(stack, instance, address)
            assert (answer.status, answer.seconds < AT_ONCE_SECONDS) == (400, True), (instance, address)
            assert answer.headers["Cache-Control"] == "no-store"
        visit = crowd.visit(address)
        assert (visit.statuses, visit.seconds < AT_ONCE_SECONDS) == ([400], True), address


def test_a_flood_of_a_ticket_is_refused_at_once(stack: Stack, ticket: dict[str, str]) -> None:
    for instance in INSTANCES:
        answer = ask_at_its_own_socket(stack, instance, f"/retry_after?{urlencode({**ticket, 'work': 'w' * 30_000})}")
        assert (answer.status in (400, 414), answer.seconds < AT_ONCE_SECONDS) == (True, True)


def test_a_forged_ticket_is_refused_at_once(stack: Stack, ticket: dict[str, str]) -> None:
    for parameter in PARAMETERS:
        last = ticket[parameter][-1]
        forged = {**ticket, parameter: ticket[parameter][:-1] + ("2" if last == "1" else "1")}
        for instance in INSTANCES:
            answer = ask_at_its_own_socket(stack, instance, f"/retry_after?{urlencode(forged)}")
            assert (answer.status, answer.seconds < AT_ONCE_SECONDS) == (403, True), (instance, parameter)


def test_an_old_ticket_is_refused(stack: Stack, settings: Settings) -> None:
    settings.SECRET_KEY = stack.secret_key
    now = time.time()
    for age, status in ((0, 302), (601, 403)):
        ticket = Ticket("/slow/old", now, "slow:old", "slow:old:0", int(now) - age)
        assert ask_at_its_own_socket(stack, "retry", ticket_address(ticket, "/retry_after")).status == status


def test_a_ticket_that_is_used_again_waits_again_and_leads_to_its_own_content(
    stack: Stack, crowd: Crowd, name: str, ticket: dict[str, str]
) -> None:
    """While the first still waits, and once it is all over: nothing is begun, and there is one way from here."""
    address = f"/retry_after?{urlencode(ticket)}"
    stack.wait_for(name)
    again = crowd.send([address] * 3)
    with pytest.raises(TimeoutError):
        again.result(WAITING_SECONDS)
    stack.open_gate(name)
    later = [*again.result(10), crowd.visit(address), crowd.visit(address)]
    assert [visit.statuses for visit in later] == [[302, 200]] * 5
    assert {visit.answers[0].headers["Location"] for visit in later} == {ticket["redirect"]}
    assert {visit.body for visit in later} == {SlowContent(name).body}
    assert all(visit.seconds < AT_ONCE_SECONDS for visit in later[3:])
    assert stack.executions(name) == 1


def test_nothing_of_the_waiting_instance_is_kept(stack: Stack, crowd: Crowd, name: str) -> None:
    visits = crowd.send([f"/slow/{name}?seconds=0.2"] * 20).result(20)
    answers = [answer for visit in visits for answer in visit.answers if not answer.is_of_main]
    assert answers
    assert {answer.headers["Cache-Control"] for answer in answers} == {"no-store"}
    kept = [file.read_bytes() for file in (stack.data / "hot").rglob("*") if file.is_file()]
    assert any(name.encode() in entry for entry in kept)
    assert not any(b"/retry_after" in entry for entry in kept)
