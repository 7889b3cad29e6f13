"""A run of pre-warming: looks at pieces in their order, and has those prepared whose contents are not fresh.

It claims each piece by the protocol, hands it over, and waits until its claim has ended. So no other run and no
client's request prepares the same content at a time. Prepares nothing itself: the workers of the slowest lane do.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Literal, TypeVar

from django.db import connections as databases

from retry import claim_state, claims, contents, lanes, stores
from retry.claim_state import ClaimBegun, ClaimPromoted, ClaimTaken, LaneFull, WorkDone, WorkFailed
from retry.claims import FINISHED_CHANNEL
from retry.conf import conf
from retry.contents import Content
from retry.decision import LookResult, look_up_content
from retry.errors import QueueUnavailable, StoreUnavailable
from retry.scripts import Reply, ScriptCall
from retry.subscription import listen_forever
from retry.work import Work

from ..database import run_then_disconnect, usable_connections
from . import run_records, tile_pieces
from .hot_cache import HotCacheFiller
from .pieces import Piece, PrewarmRule, WantedContent
from .progress import PieceOutcome, RunPace, RunTally

LOOK_AGAIN_SECONDS = 2.0
"""The interval of looking at the claim itself: the message of its end may have been missed."""

RETRY_SECONDS = 1.0
MAX_ATTEMPTS = 30
"""Attempts to reach a Redis server or the broker; either takes a few seconds to start."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class PieceFailure:
    """The reason why a piece was not prepared."""

    why: str


class WorkEndEvents:
    """Wakes the tasks that wait for the end of a piece of work."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def hear(self, message: bytes | None) -> None:
        """Takes the message of a claim's end; None: some messages were missed."""
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


class PieceClaims:
    """The claims of one run."""

    def __init__(self, clients: stores.AsyncClients, ends: WorkEndEvents, rule: PrewarmRule) -> None:
        self._clients, self._ends, self._rule = clients, ends, rule

    async def prepare(self, piece: Piece, seen: WantedContent) -> Literal["prepared", "elsewhere"] | PieceFailure:
        """Has the piece prepared, or waits for the process that does. Raises StoreUnavailable.

        `seen` is the content that it lacked.
        """
        work = piece.work
        ended = self._ends.expect(work.key)
        try:
            for _ in range(MAX_ATTEMPTS):
                ended.clear()
                [found] = await self.patiently(lambda: [self._question(work, seen)])
                match found.state:
                    case ClaimBegun(token, _) if self._is_there(found, seen):
                        await self._execute(claims.abandon_call(work.key, token))
                        return "elsewhere"
                    case ClaimBegun(token, _) | ClaimPromoted(token, _):
                        is_ours = isinstance(found.state, ClaimBegun)
                        if await self._hand_over(work, token, is_ours):
                            return await self._end(work, ended) or ("prepared" if is_ours else "elsewhere")
                    case ClaimTaken():
                        return await self._end(work, ended) or "elsewhere"
                    case WorkDone("stored", _):
                        return "elsewhere"
                    case WorkFailed(status, detail, _):
                        return PieceFailure(f"{status}: {detail}")
                    case LaneFull(wait_seconds):
                        await asyncio.sleep(min(wait_seconds, LOOK_AGAIN_SECONDS))
                await asyncio.sleep(RETRY_SECONDS)
            return PieceFailure("Its lane takes no work.")
        finally:
            self._ends.forget(work.key)

    async def must_yield(self, piece: Piece) -> bool:
        """Tells whether a client waits for other work of the same workers. Raises StoreUnavailable."""
        family = piece.work.lane.partition(".")[0] + "."
        known = conf().RETRY_LANES.items()
        interactive = [name for name, lane in known if lane.get("interactive") and name.startswith(family)]
        try:
            return any((await asyncio.to_thread(claims.count_queued, interactive)).values())
        except StoreUnavailable:
            return False  # the claim that follows is patient

    async def patiently(self, make: Callable[[], Sequence[stores.Steps[Result]]]) -> list[Result]:
        """Returns the steps' results. Makes and runs them again while a server is away. Raises StoreUnavailable."""
        for _ in range(MAX_ATTEMPTS - 1):
            try:
                return await self._found(make())
            except StoreUnavailable:
                await asyncio.sleep(RETRY_SECONDS)
        return await self._found(make())

    async def _found(self, steps: Sequence[stores.Steps[Result]]) -> list[Result]:
        found: list[Result] = []
        for answer in await stores.run_all(self._clients, steps):
            if isinstance(answer, Exception):
                raise answer
            found.append(answer)
        return found

    async def _execute(self, call: ScriptCall) -> Reply:
        """Makes one call, again while `state` is away. Raises StoreUnavailable."""
        [reply] = await self.patiently(lambda: [stores.make_single_step(call)])
        return reply

    def _question(self, work: Work, seen: WantedContent) -> stores.Steps[LookResult]:
        found = yield from look_up_content(claims.begin_call(work, refresh=False), seen.content_key, with_body=False)
        if found.cache_is_away:
            raise StoreUnavailable("cache: away")
        return found

    def _is_there(self, found: LookResult, seen: WantedContent) -> bool:
        return not self._rule.lacks(found.content, seen.version, datetime.now(UTC))

    async def _hand_over(self, work: Work, token: int, is_ours: bool) -> bool:
        try:
            await asyncio.to_thread(lanes.publish_work, work.task, work.key, token, work.arguments, work.lane)
        except QueueUnavailable:
            if is_ours:
                await self._execute(claims.abandon_call(work.key, token))
            return False
        return True

    async def _end(self, work: Work, ended: asyncio.Event) -> PieceFailure | None:
        """Waits until the claim has ended. Returns the failure, if it failed. Another worker replaces one that dies."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_SECONDS):
                    await ended.wait()
            ended.clear()
            reply = await self._execute(claims.look_call(work.key))
            match claim_state.read_claim_state(reply):
                case ClaimTaken():
                    continue
                case WorkFailed(status, detail, _):
                    return PieceFailure(f"{status}: {detail}")
                case WorkDone("skipped", _):
                    return PieceFailure("It was skipped.")
                case _:
                    return None


YIELD_SECONDS = 0.05
"""The pause of a run while clients wait, until it looks again."""

PIECES_PER_BATCH = 16
"""The number of pieces looked at together, so that fresh ones are skipped quickly."""

PieceSettled = Callable[[int], None]
"""Called for each settled piece, with the number of tiles prepared for it."""


class PrewarmRun:
    """One pass over some pieces. Made and used in one event loop."""

    def __init__(
        self, clients: stores.AsyncClients, hot: HotCacheFiller, rule: PrewarmRule, pace: RunPace, settled: PieceSettled
    ) -> None:
        self.tally = RunTally()
        self._clients, self._hot, self._rule, self._pace, self._settled = clients, hot, rule, pace, settled
        self._places = asyncio.Semaphore(pace.concurrency)
        self._ends = WorkEndEvents()
        self._claiming = PieceClaims(clients, self._ends, rule)
        self._stopped = asyncio.Event()
        self._next_at = 0.0

    def stop(self) -> None:
        """Begins no more pieces. Waits for those already begun."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    async def run(self, pieces: Iterator[Piece]) -> None:
        """Settles the pieces until there are none, the time is up, or the run is stopped. The tally has the result.

        Raises the errors of finding the pieces, as DatabaseError.
        """
        began, loop = time.monotonic(), asyncio.get_running_loop()
        if self._pace.duration_seconds is not None:
            loop.call_later(self._pace.duration_seconds, self.stop)
        self._next_at = began
        listening = asyncio.create_task(listen_forever(FINISHED_CHANNEL, self._ends.hear))
        try:
            with _finding_thread() as finding:
                async with asyncio.TaskGroup() as group:
                    while not self.is_stopped:
                        batch = await loop.run_in_executor(finding, _next_pieces, pieces)
                        if not batch:
                            break
                        await self._begin(batch, group)
            await self._hot.settle(self._stopped)
        except ExceptionGroup as failed:
            self._break(failed)
        finally:
            self.tally.hot = self._hot.filled
            listening.cancel()
            await asyncio.wait({listening})

    def _break(self, failed: ExceptionGroup[Exception]) -> None:
        """Notes that a server stayed away. Raises any other first error."""
        error: Exception = failed
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if not isinstance(error, StoreUnavailable):
            raise error
        self.tally.broken = str(error)

    async def _begin(self, batch: list[Piece], group: asyncio.TaskGroup) -> None:
        now = datetime.now(UTC)
        found = iter(await self._contents([wanted.content_key for piece in batch for wanted in piece.wanted]))
        for piece in batch:
            lacking = self._rule.lacking(piece, list(islice(found, len(piece.wanted))), now)
            if not lacking:
                self._settle("fresh")
                continue
            if not await self._wait_for_turn(piece, len(lacking)):
                return
            group.create_task(self._prepare(piece, lacking[0]))

    async def _contents(self, keys: list[str]) -> list[Content | None]:
        """Returns the cached contents. Raises StoreUnavailable."""
        return await self._claiming.patiently(lambda: [contents.read_content(key, with_body=False) for key in keys])

    async def _wait_for_turn(self, piece: Piece, tiles: int) -> bool:
        """Waits for a place, for the rate, and for waiting clients. True if the run was not stopped meanwhile."""
        await self._places.acquire()
        if self._pace.tiles_per_second is not None:
            now = time.monotonic()
            self._next_at = max(now, self._next_at) + tiles / self._pace.tiles_per_second
            await self._sleep(self._next_at - tiles / self._pace.tiles_per_second - now)
        began = time.monotonic()
        while not self.is_stopped and await self._claiming.must_yield(piece):
            await self._sleep(YIELD_SECONDS)
            self.tally.yielded_seconds += time.monotonic() - began
            began = time.monotonic()
        if self.is_stopped:
            self._places.release()
        return not self.is_stopped

    async def _sleep(self, seconds: float) -> None:
        """Sleeps for so long, or until the run is stopped."""
        if seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stopped.wait()

    async def _prepare(self, piece: Piece, seen: WantedContent) -> None:
        try:
            outcome = await self._claiming.prepare(piece, seen)
            if isinstance(outcome, PieceFailure):
                await self._fail(piece, outcome)
                return
            if outcome == "prepared":
                await self._note(piece, seen)
            self._hot.want(wanted.address for wanted in piece.wanted)
            self._settle(outcome, len(piece.wanted) if outcome == "prepared" else 0)
        finally:
            self._places.release()

    async def _note(self, piece: Piece, seen: WantedContent) -> None:
        """Counts the work of the piece, and notes its contents. An outage leaves it uncounted."""
        keys = [seen.content_key, *(wanted.content_key for wanted in piece.wanted if wanted != seen)]
        with suppress(StoreUnavailable):
            work = await asyncio.to_thread(run_records.note_prepared, [keys])
            self.tally.work_seconds += work.seconds
            self.tally.kinds.update(work.kinds)

    async def _fail(self, piece: Piece, failure: PieceFailure) -> None:
        if await asyncio.to_thread(run_then_disconnect, partial(tile_pieces.piece_exists, piece)):
            self.tally.fail(piece.work.key, failure.why)
        else:  # its layer was disabled or deleted after its turn had come
            self.tally.count("gone")
        self._settled(0)

    def _settle(self, outcome: PieceOutcome, tiles: int = 0) -> None:
        self.tally.count(outcome, tiles)
        self._settled(tiles)


@contextmanager
def _finding_thread() -> Iterator[ThreadPoolExecutor]:
    """Yields an executor of one thread, with its own connection to the database."""
    with ThreadPoolExecutor(1, thread_name_prefix="pieces") as finding:
        try:
            yield finding
        finally:
            finding.submit(databases.close_all)


def _next_pieces(pieces: Iterator[Piece]) -> list[Piece]:
    with usable_connections():  # a run may go on for hours
        return list(islice(pieces, PIECES_PER_BATCH))
