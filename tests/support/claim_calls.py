"""The protocol's calls against a real server, as tests of claims make them."""

from uuid import uuid4

from retry import claim_state, claims, stores
from retry.errors import PreparationError
from retry.work import Work

from ..conftest import RedisServers

SWEPT_KEY = "retry:{0}:swept"
LONG_AGO = 1
"""A moment in Redis' milliseconds that is longer ago than any bound."""


def begin(work: Work, *, refresh: bool = False) -> claim_state.ClaimState:
    return claim_state.read_claim_state(stores.execute_call(claims.begin_call(work, refresh=refresh)))


def look(work: Work) -> claim_state.ClaimState:
    return claim_state.read_claim_state(stores.execute_call(claims.look_call(work.key)))


def begun(work: Work, *, refresh: bool = False) -> claim_state.ClaimBegun:
    found = begin(work, refresh=refresh)
    assert isinstance(found, claim_state.ClaimBegun)
    return found


def started(work: Work, token: int, nonce: str | None = None) -> claims.StartedWork:
    return claims.read_started(stores.execute_call(claims.start_call(work.key, token, nonce or uuid4().hex)))


def start(work: Work, token: int, nonce: str | None = None) -> int:
    """The token of the copy that has started; 0 if it has not."""
    found = started(work, token, nonce)
    return found.token if found.outcome == claims.STARTED else 0


def queued_key(lane: str) -> str:
    return f"retry:{{0}}:queued:{lane}"


def running(work: Work, nonce: str | None = None) -> int:
    """Claims the work and starts it; its token."""
    token = start(work, begun(work).token, nonce)
    assert token
    return token


def failure(work: Work) -> claim_state.WorkFailed:
    found = look(work)
    assert isinstance(found, claim_state.WorkFailed)
    return found


def finish(work: Work, token: int, seconds: float = 0.1) -> bool:
    return stores.execute_call(claims.finish_stored_call(work.key, token, seconds)) == 1


def fail(work: Work, token: int, *, status: int = 502, luck: float = 0.999, retry_seconds: float | None = None) -> bool:
    error = PreparationError("No.", status=status, retry_seconds=retry_seconds)
    return stores.execute_call(claims.finish_failed_call(work.key, token, error, luck=luck)) == 1


def swept() -> list[tuple[bytes, ...]]:
    found = stores.execute_call(claims.sweep_call(0, 100, cache_is_away=False))
    assert isinstance(found, list)
    return [tuple(row) for row in found]


def make_due(servers: RedisServers, work: Work) -> None:
    for name in ("retry:{0}:claims", "retry:{0}:leases"):
        servers.state.client.zadd(name, {work.key: 1}, xx=True)


def now_ms(servers: RedisServers) -> int:
    seconds, microseconds = servers.state.client.time()
    return seconds * 1000 + microseconds // 1000


def queued(servers: RedisServers, lane: str) -> set[str]:
    return {str(key, "utf-8") for key in servers.state.client.zrange(queued_key(lane), 0, -1)}  # type: ignore[arg-type]


def failed_with(servers: RedisServers, work: Work) -> int | None:
    """The status of its failure record, in force or not."""
    status = servers.state.client.hget(f"retry:{{0}}:failure:{work.key}", "status")
    return int(status) if isinstance(status, bytes) else None


def swept_for_long(servers: RedisServers) -> None:
    servers.state.client.set(SWEPT_KEY, LONG_AGO, ex=10)


def forget_who_asked(servers: RedisServers, work: Work) -> None:
    """Makes the last request seem long ago."""
    servers.state.client.hset(f"retry:{{0}}:claim:{work.key}", "asked", LONG_AGO)


def make_long(servers: RedisServers, lane: str) -> None:
    """Makes each piece of work in the lane seem to take an hour."""
    servers.state.client.set(f"retry:{{0}}:duration:{lane}", 3_600_000)
