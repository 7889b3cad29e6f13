"""What a task that spares bodies is asked during a fetch. Where it cannot say, nothing is spared."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import cast

from .. import conf
from ..errands import Errand, SparingTask, Task
from ..outcomes import Head
from .threads import in_thread

_log = logging.getLogger("tarry.fetching")


@dataclass(frozen=True, slots=True)
class Spares:
    """A task's say in one fetch, which is for this errand alone."""

    task: SparingTask
    errand: Errand

    async def decide(self, head: Head) -> bool:
        """Whether to drop the body."""
        if not self.task.may_know(head):
            return False
        try:
            return await in_thread(self.task.is_known, head, *self.errand.arguments)
        except Exception:  # noqa: BLE001  the edge of a process: the fetch goes on as if nobody had asked
            _log.exception("nobody knows whether to spare a body", extra={"work": self.errand.work_key})
            return False

    async def onward(self, url: str) -> bool:
        """Whether not to send the request that a redirect leads to."""
        try:
            return await in_thread(self.task.stops_before, url, *self.errand.arguments)
        except Exception:  # noqa: BLE001  as above
            _log.exception("nobody knows whether to spare a request", extra={"work": self.errand.work_key})
            return False

    async def refuses_head(self, url: str) -> None:
        """A GET brought what a HEAD did not."""
        try:
            await in_thread(self.task.refuses_head, url)
        except Exception:  # noqa: BLE001  as above: then it is asked once more
            _log.exception("not remembered", extra={"work": self.errand.work_key})


def of(errands: Sequence[Errand]) -> Spares | None:
    """The say of who alone wants it: what one can do without may be new to another."""
    if len(errands) != 1:
        return None
    task = conf.task(errands[0].task)
    return Spares(cast(SparingTask, task), errands[0]) if _is_sparing(type(task)) else None


@cache
def _is_sparing(kind: type[Task]) -> bool:
    """What isinstance() finds out anew each time, name by name."""
    own = vars(SparingTask).keys() - vars(Task).keys()
    return all(hasattr(kind, name) for name in own if not name.startswith("_"))
