"""How many passwords may be tried at the admin's door, counted in `state` in each ten minutes of the clock.

Counts by network, and by account over all networks, so that many networks cannot share the guessing. A browser that
has signed in to the account before is counted by itself alone: no stranger's guesses keep its owner out. (OWASP,
"Slow Down Online Guessing Attacks with Device Cookies".)

Not in `cache`: strangers can fill it with content until it forgets what they tried. That is asked only while `state`
is away or full; nothing is counted while neither takes it.
"""

import hashlib
import logging
import math
from dataclasses import dataclass

from django.conf import settings
from redis.exceptions import RedisError

from retry import connections
from retry.scripts import Server

WINDOW_SECONDS = 600
SERVERS: tuple[Server, ...] = ("state", "cache")
"""Where attempts are counted: in the first that takes it."""

_log = logging.getLogger("tarry.admin")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A password that is tried. `browser` names one that has signed in to the account before; empty: none has."""

    network: str
    account: str
    browser: str = ""

    @property
    def measures(self) -> list[tuple[str, int]]:
        """What it counts for, and how often that may be in a window."""
        if self.browser:
            return [(_key("browser", self.browser), settings.ADMIN_SIGN_INS)]
        return [
            (_key("network", self.network), settings.ADMIN_SIGN_INS),
            (_key("account", self.account), settings.ADMIN_SIGN_INS_PER_ACCOUNT),
        ]


def seconds_to_wait(attempt: Attempt, now_seconds: float) -> float:
    """Counts the attempt. 0 if the password may be looked at, else the time until the next window.

    What its network may not try any more does not count for the account: one network exhausts no account.
    """
    window = math.floor(now_seconds / WINDOW_SECONDS)
    for key, most in attempt.measures:
        if most and _count(f"{key}:{window}", 1) > most:
            return (window + 1) * WINDOW_SECONDS - now_seconds
    return 0


def take_back(attempt: Attempt, now_seconds: float) -> None:
    """The password was right: counts no longer."""
    for key, most in attempt.measures:
        if most:
            _count(f"{key}:{math.floor(now_seconds / WINDOW_SECONDS)}", -1)


def _key(kind: str, value: str) -> str:
    """A digest: people type passwords where names belong, and names have any length."""
    return f"admin:{kind}:{hashlib.sha256(value.encode(errors='surrogatepass')).hexdigest()}"


def _count(name: str, number: int) -> int:
    """How many there are with these; 0 while nobody can tell."""
    for server in SERVERS:
        try:
            return _count_in(server, name, number)
        except RedisError:
            _log.warning("a server counts no attempts to sign in", extra={"server": server}, exc_info=True)
    return 0


def _count_in(server: Server, name: str, number: int) -> int:
    """Raises RedisError."""
    with connections.client(server).pipeline(transaction=False) as pipeline:
        pipeline.incrby(name, number)
        pipeline.expire(name, WINDOW_SECONDS)  # the name is of this window alone
        counted, _ = pipeline.execute()
    return int(counted)
