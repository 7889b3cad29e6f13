"""Answers that requests in line share: the redirect of one of them is right for all that came before its look.

Thousands of clients that ask for one content in the same moment wait for main's threads. A thread's look at the work,
which is running, came after their requests did, so it is as good as a look for each of them. nginx says since when a
request waits, by the clock of this machine.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from retry.decision import LOOKED_AT

NO_DIFFERENCE = frozenset(
    {"HTTP_X_FRONT_SINCE", "HTTP_X_REAL_IP", "HTTP_X_FORWARDED_FOR", "HTTP_USER_AGENT", "HTTP_REFERER"}
    | {"HTTP_ACCEPT_LANGUAGE", "HTTP_ACCEPT_ENCODING"}
)
"""Fields of a request that make no difference to a redirect. The work runs: whose turn it is does not matter."""

FRONT_CLOCK_SECONDS = 0.05
"""nginx reads the clock once for all that it does between two waits: a request may have come so much later."""

KEPT_SECONDS, MOST_KEPT = 3.0, 200
"""Later no request is in line that came before the look."""

SINCE = re.compile(rb"\r\nX-Front-Since: ([0-9]{1,12}\.[0-9]{3})\r\n")

RequestKey = tuple[str, str, frozenset[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class SharedAnswer:
    looked_at: float
    text: bytes


class SharedAnswers:
    """The shared answers of this process."""

    def __init__(self) -> None:
        self._kept: dict[RequestKey, SharedAnswer] = {}
        self._kept_until = 0.0

    def keep(self, environ: Mapping[str, Any], text: bytes) -> None:
        """Keeps the answer to a request."""
        if len(self._kept) >= MOST_KEPT:
            self._kept = {}
        self._kept[_key_of(environ)] = SharedAnswer(environ[LOOKED_AT], text)
        self._kept_until = time.monotonic() + KEPT_SECONDS

    def forget(self, environ: Mapping[str, Any]) -> None:
        """Forgets the answer to a request that has another one by now."""
        if self._kept:
            self._kept.pop(_key_of(environ), None)

    def is_empty(self) -> bool:
        if self._kept and time.monotonic() > self._kept_until:
            self._kept = {}
        return not self._kept

    def find(self, begin: bytes) -> bytes | None:
        """Returns the answer to a request that begins so, if its look came after the request."""
        if (since := SINCE.search(begin)) is None or (key := _parse_key(begin)) is None:
            return None
        found = self._kept.get(key)
        is_later = found is not None and found.looked_at > float(since[1]) + FRONT_CLOCK_SECONDS
        return found.text if found and is_later else None


ANSWERS = SharedAnswers()


def share_answers(application: WSGIApplication) -> WSGIApplication:
    """Wraps an application so that its answers with LOOKED_AT are kept for others. These have no body."""

    def answered(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        begun: list[tuple[str, list[tuple[str, str]]]] = []

        def start(status: str, fields: list[tuple[str, str]], *rest: Any) -> Callable[[bytes], object]:
            begun.append((status, fields))
            return start_response(status, fields, *rest)

        answer = application(environ, start)
        if LOOKED_AT in environ:
            ANSWERS.keep(environ, _write_head(*begun[-1]))
        else:
            ANSWERS.forget(environ)
        return answer

    return answered


def _write_head(status: str, fields: Iterable[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Connection: close", *(f"{name}: {value}" for name, value in fields)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _key_of(environ: Mapping[str, Any]) -> RequestKey:
    fields = {(name, value) for name, value in environ.items() if name[:5] == "HTTP_" and name not in NO_DIFFERENCE}
    return environ["REQUEST_METHOD"], environ.get("RAW_URI", ""), frozenset(fields)


def _parse_key(begin: bytes) -> RequestKey | None:
    """The key of a request that begins so; None if not all of its head is there, or a field is in it twice."""
    head, end, _ = begin.partition(b"\r\n\r\n")
    line, *lines = head.decode("latin-1").split("\r\n")
    match line.split(" "):
        case ["GET" | "HEAD" as method, address, _] if end:
            parts = [one.partition(":") for one in lines]
            fields = {f"HTTP_{name.upper().replace('-', '_')}": value.strip(" \t") for name, _, value in parts}
            if len(fields) < len(lines):
                return None
            return method, address, frozenset((name, fields[name]) for name in fields.keys() - NO_DIFFERENCE)
        case _:
            return None
