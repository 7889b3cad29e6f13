"""Main's requests and answers beneath Django: addresses, header fields, bodies."""

import io
from collections.abc import Iterable
from unittest.mock import Mock, patch
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import ParseException
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader

from project import main_http
from project.main_http import EncodedRequest


def read(kind: type[Request], sent: bytes) -> Request:
    """Raises ParseException."""
    return kind(Config(), IterUnreader(iter([sent])), ("127.0.0.1", 1))


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("GET /feeds/?q=caf\u00e9 HTTP/1.1".encode(), "/feeds/?q=caf%C3%A9"),
        (b"GET /feeds/?q=caf\xe9&x=%20 HTTP/1.1", "/feeds/?q=caf%E9&x=%20"),
        (b"GET /feeds/?q=cafe HTTP/1.1", "/feeds/?q=cafe"),
    ],
)
def test_an_address_beyond_ascii_is_taken_as_a_browser_would_encode_it(line: bytes, target: str) -> None:
    assert read(EncodedRequest, line + b"\r\nHost: site\r\n\r\n").uri == target


FIELDS = [
    b"Host: site\r\nX-Real-IP: ::1\r\nAccept: text/html, */*;q=0.1",
    b"HOST:site\r\nX-Empty:\r\nx-Spaces: \t a  b \t\r\nX-Latin: caf\xe9",
    b"Host: site\r\nX-Twice: a\r\nX-Twice: b\r\nX-Forwarded-Proto: https",
    b"Host: site\r\nExpect: 100-continue\r\nContent-Length: 0",
    b"Host: site\r\nX_Forwarded_For: 127.0.0.1",
    b"Host: site\r\nX-Long: " + 5_000 * b"a",
]
REFUSED_FIELDS = [
    b"Host: site\r\nHost: other",
    b"Host: site\r\nExpect: more",
    b"Host: site\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off",
    b"Host: site\r\nX-Folded: a\r\n b",
    b"Host: site\r\nX-Nul: a\0b",
    b"Host: site\r\nX-Delete: a\x7f",
    b"Host: site\r\nX-Bare: a\nb",
    b"Host: site\r\nName With Spaces: a",
    b"Host: site\r\nX-Space : a",
    b"Host: site\r\nno field",
    b"Host: site\r\n: no name",
    b"Host: site\r\nX-Long: " + 9_000 * b"a",
    b"\r\n".join(b"X-%d: a" % number for number in range(101)),
]


@pytest.mark.parametrize("fields", FIELDS)
def test_fields_are_read_as_gunicorn_reads_them(fields: bytes) -> None:
    sent = b"GET / HTTP/1.1\r\n" + fields + b"\r\n\r\n"
    with patch.object(Request, "parse_headers", autospec=True, side_effect=Request.parse_headers) as by_lines:
        ours = read(EncodedRequest, sent)
    assert by_lines.called is (b"_" in fields)
    theirs = read(Request, sent)
    assert (ours.headers, ours.scheme, ours._expected_100_continue) == (
        theirs.headers,
        theirs.scheme,
        theirs._expected_100_continue,
    )


@pytest.mark.parametrize("fields", REFUSED_FIELDS)
def test_fields_are_refused_as_gunicorn_refuses_them(fields: bytes) -> None:
    caught = []
    for kind in (EncodedRequest, Request):
        with pytest.raises(ParseException) as one:
            read(kind, b"GET / HTTP/1.1\r\n" + fields + b"\r\n\r\n")
        caught.append((one.type, str(one.value)))
    assert caught[0] == caught[1]


def test_what_an_application_leaves_of_a_body_is_read_before_its_answer_is_sent() -> None:
    body = io.BytesIO(b"x" * 3_000_000)

    def refuse(environ: WSGIEnvironment, _: StartResponse) -> Iterable[bytes]:
        environ["wsgi.input"].read(10)
        return [b"no"]

    answer = main_http.drain_bodies(refuse)({"wsgi.input": body}, lambda *_: lambda _: None)
    assert body.tell() == 3_000_000
    assert list(answer) == [b"no"]


@pytest.mark.parametrize("length", ["5", None], ids=["of known length", "in chunks"])
def test_the_head_of_an_answer_and_its_body_come_together(length: str | None) -> None:
    sent: list[bytes] = []
    request = Mock(version=(1, 1), method="GET", headers=[])
    response = main_http.JoinedResponse(request, Mock(sendall=sent.append), Config())
    response.start_response("200 OK", [("Content-Length", length)] if length else [])
    for part in (b"ab", b"cde"):
        response.write(part)
    assert len(sent) == 2
    assert sent[0].startswith(b"HTTP/1.1 200 OK\r\n")
    assert sent[0].endswith(b"\r\n\r\nab" if length else b"\r\n\r\n2\r\nab\r\n")
    assert sent[1] == (b"cde" if length else b"3\r\ncde\r\n")
