"""The scan: takes feeds that are flagged or due, puts them in order, and hands them over. It waits for none of them.

Rows are the truth. Two scans at once do no harm: a feed is claimed once.
"""

import time
from collections.abc import Sequence
from datetime import datetime

from resources import locks
from resources.locks import Lock
from retry import claims
from retry.conf import conf as retry_conf

from ..keeping import clocks, flagging, scans
from ..models import Scan
from ..scheduling import simulating
from ..scheduling.fetches import Fetch
from ..scheduling.orders import Order
from . import bounding, delivered, due, handing
from .due import Due
from .handing import Tray
from .work import SCANNED

LOCK, LOCK_SECONDS = "feeds:scanning", 15
AT_ONCE = 200
"""Feeds in one trip. The lock is renewed after each."""
LOOKS, MOMENT_SECONDS = 3, 0.2
"""A feed that was flagged while its last fetch was being stored is handed over when that has ended."""
MOST = 5000
"""Feeds of one scan: what is left is due at the next one."""
PASS_SECONDS = 5.0
"""No trip begins after so long: the queue has other work. Another scan is asked for then."""


def scan(now: datetime) -> int:
    """One scan: how many feeds were handed over. Does nothing while another one is at it.

    Raises StoreUnavailable and DatabaseError.
    """
    with locks.held(LOCK, LOCK_SECONDS) as lock:
        if lock is None:
            return 0
        flagging.begin_scan()
        clocks.set_right(now)
        scans.end_finished(now, bounding.least_seconds)
        chosen = due.due(now, min(room(), MOST))
        handed_over = _hand_over(ordered(chosen), lock, now) if chosen else 0
    flagging.go_on()  # whoever asked for another scan meanwhile has met the lock
    return handed_over


def ordered(chosen: Sequence[Due]) -> list[tuple[Due, Fetch]]:
    """The feeds in the order in which they should begin."""
    by_key = {one.key: one for one in chosen}
    runs = simulating.replay(due.fetches(chosen), due.limits(), Order.LONGEST_CHAIN).runs
    return [(by_key[run.fetch.key], run.fetch) for run in runs]


def _hand_over(line: Sequence[tuple[Due, Fetch]], lock: Lock, now: datetime) -> int:
    new = [fetch for one, fetch in line if not one.was_in_hand]
    noted = scans.begin(new, bounding.least_seconds(new), now)
    found = _hand_over_parts(line, noted, lock, now)
    handed_over, again = found.handed_over, found.again
    for _ in range(LOOKS):
        if not found.ending:
            break
        time.sleep(MOMENT_SECONDS)
        found = _hand_over_parts([each for each in line if each[0].pk in found.ending], noted, lock, now)
        handed_over, again = handed_over + found.handed_over, again + found.again
    scans.note(noted, handed_over - again)
    return handed_over


def _hand_over_parts(line: Sequence[tuple[Due, Fetch]], noted: Scan, lock: Lock, now: datetime) -> Tray:
    """How many were handed over, and those whose last fetch is about to end."""
    total, until = Tray(), time.monotonic() + PASS_SECONDS
    for place in range(0, len(line), AT_ONCE):
        if time.monotonic() > until:
            flagging.ask_for_scan()
            break
        part = [(one, fetch.seconds) for one, fetch in line[place : place + AT_ONCE]]
        tray = handing.hand_over(part, noted, now)
        total.handed_over += tray.handed_over
        total.again += tray.again
        total.ending += tray.ending
        unasked = tray.postponed.keys() | tray.refused.keys()
        delivered.take_all([one.pk for one, _ in part if one.is_flagged and one.pk in unasked], until)
        if tray.full:
            break
        lock.keep()
    return total


def room() -> int:
    """How many more feeds the fetchers take. What is put back into the lane may fill it beyond its limit.

    Raises StoreUnavailable.
    """
    with locks.state() as client:
        return max(0, int(retry_conf().RETRY_LANES[SCANNED]["limit"]) - client.zcard(claims.queued_name(SCANNED)))
