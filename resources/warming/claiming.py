"""Has one piece prepared by the protocol: claims it, hands it over, and waits until its claim has ended."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from typing import Literal, TypeVar

from redis.exceptions import RedisError

from retry import claims, connections, lanes, standings
from retry.conf import conf
from retry.errors import QueueUnavailable, StoreUnavailable
from retry.looking import Found, look
from retry.scripts import Call, Reply
from retry.standings import Begun, Claimed, Done, Failed, Full, Promoted
from retry.work import Work

from .pieces import Piece, Rule, Wanted

LOOK_AGAIN_SECONDS = 2.0
"""What was told may have been missed: so often the claim itself is looked at."""

AGAIN_SECONDS = 1.0
ATTEMPTS = 30
"""A Redis server, or a broker, that is away is waited for so often; it takes a few seconds to start."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a piece was not prepared."""

    why: str


class Ends:
    """Wakes those who wait for the end of a piece of work."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def hear(self, message: bytes | None) -> None:
        """Takes what claims say when they end; None: some of that was missed."""
        if message is None:
            for event in self._events.values():
                event.set()
            return
        _, _, work_key = message.decode().partition(" ")
        if (waited := self._events.get(work_key)) is not None:
            waited.set()

    def expect(self, work_key: str) -> asyncio.Event:
        return self._events.setdefault(work_key, asyncio.Event())

    def forget(self, work_key: str) -> None:
        self._events.pop(work_key, None)


class Claiming:
    """The claims of one run."""

    def __init__(self, clients: connections.Clients, ends: Ends, rule: Rule) -> None:
        self._clients, self._ends, self._rule = clients, ends, rule

    async def prepare(self, piece: Piece, seen: Wanted) -> Literal["prepared", "elsewhere"] | Failure:
        """Has it prepared, or waits for whoever does; `seen` is what it lacked. Raises StoreUnavailable."""
        work = piece.work
        ended = self._ends.expect(work.key)
        try:
            for _ in range(ATTEMPTS):
                ended.clear()
                [found] = await self.patiently(lambda: [self._question(work, seen)])
                match found.standing:
                    case Begun(token, _) if self._is_there(found, seen):
                        await self._execute(claims.abandoning(work.key, token))
                        return "elsewhere"
                    case Begun(token, _) | Promoted(token, _):
                        is_ours = isinstance(found.standing, Begun)
                        if await self._hand_over(work, token, is_ours):
                            return await self._end(work, ended) or ("prepared" if is_ours else "elsewhere")
                    case Claimed():
                        return await self._end(work, ended) or "elsewhere"
                    case Done("stored", _):
                        return "elsewhere"
                    case Failed(status, detail, _):
                        return Failure(f"{status}: {detail}")
                    case Full(wait_seconds):
                        await asyncio.sleep(min(wait_seconds, LOOK_AGAIN_SECONDS))
                await asyncio.sleep(AGAIN_SECONDS)
            return Failure("Its lane takes no work.")
        finally:
            self._ends.forget(work.key)

    async def must_yield(self, piece: Piece) -> bool:
        """Whether somebody waits for other work of the same workers. Raises StoreUnavailable."""
        family = piece.work.lane.partition(".")[0] + "."
        faster = takewhile(lambda name: name != piece.work.lane, conf().RETRY_LANES)
        first = next((name for name in faster if name.startswith(family)), None)
        if first is None:
            return False
        try:
            return bool(await self._clients["state"].zcard(claims.queued_name(first)))
        except RedisError:
            return False  # the claim that follows is patient

    async def patiently(self, make: Callable[[], Sequence[connections.Steps[Result]]]) -> list[Result]:
        """What the steps find, which are made anew while a server is away. Raises StoreUnavailable."""
        for _ in range(ATTEMPTS - 1):
            try:
                return await self._found(make())
            except StoreUnavailable:
                await asyncio.sleep(AGAIN_SECONDS)
        return await self._found(make())

    async def _found(self, steps: Sequence[connections.Steps[Result]]) -> list[Result]:
        found: list[Result] = []
        for answer in await connections.run_all(self._clients, steps):
            if isinstance(answer, Exception):
                raise answer
            found.append(answer)
        return found

    async def _execute(self, call: Call) -> Reply:
        """One call, tried again while `state` is away. Raises StoreUnavailable."""
        [reply] = await self.patiently(lambda: [_one(call)])
        return reply

    def _question(self, work: Work, seen: Wanted) -> connections.Steps[Found]:
        return look(claims.beginning(work, refresh=False), seen.content_key, with_body=False)

    def _is_there(self, found: Found, seen: Wanted) -> bool:
        return not self._rule.lacks(found.content, seen.version, datetime.now(UTC))

    async def _hand_over(self, work: Work, token: int, is_ours: bool) -> bool:
        try:
            await asyncio.to_thread(lanes.publish, work.task, work.key, token, work.arguments, work.lane)
        except QueueUnavailable:
            if is_ours:
                await self._execute(claims.abandoning(work.key, token))
            return False
        return True

    async def _end(self, work: Work, ended: asyncio.Event) -> Failure | None:
        """Waits until its claim has ended; why it has failed, if it has. Whoever dies over it is replaced meanwhile."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_SECONDS):
                    await ended.wait()
            ended.clear()
            reply = await self._execute(claims.looking(work.key))
            match standings.standing(reply):
                case Claimed():
                    continue
                case Failed(status, detail, _):
                    return Failure(f"{status}: {detail}")
                case Done("skipped", _):
                    return Failure("It was skipped.")
                case _:
                    return None


def _one(call: Call) -> connections.Steps[Reply]:
    reply = yield call
    return reply
