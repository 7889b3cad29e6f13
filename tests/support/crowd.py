"""Many clients at once. Each follows its redirects and keeps every answer on its way."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Thread
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urljoin, urlsplit

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from . import clock

Result = TypeVar("Result")
Come = Callable[[str], Coroutine[Any, Any, "Visit"]]

MOST_REDIRECTS = 20  # as Chromium
PATIENCE_SECONDS = 60
AGAIN_SECONDS = 0.5
LATE = ('detail="waited too long"', 'detail="state unreachable"')
"""What main says where a stalled machine has kept it for seconds; the second also where `state` is away."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer on a client's way. `seconds` is how long it took to come."""

    path: str
    status: int
    seconds: float
    headers: CIMultiDictProxy[str]

    @property
    def cache_status(self) -> str:
        """All members of it, the origin's first (RFC 9211)."""
        return ", ".join(self.headers.getall("Cache-Status", []))

    @property
    def is_of_main(self) -> bool:
        return self.path != "/retry_after"


@dataclass(slots=True)
class Visit:
    """A client's way from its question to its end. A broken connection ends it with status 0."""

    address: str
    answers: list[Answer] = field(default_factory=list)
    body: bytes = b""
    error: str = ""

    @property
    def status(self) -> int:
        return 0 if self.error or not self.answers else self.answers[-1].status

    @property
    def statuses(self) -> list[int]:
        return [answer.status for answer in self.answers]

    @property
    def seconds(self) -> float:
        return sum(answer.seconds for answer in self.answers)

    @property
    def is_honest_refusal(self) -> bool:
        """503 that says when to come again."""
        return self.status == 503 and int(self.answers[-1].headers.get("Retry-After", 0)) >= 1

    @property
    def was_turned_away(self) -> bool:
        """Refused before it could wait."""
        return self.is_honest_refusal and self.statuses in ([503], [302, 503])

    @property
    def met_a_late_main(self) -> bool:
        """Refused by a main that was late, or could not reach `state`, wherever on the way."""
        return self.is_honest_refusal and any(detail in self.answers[-1].cache_status for detail in LATE)

    @property
    def slowest_of_main(self) -> float:
        return max((answer.seconds for answer in self.answers if answer.is_of_main), default=0)


class Crowd:
    """Clients of one site, in a thread of their own. All have one address, which the machine chooses if it is empty."""

    def __init__(self, base_url: str, own_address: str = "") -> None:
        self._base_url, self._own_address = base_url, own_address
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="crowd", daemon=True)
        self._tasks: set[asyncio.Task[Visit]] = set()
        self.visits: list[Visit] = []
        """All visits, those under way included."""

    def __enter__(self) -> Self:
        self._thread.start()
        self._session = self._run(self._opened()).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._close()).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def send(self, addresses: Sequence[str], *, patient: bool = False, lenient: bool = False) -> "Future[list[Visit]]":
        """One client for each address, all at once. Patient ones come again if they are turned away at first; lenient
        ones once, and only if main was late.
        """
        come = self._patient if patient else self._lenient if lenient else self._come
        return self._run(self._visit_all(addresses, come))

    def insist(self, addresses: Sequence[str], seconds: float = 20) -> list[Visit]:
        """Asks until every client has content. A refused client is told when to come again, and comes."""
        deadline = clock.seconds() + seconds
        while True:
            visits = self.send(addresses).result(PATIENCE_SECONDS)
            assert all(visit.status == 200 or visit.is_honest_refusal for visit in visits)
            if all(visit.status == 200 for visit in visits):
                return visits
            if clock.seconds() > deadline:
                raise AssertionError(f"not every client has content within {seconds:g} s")
            time.sleep(AGAIN_SECONDS)

    def visit(self, address: str, *, method: str = "GET", headers: Mapping[str, str] | None = None) -> Visit:
        """One client, to its end."""
        return self._run(self._follow(address, method, headers or {})).result(PATIENCE_SECONDS)

    def leave(self) -> None:
        """All clients that are on their way vanish."""
        self._run(self._cancel_all()).result(10)

    def _run(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _opened(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, local_addr=(self._own_address, 0) if self._own_address else None),
            timeout=aiohttp.ClientTimeout(total=PATIENCE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},
        )

    async def _close(self) -> None:
        await self._cancel_all()
        await self._session.close()

    async def _cancel_all(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _visit_all(self, addresses: Sequence[str], visit: Come) -> list[Visit]:
        tasks = [asyncio.create_task(visit(address)) for address in addresses]
        self._tasks.update(tasks)
        try:
            return await asyncio.gather(*tasks)
        finally:
            self._tasks.difference_update(tasks)

    async def _come(self, address: str) -> Visit:
        return await self._follow(address, "GET", {})

    async def _lenient(self, address: str) -> Visit:
        visit = await self._come(address)
        if not visit.met_a_late_main:
            return visit
        self.visits.remove(visit)
        await asyncio.sleep(AGAIN_SECONDS)
        return await self._come(address)

    async def _patient(self, address: str) -> Visit:
        deadline = self._loop.time() + PATIENCE_SECONDS
        while (visit := await self._come(address)).was_turned_away and self._loop.time() < deadline:
            self.visits.remove(visit)
            await asyncio.sleep(AGAIN_SECONDS)
        return visit

    async def _follow(self, address: str, method: str, headers: Mapping[str, str]) -> Visit:
        visit = Visit(address)
        self.visits.append(visit)
        url = urljoin(self._base_url, address)
        try:
            while len(visit.answers) <= MOST_REDIRECTS:
                answer = await self._ask(url, method, headers, visit)
                if answer.status not in (301, 302, 303, 307, 308):
                    break
                url = urljoin(url, answer.headers["Location"])
        except (aiohttp.ClientError, TimeoutError) as error:
            visit.error = f"{type(error).__name__}: {error}"
        return visit

    async def _ask(self, url: str, method: str, headers: Mapping[str, str], visit: Visit) -> Answer:
        began = clock.seconds()
        target = URL(url, encoded=True)
        async with self._session.request(method, target, headers=headers, allow_redirects=False) as response:
            visit.body = await response.read()
            took = clock.seconds() - began
            answer = Answer(urlsplit(url).path, response.status, took, response.headers)
        visit.answers.append(answer)
        return answer
