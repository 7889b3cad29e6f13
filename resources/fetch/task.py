"""The fetch task: the protocol of a task whose work is one fetch, and a call of it."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol, Self, cast, runtime_checkable

from retry.contents import Prepared
from retry.errors import PreparationError
from retry.records import frozen_record
from retry.work import Argument

from .http.messages import BodyDropped, Fetched, FetchFailed, FetchRequest, Head, NotModified

PreparedContents = Mapping[str, Prepared] | Future[Mapping[str, Prepared]]


class FetchTask(Protocol):
    """A task that names the fetch of its work, and prepares its contents. FETCH_TASKS names it.

    Both methods run in a thread: they may read stores and the database, and compute, but not use the network.
    The methods of a task with `at_once = True` run in the event loop where they can: see `is_at_once`.
    A task with `settles_waits = True` receives more failures: see `settles_waits`. Both methods of one with
    `is_fenced = True` receive the claim's token: see `fence_of`.
    Both methods may raise retry.errors.PreparationError. The first of the arguments is the URL, without a fragment.

    Works of one task with one URL share a job, so one request, that of the first; works of two tasks never do.
    A task with `identify` shares less: see `identify_job`. One with `sends_secrets = True` sends more: see
    `sends_secrets`.
    """

    obeys_robots: bool
    """True if the origin's robots.txt has a say in the gap between requests; False for URLs of an admin's settings."""

    def fetch(self, *arguments: Argument) -> FetchRequest | Mapping[str, Prepared]:
        """Returns the request. Its validators are sent only if no other work waits for the same job.

        Or returns the contents, if they exist by now: then no request is sent for this work.
        """

    def prepare(self, outcome: Fetched | NotModified | FetchFailed, *arguments: Argument) -> PreparedContents:
        """Returns the contents by their keys. Receives a failure once it is final: a failure may be content too.

        A future of them frees the thread while the task waits for something else.
        A file of the outcome's body is removed afterwards.
        """


def is_at_once(task: FetchTask) -> bool:
    """Tells whether the task declares that its methods neither wait nor compute much.

    They run in the event loop then, unless the body is in a file. All other fetches wait for them.
    """
    return getattr(task, "at_once", False) is True


class OutcomeHandover(Protocol):
    """A task that hands some outcomes over to a thread of its own, which takes many at once: see `find_handover`."""

    def hand_over(
        self, outcome: Fetched | NotModified | FetchFailed, *arguments: Argument, **fence: int
    ) -> "Future[Mapping[str, Prepared]] | None":
        """Returns a future of the contents, at once: it runs in the event loop. None: `prepare` takes the outcome."""


def find_handover(task: FetchTask) -> OutcomeHandover | None:
    """Returns the task if it has `hand_over`, which is asked before `prepare`."""
    return cast(OutcomeHandover, task) if hasattr(task, "hand_over") else None


CallPlan = FetchRequest | Mapping[str, Prepared] | PreparationError


class BulkFetchTask(Protocol):
    """A task that plans many fetches with fewer queries than by `fetch` for each: see `find_bulk_task`."""

    def fetch_many(self, calls: Sequence[tuple[tuple[Argument, ...], int]]) -> Sequence[CallPlan]:
        """Returns what `fetch` returns, or raises, for calls given by their arguments and their claims' tokens."""


def find_bulk_task(task: FetchTask) -> BulkFetchTask | None:
    """Returns the task if it has `fetch_many`, which then runs in the place of `fetch`."""
    return cast(BulkFetchTask, task) if hasattr(task, "fetch_many") else None


def settles_waits(task: FetchTask) -> bool:
    """Tells whether the task declares that it stores by itself when a URL is due again.

    Its `prepare` then also receives failures that are tried again later than clients wait; and a fetch that was
    too slow is not tried again.
    """
    return getattr(task, "settles_waits", False) is True


def identify_job(task: FetchTask, arguments: Sequence[Argument]) -> str:
    """Returns the part of a job's key that tells works of the task and one URL apart; empty if they share a request.

    A task has a method `identify(*arguments)` if its requests for one URL differ, or if the answer to one is not for
    the others: by a secret, a body, a reader.
    """
    identify = getattr(task, "identify", None)
    return "" if identify is None else str(identify(*arguments))


def sends_secrets(task: FetchTask) -> bool:
    """Tells whether the task declares that an admin chooses its URLs: then the secrets of hosts go with its requests.

    If users or other servers choose them, they could have the secrets act for them, or read the answers.
    """
    return getattr(task, "sends_secrets", False) is True


def fence_of(task: FetchTask, call: "TaskCall") -> dict[str, int]:
    """Returns the keyword `token` for the methods of a task that fences its rows, else nothing.

    A process that was frozen may write long after a later claim: such a task writes no row with a higher token.
    """
    return {"token": call.token} if getattr(task, "is_fenced", False) is True else {}


@runtime_checkable
class SparingFetchTask(FetchTask, Protocol):
    """A task that can do without some bodies, or without some requests that redirects lead to.

    It is called if no other work waits for the same job, in a thread unless stated otherwise, and may raise anything:
    then nothing is spared.
    """

    def prepare(
        self, outcome: Fetched | NotModified | BodyDropped | FetchFailed, *arguments: Argument
    ) -> PreparedContents:
        """Returns the contents, as for any task, also for a dropped body."""

    def may_know(self, head: Head) -> bool:
        """Tells whether `is_known` is worth a call. Runs in the event loop: reads nothing."""

    def is_known(self, head: Head, *arguments: Argument) -> bool:
        """True if the body behind this head is not needed. Then `prepare` receives `BodyDropped`."""

    def stops_before(self, url: str, *arguments: Argument) -> bool:
        """True if the request that a redirect leads to is not needed, or not allowed.

        Then `prepare` receives `BodyDropped` with that address as `onward`.
        """

    def refuses_head(self, url: str) -> None:
        """Notes that a GET succeeded where the HEAD before it had failed (`FetchRequest.head_first`)."""


_JSON = json.JSONDecoder()


@frozen_record
class TaskCall:
    """A call of a task, for work that was claimed with this token."""

    task: str
    work_key: str
    token: int
    arguments: tuple[Argument, ...]

    @classmethod
    def parse(cls, payload: str, token: int | None = None) -> Self:
        """Parses a `payload`; `token` replaces its own. Raises ValueError for any other text."""
        held, end = _JSON.raw_decode(payload)  # in half the time of json.loads()
        if end < len(payload):
            raise ValueError(f"more than a task call: {payload[:100]}")
        try:
            token = int(held["token"]) if token is None else token
            return cls(held["task"], held["work"], token, tuple(held["arguments"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a task call: {payload[:100]}") from error

    @property
    def payload(self) -> str:
        """The call as JSON, as a waiter stores it."""
        named = {"task": self.task, "work": self.work_key, "token": self.token, "arguments": self.arguments}
        return json.dumps(named)
