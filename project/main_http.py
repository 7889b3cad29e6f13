"""How main reads requests and writes answers beneath Django: under gunicorn, and in part under any server (PEP 3333).

Draining: nginx sends a whole body before it reads an answer; a server that answers and closes at once causes a 502.

Addresses: nginx passes the bytes of a query on as they are, and gunicorn refuses all but ASCII. Browsers
percent-encode other bytes; for clients that do not, main does.
"""

import re
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from gunicorn.http import wsgi
from gunicorn.http.message import Request
from gunicorn.http.parser import RequestParser

_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")


def encode_address(address: bytes) -> bytes:
    """Percent-encodes all bytes beyond ASCII, as browsers do."""
    if address.isascii():
        return address
    return _BEYOND_ASCII.sub(lambda found: b"%%%02X" % found[0][0], address)


_FIELD = rb"[!#$%&'*+.^`|~0-9A-Za-z-]+:[^\x00-\x08\x0a-\x1f\x7f]*"
_USUAL_FIELDS = re.compile(rb"%b(?:\r\n%b){0,99}" % (_FIELD, _FIELD))
"""Lines of fields that gunicorn would accept whatever its settings: without `_` in names, and not too many."""


class EncodedRequest(Request):  # type: ignore[misc]  # an untyped library
    """A request with the bytes beyond ASCII of its address encoded."""

    def parse_request_line(self, line_bytes: bytes) -> None:
        method, *rest = line_bytes.split(b" ", 2)
        super().parse_request_line(b" ".join([method, *(encode_address(part) for part in rest[:1]), *rest[1:]]))

    def parse_headers(self, data: bytes, from_trailer: bool = False) -> list[tuple[str, str]]:
        """Parses fields. gunicorn, which does it line by line, parses what is unusual."""
        if from_trailer or len(data) > self.limit_request_field_size or not _USUAL_FIELDS.fullmatch(data):
            return list(super().parse_headers(data, from_trailer))
        has_scheme, seen, trusted = [False], set[str](), self._peer_trusted_for_forwarded()
        found = []
        for line in data.decode("latin-1").split("\r\n"):
            name, _, value = line.partition(":")
            found.append((name.upper(), value.strip(" \t")))
            self._apply_header_policy(*found[-1], has_scheme, seen, *trusted)
        return found


class EncodedRequestParser(RequestParser):  # type: ignore[misc]  # an untyped library
    mesg_class = EncodedRequest


class _Collector:
    """A socket's place while an answer begins."""

    def __init__(self) -> None:
        self.sent = b""

    def sendall(self, data: bytes) -> None:
        self.sent += data


class JoinedResponse(wsgi.Response):  # type: ignore[misc]  # an untyped library
    """Sends the head of an answer together with the beginning of its body: the front is woken once."""

    sock: Any

    def write(self, arg: bytes) -> None:
        if self.headers_sent:
            super().write(arg)
            return
        connection, collector = self.sock, _Collector()
        self.sock = collector
        try:
            super().write(arg)
        finally:
            self.sock = connection
        connection.sendall(collector.sent)


DRAIN_CHUNK_BYTES = 1 << 18


def drain_bodies(application: WSGIApplication) -> WSGIApplication:
    """Wraps an application (PEP 3333) so that it reads every body to its end. nginx has refused too large ones."""

    def answered(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        answer = application(environ, start_response)
        while environ["wsgi.input"].read(DRAIN_CHUNK_BYTES):
            pass
        return answer

    return answered


def encode_queries(application: WSGIApplication) -> WSGIApplication:
    """Wraps an application so that its queries are ASCII under any server, as the development server."""

    def answered(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ["QUERY_STRING"] = encode_address(environ.get("QUERY_STRING", "").encode("latin-1")).decode("ascii")
        return application(environ, start_response)

    return answered
