"""The two Redis servers: `state` for claims and queues, `cache` for content. Runs the script calls.

Web processes fail fast, behind one circuit breaker per process and server. Workers are patient: their results
have already been paid for. Asynchronous calls go in one pipeline, packed by hiredis, with one timer for many
replies: redis-py's own pipeline costs several times as much.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from threading import Lock
from typing import Any, TypeVar, cast

import hiredis
import redis
import redis.asyncio
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.retry import Retry

from . import metrics
from .conf import StateShare, conf
from .errors import StoreUnavailable
from .scripts import Reply, ScriptCall, Server


@dataclass(slots=True)
class CircuitBreaker:
    """The breaker of one server in this process. Makes no calls; times are monotonic seconds.

    While it is closed, every call goes through. A failure opens it for `rest_seconds`. Then one call may try, and all
    others go on failing fast until that one has succeeded.
    """

    rest_seconds: float = 1.0
    _open_until: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def allows(self, now: float) -> bool:
        if not self._open_until:
            return True
        with self._lock:
            if now < self._open_until:
                return False
            self._open_until = now + self.rest_seconds  # this caller tries; the others rest on
            return True

    def failed(self, now: float) -> bool:
        """Opens the breaker, or keeps it open. Returns True if it was closed before."""
        with self._lock:
            was_closed = not self._open_until
            self._open_until = now + self.rest_seconds
            return was_closed

    def succeeded(self) -> None:
        self._open_until = 0.0


REPLIES_PER_TIMEOUT = 50
"""So many replies of one trip must come within the timeout of a single one."""


@cache
def packing_class(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    """A connection class that packs commands with hiredis, in a tenth of the time: redis-py only unpacks with it.

    A task that is cancelled while it sends must end: redis-py sends by asyncio.wait_for, which may swallow the
    cancellation until Python 3.12 (python/cpython#86296).
    """

    def pack_command(self: AbstractConnection, *args: Any) -> list[bytes]:
        if " " in args[0]:  # a name of two words
            return list(kind.pack_command(self, *args))
        return [hiredis.pack_command(args)]

    async def send_packed_command(
        self: AbstractConnection, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        if not self.is_connected:
            await self.connect_check_health(check_health=False)
        if check_health:
            await self.check_health()  # type: ignore[no-untyped-call]
        try:
            async with asyncio.timeout(self.socket_timeout):
                await self._send_packed_command(_command_chunks(command))
        except OSError as error:  # a timeout is one, too
            await self.disconnect(nowait=True)
            kind_of_error = redis.TimeoutError if isinstance(error, TimeoutError) else redis.ConnectionError
            raise kind_of_error(f"cannot be sent: {str(error) or 'not in time'}") from error
        except BaseException:
            await self.disconnect(nowait=True)  # part of it may have been sent
            raise

    return type(kind.__name__, (kind,), {"pack_command": pack_command, "send_packed_command": send_packed_command})


def _command_chunks(command: bytes | str | Iterable[bytes]) -> Iterable[bytes]:
    if isinstance(command, str):
        command = command.encode()
    return [command] if isinstance(command, bytes) else command


async def pipeline_commands(client: "redis.asyncio.Redis", commands: Sequence[tuple[Any, ...]]) -> list[Reply]:
    """Sends all commands and returns their replies, refusals in their places. Raises RedisError.

    redis-py's own pipeline sets a timer for each reply, which costs as much as all other work for it.
    """
    pool, found = client.connection_pool, list[Reply]()
    connection = await pool.get_connection()  # type: ignore[no-untyped-call]
    try:
        await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        while len(found) < len(commands):
            async with asyncio.timeout(connection.socket_timeout):
                for _ in commands[len(found) : len(found) + REPLIES_PER_TIMEOUT]:
                    found.append(await _read_reply(connection))
    except OSError as error:  # a timeout is one, too
        kind_of_error = redis.TimeoutError if isinstance(error, TimeoutError) else redis.ConnectionError
        raise kind_of_error(str(error) or "no reply in time") from error
    finally:
        await pool.release(connection)
    return found


async def _read_reply(connection: AbstractConnection) -> Reply:
    """Reads the next reply. Any error but a refusal has ended the connection."""
    try:
        return cast(Reply, await connection.read_response(timeout=math.inf))
    except ResponseError as error:
        return error


Result = TypeVar("Result")
Steps = Generator[ScriptCall, Reply, Result]

PATIENT_TIMEOUT_SECONDS = 5
PATIENT_RETRIES = 6  # 0.5 + 1 + 2 + 2 + 2 + 2 s: longer than a restart of the server

AsyncClients = dict[Server, "redis.asyncio.Redis"]

BREAKERS: dict[Server, CircuitBreaker] = {"state": CircuitBreaker(), "cache": CircuitBreaker()}

_log = logging.getLogger("tarry.stores")


@contextmanager
def translate_errors(server: Server) -> Iterator[None]:
    """Turns redis-py's errors within the block into StoreUnavailable."""
    try:
        yield
    except RedisError as error:
        raise StoreUnavailable(f"{server}: {error}") from error


def server_url(server: Server) -> str:
    return conf().REDIS_URL if server == "state" else conf().CACHE_URL


def make_single_step(call: ScriptCall) -> Steps[Reply]:
    return (yield call)


def run_steps(steps: Steps[Result], execute: Callable[[ScriptCall], Reply] | None = None) -> Result:
    """Runs the steps, failing fast unless they are executed otherwise. Raises StoreUnavailable.

    The steps meet the error where they make the call, and may go on without its reply.
    """
    advance: Callable[[], ScriptCall] = partial(next, steps)
    while True:
        try:
            call = advance()
        except StopIteration as end:
            return cast(Result, end.value)
        try:
            advance = partial(steps.send, (execute or execute_call)(call))
        except StoreUnavailable as error:
            advance = partial(steps.throw, error)


def run_patiently(steps: Steps[Result]) -> Result:
    """Runs the steps, and tries each again for several seconds. Raises StoreUnavailable."""
    return run_steps(steps, execute_patiently)


def run_together(many: Sequence[Steps[Result]], server: Server = "state") -> list[Result]:
    """Runs many steps side by side, patiently, with one round trip for all. All of them call the one server.

    Raises StoreUnavailable for all of them, though some may have run; and the steps' own errors.
    """
    results: dict[int, Result] = {}
    replies: dict[int, Reply] = dict.fromkeys(range(len(many)))
    while replies:
        calls: dict[int, ScriptCall] = {}
        for index, reply in replies.items():
            try:
                calls[index] = many[index].send(reply)
            except StopIteration as end:
                results[index] = cast(Result, end.value)
        answers = execute_all_patiently(server, list(calls.values()))
        replies = dict(zip(calls, answers, strict=True))
    return [results[index] for index in range(len(many))]


def execute_call(call: ScriptCall) -> Reply:
    """Runs one call, failing fast. Raises StoreUnavailable; the server may still run the call later."""
    with translate_errors(call.server), _behind_breaker(call.server, RedisError):
        return _execute_on(fast_client(call.server), call)


def execute_patiently(call: ScriptCall) -> Reply:
    """Runs one call, and tries again for several seconds. Raises StoreUnavailable."""
    with translate_errors(call.server):
        return _execute_on(patient_client(call.server), call)


def execute_all_patiently(server: Server, calls: Sequence[ScriptCall]) -> list[Reply]:
    """Runs calls in a single round trip, and tries all of them again for several seconds. Raises StoreUnavailable.

    If one of them is refused, others may have run.
    """
    if not calls:
        return []
    with translate_errors(server):
        with metrics.time_call(f"redis.{server}"):
            replies = _pipelined_patiently(server, [call.by_digest() for call in calls])
            if unknown := _unknown_places(replies):
                texts = [calls[place].by_text() for place in unknown]
                replies = _merge_replies(replies, unknown, _pipelined_patiently(server, texts))
        return _require_no_refusal(replies)


async def run_all(clients: AsyncClients, many: Sequence[Steps[Result]]) -> list[Result | Exception]:
    """Runs many steps side by side, with one round trip for all calls of one server.

    An error of one of them is the result of that one alone. As in run_steps, they may go on after StoreUnavailable.
    """
    results: list[Result | Exception] = [StoreUnavailable("not asked")] * len(many)
    replies: dict[int, Reply | StoreUnavailable] = dict.fromkeys(range(len(many)))
    while replies:
        open_calls: dict[int, ScriptCall] = {}
        for index, reply in replies.items():
            steps = many[index]
            try:
                open_calls[index] = steps.throw(reply) if isinstance(reply, StoreUnavailable) else steps.send(reply)
            except StopIteration as end:
                results[index] = cast(Result, end.value)
            except Exception as error:  # noqa: BLE001  the result of these steps
                results[index] = error
        replies = await _replies_by_index(clients, open_calls)
    return results


async def _replies_by_index(clients: AsyncClients, calls: dict[int, ScriptCall]) -> dict[int, Reply | StoreUnavailable]:
    replies: dict[int, Reply | StoreUnavailable] = {}
    for server in clients:
        asked = {index: call for index, call in calls.items() if call.server == server}
        if not asked:
            continue
        try:
            replies |= zip(asked, await execute_all(clients[server], server, list(asked.values())), strict=True)
        except StoreUnavailable as error:
            replies |= dict.fromkeys(asked, error)
    return replies


async def execute_all(
    client: "redis.asyncio.Redis", server: Server, calls: Sequence[ScriptCall]
) -> list[Reply | StoreUnavailable]:
    """Runs calls in a single round trip. A refused call has its error in the place of its reply.

    Raises StoreUnavailable for all of them if no reply came, or only refusals.
    """
    with translate_errors(server), _behind_breaker(server, RedisError), metrics.time_call(f"redis.{server}"):
        replies = await pipeline_commands(client, [call.by_digest() for call in calls])
        if unknown := _unknown_places(replies):
            texts = [calls[place].by_text() for place in unknown]
            replies = _merge_replies(replies, unknown, await pipeline_commands(client, texts))
        if all(isinstance(reply, RedisError) for reply in replies):
            _require_no_refusal(replies)
    return [StoreUnavailable(f"{server}: {reply}") if isinstance(reply, RedisError) else reply for reply in replies]


@contextmanager
def _behind_breaker(server: Server, *failures: type[Exception]) -> Iterator[None]:
    """Runs the block unless a call failed a moment ago. Raises redis.ConnectionError then."""
    breaker = BREAKERS[server]
    if not breaker.allows(time.monotonic()):
        raise redis.ConnectionError("did not answer a moment ago")
    try:
        yield
    except failures as error:
        if breaker.failed(time.monotonic()):
            _log.warning("a store failed", extra={"store": server, "error": str(error)})
        raise
    breaker.succeeded()


@cache
def _make_client(address: str, patient: bool, timeout: float) -> "redis.Redis":
    retry = Retry(ExponentialBackoff(base=0.5, cap=2), PATIENT_RETRIES) if patient else Retry(NoBackoff(), 0)
    return redis.Redis.from_url(address, socket_timeout=timeout, socket_connect_timeout=timeout, retry=retry)


def fast_client(server: Server) -> "redis.Redis":
    """A client that fails fast. It bypasses the circuit breaker."""
    return fast_client_at(server_url(server))


def fast_client_at(address: str) -> "redis.Redis":
    """A client that fails fast, for any server, as an app's own cache. The app has a circuit breaker for it."""
    return _make_client(address, False, conf().RETRY_REDIS_TIMEOUT)


class BreakerClient(redis.Redis):
    """A client of `cache` behind its circuit breaker, for Django's cache. Pipelines bypass the breaker."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        with _behind_breaker("cache", redis.ConnectionError, redis.TimeoutError):
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]


def patient_client(server: Server) -> "redis.Redis":
    return _make_client(server_url(server), True, PATIENT_TIMEOUT_SECONDS)


def async_client(server: Server, *, patient: bool = False) -> "redis.asyncio.Redis":
    """A new client for the running event loop. It fails fast unless it is patient. The caller closes it."""
    timeout = PATIENT_TIMEOUT_SECONDS if patient else conf().RETRY_REDIS_TIMEOUT
    client = redis.asyncio.Redis.from_url(
        server_url(server), socket_timeout=timeout, socket_connect_timeout=timeout, retry=AsyncRetry(NoBackoff(), 0)
    )
    pool = client.connection_pool
    pool.connection_class = packing_class(pool.connection_class)  # type: ignore[arg-type]  # a class can be hashed
    return client


def async_clients(*, patient: bool = False) -> AsyncClients:
    """New clients of both servers for the running event loop. The caller closes them."""
    return {"state": async_client("state", patient=patient), "cache": async_client("cache", patient=patient)}


WINDOW_MEMBERS = StateShare(1 / 350, record_bytes=150)
"""Members with a count of their own in a window. Strangers can invent more: those share one count."""


def count_in_window(
    server: Server, group: str, member: str, number: int, *, window_seconds: int, now_seconds: float
) -> tuple[int, float]:
    """Adds to the count of a member of a group, which begins anew with each window of the clock. Raises RedisError.

    Returns the count, and the seconds until the next window.
    """
    window = math.floor(now_seconds / window_seconds)
    call = ScriptCall(
        server, "window", [f"{group}:{window}"], [member, number, WINDOW_MEMBERS.most_records, window_seconds]
    )
    counted = cast(int, _execute_on(fast_client(server), call))
    return counted, (window + 1) * window_seconds - now_seconds


def _execute_on(server_client: "redis.Redis", call: ScriptCall) -> Reply:
    with metrics.time_call(f"redis.{call.server}"):
        try:
            return cast(Reply, server_client.execute_command(*call.by_digest()))  # type: ignore[no-untyped-call]
        except NoScriptError:
            return cast(Reply, server_client.execute_command(*call.by_text()))  # type: ignore[no-untyped-call]


def _unknown_places(replies: Sequence[Reply]) -> list[int]:
    return [place for place, reply in enumerate(replies) if isinstance(reply, NoScriptError)]


def _merge_replies(replies: Sequence[Reply], places: Sequence[int], later: Sequence[Reply]) -> list[Reply]:
    """The replies, with the later ones in the places of unknown scripts. All other calls ran, once."""
    return list((dict(enumerate(replies)) | dict(zip(places, later, strict=True))).values())


def _require_no_refusal(replies: list[Reply]) -> list[Reply]:
    for reply in replies:
        if isinstance(reply, RedisError):
            raise reply
    return replies


def _pipelined_patiently(server: Server, commands: Sequence[tuple[object, ...]]) -> list[Reply]:
    with patient_client(server).pipeline(transaction=False) as pipeline:
        for command in commands:
            pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
        return list(pipeline.execute(raise_on_error=False))
