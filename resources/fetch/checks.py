"""System checks of fetching: settings that contradict each other or have no meaning."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from retry import lanes
from retry.conf import LaneBounds
from retry.conf import conf as retry_conf

from . import conf, dispatch
from .http import limit_scopes
from .http.allowed_ips import ExemptNetwork
from .http.messages import MalformedEgressError, MalformedExceptionError

MAX_TIMINGS_DAYS = 36_500
ROUNDING = 1e-9

_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_CONTACT = re.compile(r"[!-'*-~]{0,200}", re.ASCII)


def check_fetching(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Checks FETCH_*: names can be parsed and imported, and times fit together."""
    found = (*_unreadable(), *_contradictory(), *_missing())
    return [Error(text, id=f"fetching.{number}") for number, text in found]


def _unreadable() -> Iterator[tuple[str, str]]:
    for text in settings.FETCH_ALLOW_PRIVATE:
        try:
            ExemptNetwork.parse(text.strip())
        except MalformedExceptionError as error:
            yield "E001", f"FETCH_ALLOW_PRIVATE must have networks, as 10.1.0.0/16: {error}."
    if bad := [port for port in settings.FETCH_PORTS if not _PORT.fullmatch(port) or int(port) > 65535]:
        yield "E002", f"FETCH_PORTS must have ports, as 443: {bad}."
    if not _CONTACT.fullmatch(settings.FETCH_CONTACT):
        yield "E003", "FETCH_CONTACT must be an address or URL, without spaces or brackets."
    try:
        limit_scopes.parse_egresses(settings.FETCH_EGRESS)
    except MalformedEgressError as error:
        yield "E009", f"FETCH_EGRESS must name egresses, as a=192.0.2.1: {error}."


def _contradictory() -> Iterator[tuple[str, str]]:
    if settings.FETCH_CONNECT_SECONDS >= settings.FETCH_HEAD_SECONDS:
        yield "E004", "FETCH_CONNECT_SECONDS must be below FETCH_HEAD_SECONDS."
    if settings.FETCH_HEAD_SECONDS > settings.FETCH_DEADLINE_SECONDS:
        yield "E005", "FETCH_HEAD_SECONDS must not be above FETCH_DEADLINE_SECONDS."
    if settings.FETCH_DEADLINE_SECONDS > settings.FETCH_SLOW_DEADLINE_SECONDS:
        yield "E006", "FETCH_DEADLINE_SECONDS must not be above FETCH_SLOW_DEADLINE_SECONDS."
    if settings.FETCH_TIMINGS_DAYS > MAX_TIMINGS_DAYS:
        yield "E007", f"FETCH_TIMINGS_DAYS must not be above {MAX_TIMINGS_DAYS}."
    if settings.FETCH_SLOW_AFTER_SECONDS > settings.FETCH_DEADLINE_SECONDS:
        yield "E008", "FETCH_SLOW_AFTER_SECONDS must not be above FETCH_DEADLINE_SECONDS."
    if settings.FETCH_IN_FLIGHT > settings.FETCH_MAX_IN_FLIGHT:
        yield "E012", "FETCH_IN_FLIGHT must not be above FETCH_MAX_IN_FLIGHT."
    if 0 < settings.FETCH_MAX_PER_SECOND * settings.FETCH_DELAY_SECONDS < 1 - ROUNDING:
        yield "E013", "FETCH_DELAY_SECONDS must not be below the gap of FETCH_MAX_PER_SECOND."


def _missing() -> Iterator[tuple[str, str]]:
    for name in settings.FETCH_TASKS:
        if lack := _describe_task_defect(name):
            yield "E010", f"FETCH_TASKS must name objects with fetch, prepare and obeys_robots: {name} {lack}."
    fetched = [name for name, lane in retry_conf().RETRY_LANES.items() if _is_fetched(lane)]
    if unknown := [name for name in fetched if name not in dispatch.LANE_MAPPINGS]:
        known, here = ", ".join(dispatch.LANE_MAPPINGS), ", ".join(unknown)
        yield "E011", f"RETRY_LANES may have these lanes of the fetchers: {known}. They know no {here}."


def _describe_task_defect(name: str) -> str:
    """Says why the object of that name is no task; empty for a task."""
    try:
        task = conf.find_task(name)
    except ImportError as error:
        return f"cannot be imported: {error}"
    if isinstance(task, type):
        return "is a class, not an object of it"
    lacks = [method for method in ("fetch", "prepare") if not callable(getattr(task, method, None))]
    if not isinstance(getattr(task, "obeys_robots", None), bool):
        lacks.append("obeys_robots")
    return f"has no {', no '.join(lacks)}" if lacks else ""


def _is_fetched(lane: LaneBounds) -> bool:
    """Tells whether fetchers do the lane's work. retry.E024 reports a publisher that cannot be imported."""
    try:
        return "publisher" in lane and lanes.load_publisher(lane["publisher"]) is dispatch.publish
    except ImportError:
        return False
