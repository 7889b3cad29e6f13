"""How many passwords may be tried at the admin's door, counted in `cache` in each ten minutes of the clock.

Counts by network, and by account over all networks, so that many networks cannot share the guessing. A browser that
has signed in to the account before is counted by itself alone: no stranger's guesses keep its owner out. (OWASP,
"Slow Down Online Guessing Attacks with Device Cookies".) Counts nothing while `cache` cannot be reached.
"""

import hashlib
import logging
import math
from dataclasses import dataclass

from django.conf import settings
from redis.exceptions import RedisError

from retry import connections

WINDOW_SECONDS = 600

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
    try:
        with connections.client("cache").pipeline(transaction=False) as pipeline:
            pipeline.incrby(name, number)
            pipeline.expire(name, 2 * WINDOW_SECONDS)
            counted, _ = pipeline.execute()
    except RedisError:
        _log.warning("attempts to sign in are not counted: cache does not answer", exc_info=True)
        return 0
    return int(counted)
