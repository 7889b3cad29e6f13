"""The two Redis servers: `state` for claims and queues, `cache` for content. Runs the script calls.

Web processes fail fast, behind one circuit breaker per process and server, or node of a Cluster. Workers are patient:
their results have already been paid for. Asynchronous calls go in one pipeline for each server or node.
"""

import asyncio
import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeVar, cast

import redis
import redis.asyncio
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import NoScriptError, RedisClusterException, RedisError
from redis.retry import Retry

from . import metrics, pipelines, server_urls, servers
from .conf import StateShare, conf
from .errors import StoreUnavailable
from .scripts import Reply, ScriptCall, Server, join_calls
from .servers import AsyncClient, CircuitBreaker, slot_of

Result = TypeVar("Result")
Steps = Generator[ScriptCall, Reply, Result]

PATIENT_TIMEOUT_SECONDS = 5
PATIENT_RETRIES = 6  # 0.5 + 1 + 2 + 2 + 2 + 2 s: longer than a restart of the server

AsyncClients = dict[Server, AsyncClient]

BREAKERS: dict[str, CircuitBreaker] = defaultdict(CircuitBreaker, state=CircuitBreaker(), cache=CircuitBreaker())
"""By the name of the server. Of a Cluster, each partition has one of its own: a node that fails is one of several."""

_log = logging.getLogger("tarry.stores")


@contextmanager
def translate_errors(server: Server) -> Iterator[None]:
    """Turns redis-py's errors within the block into StoreUnavailable."""
    try:
        yield
    except (RedisError, RedisClusterException) as error:
        raise StoreUnavailable(f"{server}: {error}") from error


def server_url(server: Server) -> str:
    return conf().REDIS_URL if server == "state" else conf().CACHE_URL


def _breaker_name(call: ScriptCall) -> str:
    if not server_urls.is_cluster(server_url(call.server)):
        return call.server
    return f"{call.server} {call.keys[0].partition('{')[2].partition('}')[0]}"


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

    Calls for items of one script go as one. Raises StoreUnavailable for all of them, though some may have run;
    and the steps' own errors.
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
        joined = join_calls(list(calls.values()))
        answers = joined.split_replies(execute_all_patiently(server, joined.calls))
        replies = dict(zip(calls, answers, strict=True))
    return [results[index] for index in range(len(many))]


def execute_call(call: ScriptCall) -> Reply:
    """Runs one call, failing fast. Raises StoreUnavailable; the server may still run the call later."""
    with translate_errors(call.server), _behind_breaker(_breaker_name(call), RedisError):
        return _execute_on(fast_client(call.server), call)


def push_message(queue: str, message: str) -> None:
    """Puts a message into a queue of the broker, failing fast. Raises StoreUnavailable."""
    name = "queues" if conf().QUEUES_URL else "state"
    with translate_errors("state"), _behind_breaker(name, RedisError):
        servers.run_command(broker_client(), ("LPUSH", queue, message))


def execute_patiently(call: ScriptCall) -> Reply:
    """Runs one call, and tries again for several seconds. Raises StoreUnavailable."""
    with translate_errors(call.server):
        return _execute_on(patient_client(call.server), call)


def execute_all_patiently(server: Server, calls: Sequence[ScriptCall]) -> list[Reply]:
    """Runs calls in a single round trip, and tries all of them again for several seconds. Raises StoreUnavailable.

    If one of them is refused, others may have run.
    """
    with translate_errors(server):
        return _require_no_refusal(_run_in_one_trip(server, calls, _PATIENT))


def execute_each(server: Server, calls: Sequence[ScriptCall]) -> list[Reply | StoreUnavailable]:
    """Runs calls in a single round trip. A call that is refused, or whose node is away, has its error for its reply.

    Nodes of a Cluster are not waited for, one server is. Raises StoreUnavailable if no call ran.
    """
    with translate_errors(server):
        return _require_any(server, _run_in_one_trip(server, calls, _FAST))


def read_each(server: Server, keys: Sequence[str], commands: Sequence[pipelines.Command]) -> list[Any]:
    """Sends commands, each to the node that has its key, failing fast. Their replies are those of execute_each."""
    with translate_errors(server):
        replies = servers.run_commands(fast_client(server), commands, [slot_of(key) for key in keys], _FAST)
        return _require_any(server, replies)


def first_at_nodes(server: Server, keys: Sequence[str]) -> set[int]:
    """Returns the place of the first key of each node of a Cluster, or that of the first key.

    Raises StoreUnavailable.
    """
    with translate_errors(server):
        client: Any = patient_client(server)
        return client.first_at_nodes([*map(slot_of, keys)]) if isinstance(client, servers.Cluster) else {0}


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
    client: AsyncClient, server: Server, calls: Sequence[ScriptCall]
) -> list[Reply | StoreUnavailable]:
    """Runs calls in a single round trip, to each node of a Cluster. A refused call has its error for its reply.

    Raises StoreUnavailable for all of them if no reply came, or only refusals.
    """
    if isinstance(client, servers.ClusterClient):
        replies = await _execute_at_nodes(client, server, calls)
    else:
        with translate_errors(server):
            replies = await _execute_together(client, server, server, calls)
    with translate_errors(server):
        return _require_any(server, replies)


async def _execute_at_nodes(client: servers.ClusterClient, server: Server, calls: Sequence[ScriptCall]) -> list[Reply]:
    """Runs calls at the nodes of their keys, once more where a slot has moved. Errors stand for their replies."""
    replies = await _execute_at_known_nodes(client, server, calls)
    moved = [place for place, reply in enumerate(replies) if servers.has_moved(reply)]
    if moved:
        await client.look_again()
        again = await _execute_at_known_nodes(client, server, [calls[place] for place in moved])
        replies = _merge_replies(replies, moved, again)
    elif any(isinstance(reply, redis.ConnectionError | redis.TimeoutError) for reply in replies):
        await client.look_again()  # a replica may be the primary by now
    return replies


async def _execute_at_known_nodes(
    client: servers.ClusterClient, server: Server, calls: Sequence[ScriptCall]
) -> list[Reply]:
    by_name: dict[str, list[int]] = {}
    for place, call in enumerate(calls):
        by_name.setdefault(_breaker_name(call), []).append(place)

    async def execute(name: str, places: list[int]) -> list[Reply]:
        try:
            node = await client.node_of(slot_of(calls[places[0]].keys[0]))
            return await _execute_together(node, server, name, [calls[place] for place in places])
        except RedisError as error:
            return [error] * len(places)

    found = await asyncio.gather(*(execute(name, places) for name, places in by_name.items()))
    replies = {
        place: reply
        for places, some in zip(by_name.values(), found, strict=True)
        for place, reply in zip(places, some, strict=True)
    }
    return [replies[place] for place in range(len(calls))]


async def _execute_together(
    client: "redis.asyncio.Redis", server: Server, breaker_name: str, calls: Sequence[ScriptCall]
) -> list[Reply]:
    """Runs calls in a single round trip, behind a breaker. Raises RedisError; refusals are in their places."""
    with _behind_breaker(breaker_name, RedisError), metrics.time_call(f"redis.{server}"):
        replies = await pipelines.pipeline_commands(client, [call.by_digest() for call in calls])
        if unknown := _unknown_places(replies):
            texts = [calls[place].by_text() for place in unknown]
            replies = _merge_replies(replies, unknown, await pipelines.pipeline_commands(client, texts))
        if all(isinstance(reply, RedisError) and not servers.has_moved(reply) for reply in replies):
            _require_no_refusal(replies)
    return replies


@contextmanager
def _behind_breaker(name: str, *failures: type[Exception]) -> Iterator[None]:
    """Runs the block unless a call failed a moment ago. Raises redis.ConnectionError then."""
    breaker = BREAKERS[name]
    if not breaker.allows(time.monotonic()):
        raise redis.ConnectionError("did not answer a moment ago")
    try:
        yield
    except failures as error:
        if breaker.failed(time.monotonic()):
            _log.warning("a store failed", extra={"store": name, "error": str(error)})
        raise
    breaker.succeeded()


_FAST, _PATIENT = Retry(NoBackoff(), 0), Retry(ExponentialBackoff(base=0.5, cap=2), PATIENT_RETRIES)


@cache
def _make_client(address: str, patient: bool, timeout: float) -> "redis.Redis":
    return servers.make_client(address, timeout, _PATIENT if patient else _FAST)


def broker_client() -> "redis.Redis":
    """A client of the broker that fails fast: Celery's queues are lists there. It is `state` unless it is a Cluster."""
    return fast_client_at(conf().QUEUES_URL or conf().REDIS_URL)


def answers(server: Server) -> bool:
    """Tells whether the server answers now."""
    try:
        return bool(fast_client(server).ping())
    except RedisError:
        return False


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


def async_client(server: Server, *, patient: bool = False) -> AsyncClient:
    """A new client for the running event loop. It fails fast, the sooner unless it is patient. The caller closes it."""
    timeout = PATIENT_TIMEOUT_SECONDS if patient else conf().RETRY_REDIS_TIMEOUT
    return servers.make_async_client(server_url(server), timeout)


def subscribing_client(server: Server) -> AsyncClient:
    """As async_client(), for a subscription: of the older protocol redis-py reads messages in half the time."""
    return servers.make_async_client(server_url(server), conf().RETRY_REDIS_TIMEOUT, protocol=2)


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
            return servers.run_command(server_client, call.by_digest())
        except NoScriptError:
            return servers.run_command(server_client, call.by_text())


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


def _require_any(server: Server, replies: list[Reply]) -> list[Reply | StoreUnavailable]:
    """Returns the replies, with errors in their places. Raises RedisError if all of them are refused."""
    if all(isinstance(reply, RedisError) for reply in replies):
        _require_no_refusal(replies)
    return [StoreUnavailable(f"{server}: {reply}") if isinstance(reply, RedisError) else reply for reply in replies]


def _run_in_one_trip(server: Server, calls: Sequence[ScriptCall], retry: Retry) -> list[Reply]:
    """Runs calls at the patient client, at nodes of a Cluster with these retries. Raises RedisError."""
    if not calls:
        return []
    slots = [slot_of(call.keys[0]) if call.keys else 0 for call in calls]
    run = partial(servers.run_commands, patient_client(server))
    with metrics.time_call(f"redis.{server}"):
        replies = run([call.by_digest() for call in calls], slots, retry)
        if unknown := _unknown_places(replies):
            texts = [calls[place].by_text() for place in unknown]
            replies = _merge_replies(replies, unknown, run(texts, [slots[place] for place in unknown], retry))
    return replies
