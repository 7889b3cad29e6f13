"""The protocol's calls against a real server, as tests of claims make them."""

from uuid import uuid4

from retry import claims, connections, standings
from retry.errors import PreparationError
from retry.work import Work
from tests.conftest import RedisServers

LONG_AGO = 1
"""A moment in Redis' milliseconds that is longer ago than any bound."""


def begin(work: Work, *, refresh: bool = False) -> standings.Standing:
    return standings.standing(connections.execute(claims.beginning(work, refresh=refresh)))


def look(work: Work) -> standings.Standing:
    return standings.standing(connections.execute(claims.looking(work.key)))


def begun(work: Work, *, refresh: bool = False) -> standings.Begun:
    found = begin(work, refresh=refresh)
    assert isinstance(found, standings.Begun)
    return found


def started(work: Work, token: int, nonce: str | None = None) -> object:
    """STARTED, SKIPPED or 0."""
    return connections.execute(claims.starting(work.key, token, nonce or uuid4().hex))


def start(work: Work, token: int, nonce: str | None = None) -> bool:
    return started(work, token, nonce) == claims.STARTED


def finish(work: Work, token: int, seconds: float = 0.1) -> bool:
    return connections.execute(claims.finishing_stored(work.key, token, seconds)) == 1


def fail(work: Work, token: int, *, luck: float = 0.999, retry_seconds: float | None = None) -> bool:
    error = PreparationError("No.", retry_seconds=retry_seconds)
    call = claims.finishing_failed(work.key, token, error, luck=luck)
    return connections.execute(call) == 1


def swept() -> list[tuple[bytes, ...]]:
    found = connections.execute(claims.sweeping(100))
    assert isinstance(found, list)
    return [tuple(row) for row in found]


def make_due(servers: RedisServers, work: Work) -> None:
    for name in ("retry:claims", "retry:leases"):
        servers.state.client.zadd(name, {work.key: 1}, xx=True)


def queued(servers: RedisServers, lane: str) -> set[str]:
    """The works that wait in the lane."""
    return {str(key, "utf-8") for key in servers.state.client.zrange(claims.queued_name(lane), 0, -1)}  # type: ignore[arg-type]


def failed_with(servers: RedisServers, work: Work) -> int | None:
    """The status of its failure record, in force or not."""
    status = servers.state.client.hget(f"retry:failure:{work.key}", "status")
    return int(status) if isinstance(status, bytes) else None


def swept_for_long(servers: RedisServers) -> None:
    servers.state.client.set(claims.SWEPT, LONG_AGO, ex=10)


def forget_who_asked(servers: RedisServers, work: Work) -> None:
    """As if the last question had been long ago."""
    servers.state.client.hset(f"retry:claim:{work.key}", "asked", LONG_AGO)


def make_long(servers: RedisServers, lane: str) -> None:
    """As if each piece of work in the lane took an hour."""
    servers.state.client.set(f"retry:duration:{lane}", 3_600_000)
