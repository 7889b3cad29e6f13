"""System checks: settings of fetching that contradict each other, or that mean nothing."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from .addressing import egress
from .addressing.addresses import Exempt
from .errors import MalformedEgressError, MalformedExceptionError

MOST_TIMINGS_DAYS = 36_500

_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_CONTACT = re.compile(r"[!-'*-~]{0,200}", re.ASCII)


def check_fetching(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """FETCH_*: networks, ports, ways out and the contact can be read, and times fit into one another."""
    return [Error(said, id=f"fetching.{number}") for number, said in (*_unreadable(), *_contradictory())]


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
