"""The two Redis servers: `state` for claims and queues, `cache` for content. Runs the calls.

Web processes fail fast, behind one circuit breaker per process and server; workers are patient,
because what they hold has been paid for.
"""

import logging
import time
from collections.abc import Callable, Generator, Sequence
from functools import cache
from typing import TypeVar, cast

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import NoScriptError, RedisError
from redis.retry import Retry

from . import observing, pipelining
from .circuit import Breaker
from .conf import conf
from .errors import StoreUnavailable
from .scripts import Call, Reply, Server

Result = TypeVar("Result")
Steps = Generator[Call, Reply, Result]

PATIENT_TIMEOUT_SECONDS = 5
PATIENT_RETRIES = 6  # 0.5 + 1 + 2 + 2 + 2 + 2 s: longer than a restart of the server

Clients = dict[Server, "redis.asyncio.Redis"]

BREAKERS: dict[Server, Breaker] = {"state": Breaker(), "cache": Breaker()}

_log = logging.getLogger("tarry.stores")


def url(server: Server) -> str:
    return conf().REDIS_URL if server == "state" else conf().CACHE_URL


def run(steps: Steps[Result]) -> Result:
    """Carries out the steps, failing fast. Raises StoreUnavailable."""
    return _drive(steps, execute)


def run_patiently(steps: Steps[Result]) -> Result:
    """Carries out the steps, each tried again for several seconds. Raises StoreUnavailable."""
    return _drive(steps, execute_patiently)


def run_together(many: Sequence[Steps[Result]], server: Server = "state") -> list[Result]:
    """Carries out many steps side by side, patiently, one round trip for all. Raises StoreUnavailable for all of them,
    of which some may have been carried out; and what they raise themselves. They all ask that server.
    """
    results: dict[int, Result] = {}
    replies: dict[int, Reply] = dict.fromkeys(range(len(many)))
    while replies:
        calls: dict[int, Call] = {}
        for index, reply in replies.items():
            try:
                calls[index] = many[index].send(reply)
            except StopIteration as end:
                results[index] = cast(Result, end.value)
        answers = execute_all_patiently(server, list(calls.values())) if calls else []
        replies = dict(zip(calls, answers, strict=True))
    return [results[index] for index in range(len(many))]


def execute(call: Call) -> Reply:
    """Runs one call, failing fast. Raises StoreUnavailable; the server may still execute the call later."""
    breaker = BREAKERS[call.server]
    if not breaker.allows(time.monotonic()):
        raise StoreUnavailable(f"{call.server} did not answer a moment ago")
    try:
        reply = _execute(client(call.server), call)
    except RedisError as error:
        _failed(call.server, error)
        raise StoreUnavailable(f"{call.server}: {error}") from error
    breaker.succeeded()
    return reply


def execute_patiently(call: Call) -> Reply:
    """Runs one call, trying again for several seconds. Raises StoreUnavailable."""
    try:
        return _execute(patient_client(call.server), call)
    except RedisError as error:
        raise StoreUnavailable(f"{call.server}: {error}") from error


def execute_all_patiently(server: Server, calls: Sequence[Call]) -> list[Reply]:
    """Runs calls in a single round trip, trying all of them again for several seconds. Raises StoreUnavailable.

    When one of them is refused, others may have been carried out.
    """
    try:
        with observing.timed(f"redis.{server}"):
            replies = _pipelined_patiently(server, [call.by_digest() for call in calls])
            if unknown := _unknown(replies):
                texts = [calls[place].by_text() for place in unknown]
                replies = _completed(replies, unknown, _pipelined_patiently(server, texts))
        return _none_refused(replies)
    except RedisError as error:
        raise StoreUnavailable(f"{server}: {error}") from error


async def run_all(clients: Clients, many: Sequence[Steps[Result]]) -> list[Result | Exception]:
    """Carries out many steps side by side, one round trip for all that ask the same server.

    What one of them raises is its own result, and nobody else's.
    """
    results: list[Result | Exception] = [StoreUnavailable("not asked")] * len(many)
    replies: dict[int, Reply | StoreUnavailable] = dict.fromkeys(range(len(many)))
    while replies:
        open_calls: dict[int, Call] = {}
        for index, reply in replies.items():
            if isinstance(reply, StoreUnavailable):
                results[index] = reply
                continue
            try:
                open_calls[index] = many[index].send(reply)
            except StopIteration as end:
                results[index] = cast(Result, end.value)
            except Exception as error:  # noqa: BLE001  told to whoever asked
                results[index] = error
        replies = await _replies(clients, open_calls)
    return results


async def _replies(clients: Clients, calls: dict[int, Call]) -> dict[int, Reply | StoreUnavailable]:
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
    client: "redis.asyncio.Redis", server: Server, calls: Sequence[Call]
) -> list[Reply | StoreUnavailable]:
    """Runs calls in a single round trip. A call that is refused has its refusal in the place of its reply.

    Raises StoreUnavailable for all of them when nothing came back, or nothing but refusals.
    """
    breaker = BREAKERS[server]
    if not breaker.allows(time.monotonic()):
        raise StoreUnavailable(f"{server} did not answer a moment ago")
    try:
        with observing.timed(f"redis.{server}"):
            replies = await pipelining.replies(client, [call.by_digest() for call in calls])
            if unknown := _unknown(replies):
                texts = [calls[place].by_text() for place in unknown]
                replies = _completed(replies, unknown, await pipelining.replies(client, texts))
        if all(isinstance(reply, RedisError) for reply in replies):
            _none_refused(replies)
    except (RedisError, OSError) as error:
        _failed(server, error)
        raise StoreUnavailable(f"{server}: {error}") from error
    breaker.succeeded()
    return [StoreUnavailable(f"{server}: {reply}") if isinstance(reply, RedisError) else reply for reply in replies]


def _failed(server: Server, error: Exception) -> None:
    if BREAKERS[server].failed(time.monotonic()):
        _log.warning("a store failed", extra={"store": server, "error": str(error)})


@cache
def _client(address: str, patient: bool, timeout: float) -> "redis.Redis":
    retry = Retry(ExponentialBackoff(base=0.5, cap=2), PATIENT_RETRIES) if patient else Retry(NoBackoff(), 0)
    return redis.Redis.from_url(address, socket_timeout=timeout, socket_connect_timeout=timeout, retry=retry)


def client(server: Server) -> "redis.Redis":
    """A client that fails fast. It does not pass the circuit breaker."""
    return client_at(url(server))


def client_at(address: str) -> "redis.Redis":
    """The same for any server, as a cache of an app's own. The app has a circuit breaker for it."""
    return _client(address, False, conf().RETRY_REDIS_TIMEOUT)


def patient_client(server: Server) -> "redis.Redis":
    return _client(url(server), True, PATIENT_TIMEOUT_SECONDS)


def async_client(server: Server, *, patient: bool = False) -> "redis.asyncio.Redis":
    """A new client for the running event loop, which fails fast unless it is patient. The caller closes it."""
    timeout = PATIENT_TIMEOUT_SECONDS if patient else conf().RETRY_REDIS_TIMEOUT
    client = redis.asyncio.Redis.from_url(
        url(server), socket_timeout=timeout, socket_connect_timeout=timeout, retry=AsyncRetry(NoBackoff(), 0)
    )
    pool = client.connection_pool
    pool.connection_class = pipelining.packing(pool.connection_class)  # type: ignore[arg-type]  # a class can be hashed
    return client


def _drive(steps: Steps[Result], execute_one: Callable[[Call], Reply]) -> Result:
    reply: Reply = None
    while True:
        try:
            call = steps.send(reply)
        except StopIteration as end:
            return cast(Result, end.value)
        reply = execute_one(call)


def _execute(server_client: "redis.Redis", call: Call) -> Reply:
    with observing.timed(f"redis.{call.server}"):
        try:
            return cast(Reply, server_client.execute_command(*call.by_digest()))  # type: ignore[no-untyped-call]
        except NoScriptError:
            return cast(Reply, server_client.execute_command(*call.by_text()))  # type: ignore[no-untyped-call]


def _unknown(replies: Sequence[Reply]) -> list[int]:
    """The places of calls whose script the server does not know. All others were carried out, once."""
    return [place for place, reply in enumerate(replies) if isinstance(reply, NoScriptError)]


def _completed(replies: Sequence[Reply], places: Sequence[int], later: Sequence[Reply]) -> list[Reply]:
    """The replies, with those that came later in their places."""
    all_of_them = dict(enumerate(replies)) | dict(zip(places, later, strict=True))
    return list(all_of_them.values())


def _none_refused(replies: list[Reply]) -> list[Reply]:
    """The replies. Raises the first that is an error."""
    for reply in replies:
        if isinstance(reply, RedisError):
            raise reply
    return replies


def _pipelined_patiently(server: Server, commands: Sequence[tuple[object, ...]]) -> list[Reply]:
    with patient_client(server).pipeline(transaction=False) as pipeline:
        for command in commands:
            pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
        return list(pipeline.execute(raise_on_error=False))
