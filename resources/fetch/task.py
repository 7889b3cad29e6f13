"""Errands: what a wish of the frontier is about. A task of the deferral protocol whose work is one fetch."""

import json
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from retry.contents import Prepared
from retry.work import Argument

from .outcomes import Dropped, Failed, Fetched, Head, NotModified
from .requests import Fetch

Contents = Mapping[str, Prepared] | Future[Mapping[str, Prepared]]


class Task(Protocol):
    """How work of one name is fetched, and what its contents are. FETCH_TASKS names it.

    Both methods run in a thread: they may read stores and the database, and compute. Neither talks to the outside.
    Those of a task with `at_once = True` do without one where they can: see `is_at_once`.
    With `settles_waits = True` they are told of more failures: see that.
    Both may raise retry.errors.PreparationError. The first of the arguments is the URL.
    """

    obeys_robots: bool
    """Whether the origin's robots.txt has a say in the time between requests: not for what an admin has configured."""

    def fetch(self, *arguments: Argument) -> Fetch | Mapping[str, Prepared]:
        """What to ask for. Validators are sent only where nobody else wants the same URL meanwhile.

        Or the contents, if they are there by now: then nobody is asked on behalf of this work.
        """
        ...

    def prepare(self, outcome: Fetched | NotModified | Failed, *arguments: Argument) -> Contents:
        """The contents by their keys. A failure comes here when it will not be tried again: it may be content too.

        A future of them leaves the thread to others while something else is waited for.
        The outcome's body is removed afterwards, if it is in a file.
        """
        ...


def is_at_once(task: Task) -> bool:
    """Whether it says that its methods wait for nothing and compute next to nothing.

    They are called in the event loop then, unless a body is in a file. What they take, all other fetches wait for.
    """
    return getattr(task, "at_once", False) is True


def settles_waits(task: Task) -> bool:
    """Whether it says that it keeps itself when something is to be asked for again.

    Then its `prepare` is given a failure also where the job is tried again, but later than clients wait; and what was
    too slow is not tried again.
    """
    return getattr(task, "settles_waits", False) is True


@runtime_checkable
class SparingTask(Task, Protocol):
    """A task that can do without some bodies, or without some requests that redirects lead to.

    It is asked where nobody else wants the same URL, in a thread unless it says otherwise, and may raise anything:
    then nothing is spared.
    """

    def prepare(self, outcome: Fetched | NotModified | Dropped | Failed, *arguments: Argument) -> Contents:
        """As of any task, also of what was dropped."""
        ...

    def may_know(self, head: Head) -> bool:
        """Whether `is_known` is worth asking. Called in the event loop: reads nothing."""
        ...

    def is_known(self, head: Head, *arguments: Argument) -> bool:
        """Whether the body behind this head is not needed. Then `prepare` is given `Dropped`."""
        ...

    def stops_before(self, url: str, *arguments: Argument) -> bool:
        """Whether what a redirect leads to need not, or must not, be asked for.

        Then `prepare` is given `Dropped`, `onward` there.
        """
        ...

    def refuses_head(self, url: str) -> None:
        """Is told that a GET brought what a HEAD before it did not (`Fetch.head_first`)."""
        ...


@dataclass(frozen=True, slots=True)
class Errand:
    """A call of a task, on behalf of a piece of work that was claimed with this token."""

    task: str
    work_key: str
    token: int
    arguments: tuple[Argument, ...]

    @classmethod
    def parse(cls, payload: str) -> Self:
        """Reads what `payload` wrote. Raises ValueError for anything else."""
        try:
            held = json.loads(payload)
            return cls(held["task"], held["work"], int(held["token"]), tuple(held["arguments"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an errand: {payload[:100]}") from error

    @property
    def payload(self) -> str:
        """As a wish keeps it."""
        named = {"task": self.task, "work": self.work_key, "token": self.token, "arguments": self.arguments}
        return json.dumps(named)
