"""Reads what an application leaves of a body, before it answers.

nginx sends all of a body before it reads an answer; a server that answers and closes at once makes it a 502.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

CHUNK_BYTES = 1 << 18


def drained(application: "WSGIApplication") -> "WSGIApplication":
    """The application (PEP 3333), which leaves nothing of any body. What is too large never comes here: nginx."""

    def answered(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        answer = application(environ, start_response)
        while environ["wsgi.input"].read(CHUNK_BYTES):
            pass
        return answer

    return answered
