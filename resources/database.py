"""Database access outside the ORM's defaults: connections of threads, ordered locking, 503 during an outage.

Django looks after the connections of requests only. Rows are locked in the order of their keys, as all other
writers lock them: writers of the same rows wait for each other, and never in a circle, as with rows locked in the
order of discovery. Each call is one statement in a transaction of its own. SQLite has one writer at a time and
needs no locks.

Calls of the storage, the other place of what must not be lost, are timed and have errors of one kind.

Both are needs of workers (RETRY_WORKER_NEEDS). A need is asked with the error of failed work, and tells whether this
process has lost what that work needed; or without one, and tells whether it still lacks that. It is given up after
REACH_SECONDS: the work's lease is not renewed meanwhile.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import wraps
from itertools import islice
from threading import Event, RLock, Thread
from typing import Any, Concatenate, ParamSpec, TypeVar

from django.core.files.storage import FileSystemStorage, default_storage
from django.db import Error as DatabaseError
from django.db import (
    InterfaceError,
    OperationalError,
    close_old_connections,
    connection,
    connections,
    models,
    transaction,
)
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from retry import metrics, responses

MAX_CLOCK_LEAD = timedelta(minutes=1)
"""The greatest lead of a recorded moment over now. A greater one means that the clock was set back since."""

Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")


@contextmanager
def usable_connections() -> Iterator[None]:
    """Replaces broken and old connections, before and after a thread's queries.

    Closes nothing inside a transaction.
    """
    if connection.in_atomic_block:
        yield
        return
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


async def run_in_thread(
    call: Callable[Arguments, Answer], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Answer:
    """Awaits the call in a thread, whose connections are usable. Raises its errors."""

    def run() -> Answer:
        with usable_connections():
            return call(*arguments, **named)

    return await asyncio.to_thread(run)


def run_then_disconnect(ask: Callable[[], Answer]) -> Answer:
    """Runs the only queries of a thread, then closes its connections."""
    try:
        return ask()
    finally:
        connections.close_all()


Response = TypeVar("Response", bound=HttpResponseBase)
View = Callable[Concatenate[HttpRequest, Arguments], Response]


def answer_outages(view: View[Arguments, Response]) -> View[Arguments, Response | HttpResponse]:
    """Decorates a view: answers 503 for a DatabaseError. Does not try again."""

    @wraps(view)
    def answered(request: HttpRequest, /, *given: Arguments.args, **named: Arguments.kwargs) -> Response | HttpResponse:
        try:
            return view(request, *given, **named)
        except DatabaseError:
            return responses.problem_response(503, "The database cannot be read now.", wait_seconds=1)

    return answered


_SQLITE_LOCK = RLock()


@contextmanager
def write_turn() -> Iterator[None]:
    """Lets one thread write at a time on SQLite, which has no queue: among many that retry, some would never write."""
    if connection.vendor != "sqlite":
        yield
        return
    with _SQLITE_LOCK:
        yield


ROWS_PER_STATEMENT = 500
"""Rows in one statement: one content may have a million URLs."""

ModelRow = TypeVar("ModelRow", bound=models.Model)
Item = TypeVar("Item")


def insert_rows(
    model: type[models.Model], names: Sequence[str], rows: Iterable[Sequence[Any]], on_conflict: str = ""
) -> None:
    """Inserts rows of the values of these fields, in portions, with that end of the statement. Raises DatabaseError.

    Django's own way of making each row takes three times as long.
    """
    table, columns = _quote(model._meta.db_table), ", ".join(_quote(name) for name in names)
    places = f"({', '.join(['%s'] * len(names))})"
    for some in split_portions(rows):
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {table} ({columns}) VALUES {', '.join([places] * len(some))} {on_conflict}",  # noqa: S608  own names
                plain_values(value for row in some for value in row),
            )


_PLAIN_TYPES = frozenset({str, int, float, bool, bytes, type(None)})


def plain_values(values: Iterable[Any]) -> list[Any]:
    """Returns the values as the database's driver takes them."""
    moments = dict[datetime, Any]()  # rows of one statement share most of theirs
    adapt_moment = connection.ops.adapt_datetimefield_value
    is_text_of_utc = connection.vendor == "sqlite" and connection.timezone == UTC

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            if value not in moments:  # Django's own way to the text takes three times as long
                is_plain = is_text_of_utc and value.tzinfo is UTC
                moments[value] = str(value.replace(tzinfo=None)) if is_plain else adapt_moment(value)
            return moments[value]
        return value.value if isinstance(value, Enum) else value

    return [value if type(value) in _PLAIN_TYPES else plain(value) for value in values]


def _quote(name: str) -> str:
    return str(connection.ops.quote_name(name))


def update_in_order(some: models.QuerySet[ModelRow], **values: Any) -> int:
    """Sets these values in all of the rows; returns their number. Raises DatabaseError."""
    with transaction.atomic():
        return _lock_in_order(some).update(**values)


def delete_in_order(some: models.QuerySet[ModelRow]) -> int:
    """Deletes all of the rows, with those that belong to them; returns their number. Raises DatabaseError."""
    with transaction.atomic():
        return _lock_in_order(some).delete()[1].get(some.model._meta.label, 0)


def delete_all_in_order(some: models.QuerySet[ModelRow], until: float | None = None) -> bool:
    """Deletes many rows in portions, until `until` (monotonic), to hold no writer up. True if none is left."""
    for keys in key_portions(some):
        delete_in_order(some.filter(pk__in=keys))
        if until is not None and time.monotonic() >= until:
            return not some.exists()
    return True


def key_portions(some: models.QuerySet[ModelRow], most: int | None = None) -> Iterator[list[str]]:
    """Yields keys of some rows at a time, at most `most` (default: ROWS_PER_STATEMENT), until none is left.

    The caller changes each portion before the next.
    """
    while keys := list(some.order_by().values_list("pk", flat=True)[: most or ROWS_PER_STATEMENT]):
        yield keys


def split_portions(items: Iterable[Item], most: int | None = None) -> Iterator[list[Item]]:
    """Yields the items in lists of at most `most` (default: ROWS_PER_STATEMENT), as Python 3.12's itertools.batched."""
    left = iter(items)
    while some := list(islice(left, most or ROWS_PER_STATEMENT)):
        yield some


def _lock_in_order(some: models.QuerySet[ModelRow]) -> models.QuerySet[ModelRow]:
    keys = some.order_by("pk").select_for_update().values("pk")
    return some.model._default_manager.filter(pk__in=keys)


@contextmanager
def storage_call(failure: Callable[[Exception], Exception]) -> Iterator[None]:
    """Times a storage call and turns its errors into those of `failure`. Raises FileNotFoundError as it is."""
    with metrics.time_call("storage"):
        try:
            yield
        except FileNotFoundError:
            raise
        except _storage_errors() as error:
            raise failure(error) from error


REACH_SECONDS = 2.0
"""The time in which the database and the storage must answer to count as reached."""

SERVER_ERROR = 500
"""The least HTTP status of a server that does not work. Any other answer shows that it does."""


@dataclass(slots=True)
class Reach:
    """A question that is asked in a thread of its own. While it hangs, no second one is asked."""

    ask: Callable[[], None]
    _thread: Thread = field(default_factory=Thread)

    def is_there(self) -> bool:
        """Tells whether the question is answered in time."""
        if self._thread.is_alive():
            return False
        answered, ended = Event(), Event()
        self._thread = Thread(target=self._run, args=(answered, ended), daemon=True, name="reach")
        self._thread.start()
        ended.wait(REACH_SECONDS)
        return answered.is_set()

    def _run(self, answered: Event, ended: Event) -> None:
        try:
            self.ask()
            answered.set()
        except _failures():
            return
        finally:
            ended.set()


def lacks_database(error: BaseException | None) -> bool:
    """Tells whether this process has lost the database. A need."""
    return _is_caused_by(error, OperationalError, InterfaceError) and not _DATABASE.is_there()


def lacks_storage(error: BaseException | None) -> bool:
    """Tells whether this process has lost the storage. A need."""
    return _is_caused_by(error, *_storage_errors()) and not _STORAGE.is_there()


def _is_caused_by(error: BaseException | None, *kinds: type[BaseException]) -> bool:
    """Tells whether one of these errors led to this one; True without an error."""
    cause = error
    while cause is not None and not isinstance(cause, kinds):
        cause = cause.__cause__ or cause.__context__
    return error is None or cause is not None


def _ask_database() -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    finally:
        connection.close()  # it belongs to this thread, and Django does not close it


def _ask_storage() -> None:
    if isinstance(default_storage, FileSystemStorage):
        os.stat(default_storage.location)
        return
    try:
        default_storage.exists("healthz/probe")
    except _storage_errors() as error:
        if _http_status(error) >= SERVER_ERROR:
            raise


def _http_status(error: BaseException) -> int:
    """The status of a bucket's answer; that of a server that does not work if there was no answer."""
    answer = getattr(error, "response", {})
    return int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", SERVER_ERROR))


def _storage_errors() -> tuple[type[Exception], ...]:
    return (OSError, *getattr(default_storage, "errors", ()))  # a bucket's errors are no OSErrors


def _failures() -> tuple[type[Exception], ...]:
    return (OperationalError, InterfaceError, *_storage_errors())


_DATABASE, _STORAGE = Reach(_ask_database), Reach(_ask_storage)
