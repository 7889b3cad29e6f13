"""The steady client: asks a mix of questions at an even pace and records how each ends, while the site suffers.

It knows nothing of the faults, and judges each answer by its bytes alone. Every request has a connection of its own.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Thread
from types import TracebackType
from typing import Self
from urllib.parse import urljoin

import aiohttp
from yarl import URL

from ..support.crowd import MOST_REDIRECTS

PATIENCE_SECONDS = 60
LEAVING_SECONDS = 30
"""Visits that run longer than this after the last question are recorded as hung."""
HONEST = frozenset({502, 503, 504})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError)
"""Errors that a malformed body causes in its reader."""


class End(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"  # 2xx with other bytes than there are
    REFUSED = "refused"  # 502, 503 or 504 that says when to come again
    BROKEN = "broken"  # the connection ended before the answer
    HUNG = "hung"  # no answer within PATIENCE_SECONDS, or by the end of the run
    DISHONEST = "dishonest"  # any other answer


@dataclass(frozen=True, slots=True)
class Question:
    """One request. `hears` tells whether a body is right, and notes the site's promises in it.

    It may raise the errors in UNREADABLE for an unreadable body.
    """

    address: str
    hears: Callable[[bytes], bool]
    method: str = "GET"
    data: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kind:
    """Questions of one kind at a rate. `question` makes the n-th one."""

    name: str
    per_second: float
    question: Callable[[int], Question]


@dataclass(frozen=True, slots=True)
class Leg:
    """One request of a visit: its path, its start and its duration."""

    path: str
    began: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Record:
    """One visit with all its redirects. Times are in seconds of the monotonic clock."""

    kind: str
    address: str
    began: float
    ended: float
    statuses: tuple[int, ...]
    end: End
    detail: str = ""
    legs: tuple[Leg, ...] = ()

    @property
    def is_bad(self) -> bool:
        return self.end is not End.RIGHT


class Steady:
    """Asks questions of all kinds, in a thread of its own, until `leave`."""

    def __init__(self, base_url: str, kinds: Sequence[Kind]) -> None:
        self._base_url = base_url
        self._kinds = kinds
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._work, name="steady", daemon=True)
        self._stopping = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None
        self.factor = 1.0
        """The multiple of the usual rate."""
        self.records: list[Record] = []
        """In the order of their ends."""
        self.begun = 0
        """Visits so far, running ones included."""
        self.died = ""
        """The error that ended the client, empty while there is none."""
        self._under_way: list[float] = []

    @property
    def kinds(self) -> list[str]:
        return [kind.name for kind in self._kinds]

    @property
    def per_second(self) -> float:
        """The usual number of visits a second."""
        return sum(kind.per_second for kind in self._kinds)

    @property
    def waits_since(self) -> float:
        """The time when the oldest running visit began; infinity when all have ended."""
        return min([*self._under_way], default=math.inf)

    def __enter__(self) -> Self:
        self._asking = self._loop.create_task(self._ask_all())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self, seconds: float = LEAVING_SECONDS) -> None:
        """Stops asking, waits so long for running visits to end, then cancels them."""
        assert self._asking
        for end in (self._stopping.set, self._asking.cancel):
            with suppress(RuntimeError):  # its loop is closed: it has ended
                self._loop.call_soon_threadsafe(end)
            self._thread.join(seconds)

    def _work(self) -> None:
        assert self._asking
        try:
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._asking)
        except Exception as error:  # noqa: BLE001  the judge has to hear of any error
            self.died = repr(error)
        finally:
            self._loop.close()

    async def _ask_all(self) -> None:
        async with self._session() as session, asyncio.TaskGroup() as visits:
            for kind in self._kinds:
                visits.create_task(self._ask_steadily(kind, session, visits))

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=PATIENCE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},
        )

    async def _ask_steadily(self, kind: Kind, session: aiohttp.ClientSession, visits: asyncio.TaskGroup) -> None:
        due, number = self._loop.time(), 0
        while not self._stopping.is_set():
            visits.create_task(self._visit(kind.name, kind.question(number), session))
            number += 1
            due = max(due + 1 / (kind.per_second * self.factor), self._loop.time() - 1)
            await asyncio.sleep(due - self._loop.time())

    async def _visit(self, kind: str, question: Question, session: aiohttp.ClientSession) -> None:
        began = time.monotonic()
        self.begun += 1
        self._under_way.append(began)
        way = _Way(asked=began)
        end, detail = End.HUNG, "cut short"
        try:
            end, detail = await self._end(question, session, way)
        finally:
            ended = time.monotonic()
            way.leave()
            statuses, legs = tuple(way.statuses), tuple(way.legs)
            self.records.append(Record(kind, question.address, began, ended, statuses, end, detail, legs))
            self._under_way.remove(began)

    async def _end(self, question: Question, session: aiohttp.ClientSession, way: "_Way") -> tuple[End, str]:
        try:
            return await self._follow(question, session, way), way.said
        except TimeoutError:
            return End.HUNG, "no answer in time"
        except (aiohttp.ClientError, OSError) as error:
            return End.BROKEN, f"{type(error).__name__}: {error}"

    async def _follow(self, question: Question, session: aiohttp.ClientSession, way: "_Way") -> End:
        url = URL(urljoin(self._base_url, question.address), encoded=True)
        while len(way.statuses) <= MOST_REDIRECTS:
            way.begin(url.path)
            asking = session.request(
                question.method, url, data=question.data, headers=question.headers, allow_redirects=False
            )
            async with asking as response:
                body = await response.read()
                way.end(response.status)
            if response.status not in REDIRECTS:
                end = judged(response.status, response.headers.get("Retry-After", ""), body, question)
                way.said = "" if end is End.RIGHT else f"{response.status} {body[:200]!r}"
                return end
            location = response.headers.get("Location", "")
            if (target := target_of(location, url)) is None:
                way.said = f"{response.status} to {location[:200]!r}"
                return End.DISHONEST
            url = target
        way.said = "redirected without end"
        return End.DISHONEST


@dataclass(slots=True)
class _Way:
    statuses: list[int] = field(default_factory=list)
    asked: float = 0.0
    said: str = ""
    path: str = ""
    legs: list[Leg] = field(default_factory=list)

    def begin(self, path: str) -> None:
        self.asked, self.path = time.monotonic(), path

    def leave(self) -> None:
        """Counts it, answered or not."""
        if self.path:
            self.legs.append(Leg(self.path, self.asked, time.monotonic() - self.asked))
        self.path = ""

    def end(self, status: int) -> None:
        self.leave()
        self.statuses.append(status)


def target_of(location: str, url: URL) -> URL | None:
    """The target of a redirect; None when it leads nowhere."""
    try:
        target = URL(urljoin(str(url), location), encoded=True)
    except ValueError:
        return None
    return target if location and target.host and target.scheme in ("http", "https") else None


def judged(status: int, retry_after: str, body: bytes, question: Question) -> End:
    if status in (200, 202):
        return End.RIGHT if _is_right(body, question) else End.WRONG
    if status in HONEST and retry_after.isascii() and retry_after.isdigit() and int(retry_after) >= 1:
        return End.REFUSED
    return End.DISHONEST


def _is_right(body: bytes, question: Question) -> bool:
    try:
        return question.hears(body)
    except UNREADABLE:
        return False
