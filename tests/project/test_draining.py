"""All of a body is read, whatever is answered."""

import io
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

from project import draining


def test_what_an_application_leaves_of_a_body_is_read_before_its_answer_is_sent() -> None:
    body = io.BytesIO(b"x" * 3_000_000)

    def refuse(environ: WSGIEnvironment, _: StartResponse) -> Iterable[bytes]:
        environ["wsgi.input"].read(10)
        return [b"no"]

    answer = draining.drained(refuse)({"wsgi.input": body}, lambda *_: lambda _: None)
    assert body.tell() == 3_000_000
    assert list(answer) == [b"no"]
