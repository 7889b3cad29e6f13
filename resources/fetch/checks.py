"""System checks: settings of fetching that contradict each other, or that mean nothing."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from retry import lanes
from retry.conf import Lane
from retry.conf import conf as retry_conf

from . import conf, publishing
from .addressing import egress
from .addressing.addresses import Exempt
from .errors import MalformedEgressError, MalformedExceptionError

MOST_TIMINGS_DAYS = 36_500

_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_CONTACT = re.compile(r"[!-'*-~]{0,200}", re.ASCII)


def check_fetching(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """FETCH_*: what is named can be read and is there, and times fit into one another."""
    found = (*_unreadable(), *_contradictory(), *_missing())
    return [Error(said, id=f"fetching.{number}") for number, said in found]


def _unreadable() -> Iterator[tuple[str, str]]:
    for text in settings.FETCH_ALLOW_PRIVATE:
        try:
            Exempt.parse(text.strip())
        except MalformedExceptionError as error:
            yield "E001", f"FETCH_ALLOW_PRIVATE must have networks, as 10.1.0.0/16: {error}."
    if bad := [port for port in settings.FETCH_PORTS if not _PORT.fullmatch(port) or int(port) > 65535]:
        yield "E002", f"FETCH_PORTS must have ports, as 443: {bad}."
    if not _CONTACT.fullmatch(settings.FETCH_CONTACT):
        yield "E003", "FETCH_CONTACT must be an address or URL, without spaces or brackets."
    try:
        egress.parse(settings.FETCH_EGRESS)
    except MalformedEgressError as error:
        yield "E009", f"FETCH_EGRESS must have ways out, as a=192.0.2.1: {error}."


def _contradictory() -> Iterator[tuple[str, str]]:
    if settings.FETCH_CONNECT_SECONDS >= settings.FETCH_HEAD_SECONDS:
        yield "E004", "FETCH_CONNECT_SECONDS must be below FETCH_HEAD_SECONDS."
    if settings.FETCH_HEAD_SECONDS > settings.FETCH_DEADLINE_SECONDS:
        yield "E005", "FETCH_HEAD_SECONDS must not be above FETCH_DEADLINE_SECONDS."
    if settings.FETCH_DEADLINE_SECONDS > settings.FETCH_SLOW_DEADLINE_SECONDS:
        yield "E006", "FETCH_DEADLINE_SECONDS must not be above FETCH_SLOW_DEADLINE_SECONDS."
    if settings.FETCH_TIMINGS_DAYS > MOST_TIMINGS_DAYS:
        yield "E007", f"FETCH_TIMINGS_DAYS must not be above {MOST_TIMINGS_DAYS}."
    if settings.FETCH_SLOW_AFTER_SECONDS > settings.FETCH_DEADLINE_SECONDS:
        yield "E008", "FETCH_SLOW_AFTER_SECONDS must not be above FETCH_DEADLINE_SECONDS."


def _missing() -> Iterator[tuple[str, str]]:
    for name in settings.FETCH_TASKS:
        if lack := _lack_of(name):
            yield "E010", f"FETCH_TASKS must name objects with fetch, prepare and obeys_robots: {name} {lack}."
    fetched = [name for name, lane in retry_conf().RETRY_LANES.items() if _is_fetched(lane)]
    if unknown := [name for name in fetched if name not in publishing.PLACES]:
        known, here = ", ".join(publishing.PLACES), ", ".join(unknown)
        yield "E011", f"RETRY_LANES may have these lanes of the fetchers: {known}. They know no {here}."


def _lack_of(name: str) -> str:
    """What keeps the task of that name from being one; empty for a task."""
    try:
        task = conf.task(name)
    except ImportError as error:
        return f"cannot be imported: {error}"
    if isinstance(task, type):
        return "is a class, not an object of it"
    lacks = [method for method in ("fetch", "prepare") if not callable(getattr(task, method, None))]
    if not isinstance(getattr(task, "obeys_robots", None), bool):
        lacks.append("obeys_robots")
    return f"has no {', no '.join(lacks)}" if lacks else ""


def _is_fetched(lane: Lane) -> bool:
    """Whether work of the lane goes to fetchers. A publisher that is not there is retry's to tell (retry.E024)."""
    try:
        return "publisher" in lane and lanes.publisher(lane["publisher"]) is publishing.publish
    except ImportError:
        return False
