"""Tells those who want a job what came of it: claims begin, tasks prepare contents, and these are stored."""

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

from retry.contents import Prepared
from retry.errors import PreparationError

from .. import conf
from ..errands import Contents, Errand, SparingTask, Task, is_at_once
from ..outcomes import Dropped, Fetched, Outcome
from ..queues.jobs import Wish
from .threads import in_thread
from .works import Closing, Works, failing

Result = TypeVar("Result")

_log = logging.getLogger("tarry.fetching")


async def begin(works: Works, errands: Sequence[Errand], job_token: int, starts: Mapping[str, int]) -> list[Errand]:
    """Those that are still wanted; of some it is known how they started. Raises StoreUnavailable."""
    wanted = await _all([works.start(errand, job_token, starts.get(errand.work_key)) for errand in errands])
    return [errand for errand, is_wanted in zip(errands, wanted, strict=True) if is_wanted]


async def tell(works: Works, errands: Sequence[Errand], outcome: Outcome) -> None:
    """Ends the claims: with contents, or with failure records. What a task raises is a failure of its work alone."""
    await _all([_tell(works, errand, outcome) for errand in errands])


def errands_of(wishes: Iterable[Wish]) -> list[Errand]:
    """What the wishes are about. One that cannot be read is of another version: its claim is swept."""
    found = []
    for wish in wishes:
        try:
            found.append(Errand.parse(wish.payload))
        except ValueError as error:
            _log.error("not an errand", extra={"wish": wish.id, "error": str(error)})
    return found


async def keep(works: Works, errand: Errand, outcome: Outcome) -> Closing:
    """Has the contents prepared and stored. Does not end the claim."""
    began = time.monotonic()
    try:
        prepared = await _prepared(conf.task(errand.task), outcome, errand)
    except PreparationError as error:
        return failing(errand, error, outcome.timing.seconds)
    except Exception:  # noqa: BLE001  the edge of a process: whatever is raised is a failed preparation
        _log.exception("preparation failed", extra={"work": errand.work_key})
        return failing(errand, PreparationError("The preparation failed."), outcome.timing.seconds)
    return await works.keep(errand, prepared, outcome.timing.seconds + time.monotonic() - began)


async def _tell(works: Works, errand: Errand, outcome: Outcome) -> None:
    await works.finish(await keep(works, errand, outcome))


async def _prepared(task: Task, outcome: Outcome, errand: Errand) -> Mapping[str, Prepared]:
    """The contents. Raises what the task raises."""
    found = await _begun(task, outcome, errand)
    return await asyncio.wrap_future(found) if isinstance(found, Future) else found


async def _begun(task: Task, outcome: Outcome, errand: Errand) -> Contents:
    if isinstance(outcome, Dropped):
        assert isinstance(task, SparingTask), "nobody else has dropped it"
        return await in_thread(task.prepare, outcome, *errand.arguments)
    if is_at_once(task) and not (isinstance(outcome, Fetched) and outcome.body.path):
        return task.prepare(outcome, *errand.arguments)
    return await in_thread(task.prepare, outcome, *errand.arguments)


async def _all(parts: Sequence[Coroutine[None, None, Result]]) -> list[Result]:
    """Side by side, but for one alone, as nearly all are: a task for it would cost more than most of them do."""
    return [await parts[0]] if len(parts) == 1 else await asyncio.gather(*parts)
