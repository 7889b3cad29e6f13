"""Errands: what a wish of the frontier is about. A task of the deferral protocol whose work is one fetch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from retry.contents import Prepared
from retry.work import Argument

from .outcomes import Failed, Fetched, NotModified
from .requests import Fetch


class Task(Protocol):
    """How work of one name is fetched, and what its contents are. FETCH_TASKS names it.

    Both methods run in a thread: they may read stores and the database, and compute. Neither talks to the outside.
    Both may raise retry.errors.PreparationError. The first of the arguments is the URL.
    """

    obeys_robots: bool
    """Whether the origin's robots.txt has a say in the time between requests: not for what an admin has configured."""

    def fetch(self, *arguments: Argument) -> Fetch:
        """What to ask for. Validators are sent only where nobody else wants the same URL meanwhile."""
        ...

    def prepare(self, outcome: Fetched | NotModified | Failed, *arguments: Argument) -> Mapping[str, Prepared]:
        """The contents by their keys. A failure comes here when it will not be tried again: it may be content too.

        The outcome's body is removed afterwards, if it is in a file.
        """
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
