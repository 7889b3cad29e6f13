"""The deadlines of answers and of pinged news. Sends no request."""

from collections.abc import Iterator, Mapping, Sequence

from project.nginx_config import MAIN_TIMEOUT_SECONDS

from .promises import Ping, Promises
from .schedule import Suffered
from .steady import Leg
from .world import SETTINGS

SLACK_SECONDS = 5
"""The allowance of a busy machine on top of the limits of nginx and the waiting instance."""
WAITING, API = "/retry_after", "/api/"
WAIT_SECONDS = float(SETTINGS["DEFAULT_RETRY_TIMEOUT"])
API_SECONDS = float(SETTINGS["ADMIN_TIMEOUT"])
"""nginx waits this long for main's answer to an API request, also while main restarts."""
FRONTS, WAITS = frozenset({"SIGSTOP nginx", "SIGSTOP main"}), frozenset({"SIGSTOP nginx", "SIGSTOP retry"})
"""Faults that pause the answering processes: of requests to main, and of requests to the waiting address."""
SHOWN_SECONDS = 75
"""A feed's news is fetched and shown within these seconds after a ping, plus the duration of faults meanwhile.

A scan fetches a feed again a minute after its handover (`feeds.scan.due.LOST_AFTER`): its claim may be lost with Redis'
data, or its result with a full disk. The rest is for a scan, a process that starts, a page, a busy machine.
"""


def bound(leg: Leg, suffered: Sequence[Suffered]) -> float:
    """The limit of a request in seconds, plus the time for which its answering process was paused."""
    is_waiting = leg.path == WAITING
    standing = [one for one in suffered if one.fault.name in (WAITS if is_waiting else FRONTS)]
    of_main = API_SECONDS if leg.path.startswith(API) else MAIN_TIMEOUT_SECONDS
    promised = WAIT_SECONDS if is_waiting else of_main
    return promised + SLACK_SECONDS + sum(_overlap(leg, one) for one in standing)


def _overlap(leg: Leg, suffered: Suffered) -> float:
    return max(0, min(leg.began + leg.seconds, suffered.ended) - max(leg.began, suffered.began))


def of_pings(promises: Promises, asked: Mapping[str, Sequence[float]], suffered: Sequence[Suffered]) -> Iterator[str]:
    """The pings whose feed was not fetched, or not shown, in time. Several may share a fetch.

    `asked` are the times of requests for each feed, by its path. News still to come counts as missing.
    """
    for ping in promises.pings:
        due = ping.sent + SHOWN_SECONDS + _lasted(suffered, ping.sent, ping.sent + SHOWN_SECONDS)
        fetched = next((at for at in asked.get(ping.path, ()) if at >= ping.sent), None)
        shown = promises.first_shown(ping)
        if fetched is None or fetched > due:
            yield _late("fetched", ping, fetched, due)
        elif shown is None or shown > due:
            yield _late("shown", ping, shown, due)


def _late(what: str, ping: Ping, at: float | None, due: float) -> str:
    found = "not at all" if at is None else f"after {at - ping.sent:.1f} s"
    return f"a ping was taken: {ping.path} {ping.edition} was {what} {found}, not within {due - ping.sent:.0f} s"


def _lasted(suffered: Sequence[Suffered], begin: float, end: float) -> float:
    """The seconds of the faults that overlap that time, recoveries included."""
    met = [one for one in suffered if not one.skipped and one.began <= end and one.over >= begin]
    return sum((one.over if one.recovered is None else one.recovered) - one.began for one in met)
