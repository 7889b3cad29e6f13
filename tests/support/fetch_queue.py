"""The fetchers' queue as Redis has it, and the death of a process that hands over."""

from collections.abc import Callable, Sequence

import pytest

from resources.fetch.frontier.jobs import FetchJob
from resources.fetch.task import TaskCall

from ..conftest import RedisServers


class KilledError(BaseException):
    """SIGKILL, as far as code can see it: nothing catches it."""


def jobs(servers: RedisServers) -> list[str]:
    """The URLs that wait for fetchers."""
    names = servers.state.client.scan_iter("fetch:{0}:job:*")
    found = (servers.state.client.hget(name, "url") for name in names)
    return sorted(url.decode() for url in found if isinstance(url, bytes))


def calls_of(jobs: Sequence[FetchJob | None]) -> list[TaskCall]:
    """The calls that jobs were enqueued for."""
    return [TaskCall.parse(job.waiter.payload) for job in jobs if job]


def claimed(servers: RedisServers) -> int:
    """The number of pieces of work with claims."""
    return len(list(servers.state.client.scan_iter("retry:{0}:claim:*")))


def killed_in(monkeypatch: pytest.MonkeyPatch, module: object, name: str, run: Callable[[], object]) -> None:
    """Runs it until it calls that function, where it is killed."""

    def die(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(module, name, die)
        with pytest.raises(KilledError):
            run()
