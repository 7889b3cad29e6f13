"""What waits for fetchers, as Redis has it, and the death of whoever hands it over."""

from collections.abc import Callable

import pytest

from tests.conftest import RedisServers


class KilledError(BaseException):
    """SIGKILL, as far as code can see it: nothing catches it."""


def jobs(servers: RedisServers) -> list[str]:
    """The URLs that wait for fetchers."""
    names = servers.state.client.scan_iter("fetch:job:*")
    found = (servers.state.client.hget(name, "url") for name in names)
    return sorted(url.decode() for url in found if isinstance(url, bytes))


def claimed(servers: RedisServers) -> int:
    """How many pieces of work have claims."""
    return len(list(servers.state.client.scan_iter("retry:claim:*")))


def killed_in(monkeypatch: pytest.MonkeyPatch, module: object, name: str, run: Callable[[], object]) -> None:
    """Runs it until it calls that function, where it is killed."""

    def die(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(module, name, die)
        with pytest.raises(KilledError):
            run()
