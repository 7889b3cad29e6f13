"""The claims of the deferral protocol that a fetcher holds: begun, renewed, ended, or put back to wait."""

import asyncio
import logging
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.conf import settings

from retry import claims, contents, observing, standings
from retry.claims import Ending
from retry.conf import conf
from retry.connections import Steps
from retry.contents import Prepared
from retry.errors import PreparationError, StoreUnavailable
from retry.scripts import Reply

from ..errands import Errand
from .trips import Trips, asking

_log = logging.getLogger("tarry.fetching")


@dataclass(frozen=True, slots=True)
class Closing:
    """How an errand's claim is to end, and how many seconds all of it took."""

    errand: Errand
    ending: Ending
    seconds: float


class Works:
    """The claims of one fetcher. Leases are renewed by `renew_forever`, for as long as the work is held here."""

    def __init__(self, trips: Trips) -> None:
        self._trips = trips
        self._held: dict[str, tuple[Errand, float]] = {}
        """By work key, what is held, and until when (monotonic) it is renewed."""

    async def start(self, errand: Errand, job_token: int, reply: Reply = None) -> bool:
        """Queued becomes running, with that job. False: somebody else has it, it is gone, or nobody wants it any more.

        `reply` is what became of that where it was asked to start with its job. Raises StoreUnavailable.
        """
        if reply is None:
            starting = claims.starting(errand.work_key, errand.token, str(job_token))
            reply = await self._trips.insist(lambda: asking(starting))
        if reply == claims.SKIPPED:
            observing.skipped(errand.task)
        if reply != claims.STARTED:
            return False
        self._held[errand.work_key] = (errand, time.monotonic() + _longest_seconds())
        return True

    async def are_claimed(self, errands: Iterable[Errand]) -> bool:
        """Whether anybody has a claim to one of them. Raises StoreUnavailable."""
        looks = [self._trips.run(asking(claims.looking(errand.work_key))) for errand in errands]
        return any(isinstance(standings.standing(reply), standings.Claimed) for reply in await asyncio.gather(*looks))

    async def store(self, errand: Errand, prepared: Mapping[str, Prepared], seconds: float) -> None:
        """Stores the contents behind their fences, then ends the claim. `seconds` is what all of it took."""
        await self.finish(await self.keep(errand, prepared, seconds))

    async def fail(self, errand: Errand, error: PreparationError, seconds: float) -> None:
        """Leaves a failure record."""
        await self.finish(failing(errand, error, seconds))

    async def keep(self, errand: Errand, prepared: Mapping[str, Prepared], seconds: float) -> Closing:
        """Stores the contents behind their fences. Does not end the claim."""
        try:
            await self._trips.insist(lambda: _storing(errand, prepared, seconds))
        except StoreUnavailable as error:
            _log.warning("refused by a store", extra={"work": errand.work_key, "error": str(error)})
            return failing(errand, PreparationError("The content could not be stored."), seconds)
        except PreparationError as error:
            return failing(errand, error, seconds)
        except Exception:  # noqa: BLE001  what a preparer gave cannot be stored: its fault alone
            _log.exception("cannot be stored", extra={"work": errand.work_key})
            return failing(errand, PreparationError("The preparation failed."), seconds)
        return Closing(errand, claims.stored(errand.work_key, errand.token, seconds), seconds)

    async def finish(self, closing: Closing) -> None:
        """Ends the claim."""
        try:
            ended = await self._trips.insist(lambda: asking(claims.finishing(closing.ending))) == 1
        except StoreUnavailable as refusal:  # the lease lapses, and the sweeper has the work done again
            _log.error("could not finish", extra={"work": closing.errand.work_key, "error": str(refusal)})
            ended = False
        self.has_ended(closing, ended=ended)

    def has_ended(self, closing: Closing, *, ended: bool) -> None:
        """The claim is not in hand any more. Unless it has `ended`, it was somebody else's by then."""
        self.let_go([closing.errand])
        outcome = closing.ending.outcome if ended else "superseded"
        observing.prepared(closing.errand.task, outcome, closing.seconds)

    async def put_back(self, errand: Errand, job_token: int, wait_seconds: float) -> None:
        """Running becomes queued again, if it started with that job: its turn comes in so long."""
        self.let_go([errand])
        await self.requeue(errand.work_key, errand.token, job_token, wait_seconds)

    async def requeue(self, work_key: str, token: int, job_token: int, wait_seconds: float) -> None:
        """The same for work that is not in hand here."""
        requeueing = claims.requeueing(work_key, token, wait_seconds, str(job_token))
        try:
            await self._trips.insist(lambda: asking(requeueing))
        except StoreUnavailable as error:  # the lease lapses: it is published once more, and joins its job
            _log.warning("could not put back", extra={"work": work_key, "error": str(error)})

    @property
    def held(self) -> int:
        """How many there are."""
        return len(self._held)

    def let_go(self, errands: Iterable[Errand]) -> None:
        """Renews their leases no more. A claim that was not ended lapses, and is published again."""
        for errand in errands:
            if self._held.get(errand.work_key, (None, 0))[0] == errand:
                del self._held[errand.work_key]

    async def renew_forever(self) -> None:
        """Does not return; ends by cancellation."""
        while True:
            await asyncio.sleep(conf().RETRY_LEASE_SECONDS / 3)
            now = time.monotonic()
            held = [errand for errand, until in self._held.values() if now < until]
            try:
                await asyncio.gather(*(self._renew(errand) for errand in held))
            except StoreUnavailable:
                continue

    async def _renew(self, errand: Errand) -> None:
        await self._trips.run(asking(claims.renewing(errand.work_key, errand.token)))


def failing(errand: Errand, error: PreparationError, seconds: float) -> Closing:
    """The end that leaves a failure record."""
    return Closing(errand, claims.failed(errand.work_key, errand.token, error, luck=random.random()), seconds)


def _storing(errand: Errand, prepared: Mapping[str, Prepared], seconds: float) -> Steps[None]:
    stored_at = datetime.now(UTC)
    for key, content in prepared.items():
        yield contents.writing(key, content, errand.token, stored_at, seconds)


def _longest_seconds() -> float:
    """No job is in hand for longer: a fetch of the slow lane, and what comes after it."""
    return settings.FETCH_SLOW_DEADLINE_SECONDS + conf().RETRY_MAX_PREPARE_SECONDS
