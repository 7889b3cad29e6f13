"""One client requests so much cold content that its lane is full: other clients get theirs."""

import random
import socket

import pytest

from ..support.crowd import Crowd
from ..support.stack import Stack, eventually

pytestmark = pytest.mark.no_database

FLOOD = 2000
AT_ONCE = 100
SEARCH = "/feeds/all.atom?q={name}{place}"
SLOW = "/slow/{name}{place}?seconds=0.02"


def request_and_leave(stack: Stack, addresses: list[str]) -> int:
    """Requests the addresses without following a redirect. Returns the number of refusals."""
    refused = 0
    for start in range(0, len(addresses), AT_ONCE):
        some = addresses[start : start + AT_ONCE]
        with socket.create_connection(("127.0.0.1", stack.port), 20, ("127.0.0.9", 0)) as connection:
            for address in some:
                last = "close" if address is some[-1] else "keep-alive"
                head = f"GET {address} HTTP/1.1\r\nHost: {stack.host}\r\nConnection: {last}\r\n\r\n"
                connection.sendall(head.encode())
            with connection.makefile("rb") as answers:
                refused += answers.read().count(b"HTTP/1.1 503 ")
    return refused


@pytest.mark.parametrize("flooded", [SEARCH, SLOW], ids=["pages", "pictures"])
def test_a_flood_from_one_address_denies_no_cold_content_to_others(stack: Stack, flooded: str) -> None:
    name = str(random.randrange(10_000_000, 99_999_999))
    wanted = [form.format(name=f"1{name}", place=place) for form in (SEARCH, SLOW) for place in range(4)]
    of_both = [flooded.format(name=name, place=place) for place in (200, 300)]
    stack.freeze("paint-now", children=True)
    try:
        assert request_and_leave(stack, [flooded.format(name=name, place=place) for place in range(FLOOD)]) > 0
        with Crowd(stack.base_url, "127.0.0.10") as others:
            sent = others.send(wanted + of_both)
            eventually(lambda: all(len(visit.answers) for visit in others.visits), 30, "all wait")
            stack.thaw("paint-now", children=True)
            visits = sent.result(60)
    finally:
        stack.thaw("paint-now", children=True)
    assert {tuple(visit.statuses) for visit in visits} == {(302, 302, 200)}
