"""Requests that two servers could read differently: nginx refuses them, or passes on their one meaning."""

import json
import socket
from collections.abc import Sequence

import pytest

from ..support.crowd import Crowd
from ..support.stack import Stack

TARGETS = ("POST /admin/login/", "GET /tiles/none.json", "POST /rsscloud/nobody", "GET /retry_after?x=1")
REFUSED = {
    "both lengths (CL.TE)": ["Content-Length: {length}", "Transfer-Encoding: chunked"],
    "both lengths (TE.CL)": ["Transfer-Encoding: chunked", "Content-Length: 5"],
    "two lengths": ["Content-Length: 5", "Content-Length: {length}"],
    "a length twice": ["Content-Length: {length}", "Content-Length: {length}"],
    "a list of lengths": ["Content-Length: 5, {length}"],
    "a length with a sign": ["Content-Length: +{length}"],
    "a length below nothing": ["Content-Length: -1"],
    "a length in hexadecimal": ["Content-Length: 0x10"],
    "a length of two words": ["Content-Length: 5 5"],
    "a length of 30 digits": ["Content-Length: 1" + "0" * 29],
    "a space before the colon": ["Content-Length : {length}"],
    "a control character in a name": ["Content-Length\x0b: {length}"],
    "a bare CR in a value": ["X-A: b\rContent-Length: {length}"],
    "a zero in a value": ["X-A: b\0"],
    "an unknown coding": ["Transfer-Encoding: xchunked"],
    "a coding after chunked": ["Transfer-Encoding: chunked, identity"],
    "no coding": ["Transfer-Encoding: identity"],
    "a coding with a control character": ["Transfer-Encoding: \x0bchunked"],
    "chunked twice": ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
    "a folded coding": ["Transfer-Encoding:", " chunked", "Content-Length: 5"],
    "a folded length": ["X-A: b", " Content-Length: 5", "Content-Length: {length}"],
    "two hosts": ["Host: evil.example"],
}
READ_IN_ONE_WAY = {
    "a plain body": ["Content-Length: {length}"],
    "a length with an underscore": ["Content_Length: 5", "Content-Length: {length}"],
    "a coding with an underscore": ["Transfer_Encoding: chunked", "Content-Length: {length}"],
    "another protocol": ["Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", "Content-Length: {length}"],
}
CHUNKS = {
    "the last": "0\r\n\r\n",
    "a bare LF in an extension": "2;\nxx\r\n2\r\nok\r\n0\r\n\r\n",
    "bare LF": "0\n\n",
    "a trailer": "0\r\nContent-Length: 5\r\n\r\n",
    "two CR in an extension": "0;a=\r\r\n\r\n",
    "no number": "g\r\n\r\n",
}


@pytest.fixture
def unheard(stack: Stack, name: str) -> str:
    """A request, to be hidden in the bodies of others. A server that reads it has slow content prepared."""
    return f"GET /slow/{name} HTTP/1.1\r\nHost: {stack.host}\r\nConnection: close\r\n\r\n"


def ask(stack: Stack, target: str, fields: Sequence[str], body: str, end: str = "\r\n") -> tuple[int, bytes]:
    """The status of the only answer, and its body. nginx hangs up after it."""
    filled = [field.format(length=len(body)) for field in fields]
    lines = [f"{target} HTTP/1.1", f"Host: {stack.host}", "Connection: close", *filled, "", ""]
    with socket.create_connection(("127.0.0.1", stack.port), timeout=10) as connection:
        connection.sendall((end.join(lines) + body).encode("latin-1"))
        came = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert came.count(b"HTTP/1.1 ") == 1, came
    return int(came.split(b" ", 2)[1]), came.partition(b"\r\n\r\n")[2]


def was_heard(stack: Stack, crowd: Crowd, name: str) -> bool:
    """Asked after main has answered a request that came later."""
    assert crowd.visit(f"/slow/{name}-later").status == 200
    return bool(stack.executions(name)) or any(stack.state.scan_iter(f"retry:*{name}"))


@pytest.mark.no_database
def test_what_could_be_read_in_two_ways_is_refused(stack: Stack, crowd: Crowd, name: str, unheard: str) -> None:
    for case, fields in REFUSED.items():
        for target in TARGETS:
            status, problem = ask(stack, target, fields, f"0\r\n\r\n{unheard}")
            assert (status, json.loads(problem)["status"]) == (400, 400), (case, target)
    assert not was_heard(stack, crowd, name)


@pytest.mark.no_database
def test_a_search_need_not_be_encoded_and_what_is_no_text_is_refused_by_a_problem(stack: Stack) -> None:
    in_utf8, in_latin1 = "GET /feeds/all.atom?q=caf\u00c3\u00a9", "GET /feeds/all.atom?q=caf\u00e9"
    assert ask(stack, in_utf8, [], "")[0] in {200, 302}
    for target in (in_latin1, "GET /feeds/all.atom?q=caf\x01"):
        status, problem = ask(stack, target, [], "")
        assert (status, json.loads(problem)["status"]) == (400, 400), target


@pytest.mark.no_database
@pytest.mark.parametrize("end", ["\r\n", "\n"], ids=["CR LF", "bare LF"])
def test_a_request_in_a_body_is_no_request(stack: Stack, crowd: Crowd, name: str, unheard: str, end: str) -> None:
    for case, fields in READ_IN_ONE_WAY.items():
        for target, status in zip(TARGETS, (403, 404, 415, 400), strict=True):
            assert ask(stack, target, fields, unheard, end)[0] == status, (case, target)
    assert not was_heard(stack, crowd, name)


@pytest.mark.no_database
@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_what_follows_the_last_chunk_is_no_request(
    stack: Stack, crowd: Crowd, name: str, unheard: str, chunks: str
) -> None:
    for target in TARGETS:
        assert 400 <= ask(stack, target, ["Transfer-Encoding: chunked"], chunks + unheard)[0] < 500, target
    assert not was_heard(stack, crowd, name)


@pytest.mark.no_database
def test_the_same_request_by_itself_is_heard(stack: Stack, crowd: Crowd, name: str, unheard: str) -> None:
    with socket.create_connection(("127.0.0.1", stack.port), timeout=10) as connection:
        connection.sendall(unheard.encode())
        assert connection.recv(65_536).startswith(b"HTTP/1.1 302 ")
    assert was_heard(stack, crowd, name)
