"""System checks of the settings for traffic."""

import re
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from . import counter

ADDRESS_BEGINNING = re.compile(r"/(?:[A-Za-z0-9._~-]+/)*[A-Za-z0-9._~-]*")


def check_traffic(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Checks TRAFFIC (beginnings of addresses, and their naming functions), TRAFFIC_NOTED, TRAFFIC_LOG_MAX_BYTES."""
    found: list[CheckMessage] = []
    if bad := [beginning for beginning in settings.TRAFFIC if not ADDRESS_BEGINNING.fullmatch(beginning)]:
        found.append(Error(f"TRAFFIC must have beginnings of addresses, as /tiles/: {bad}.", id="resources.E001"))
    try:
        counter.load_namers(tuple(settings.TRAFFIC.items()))
        counter.load_noters(tuple(settings.TRAFFIC_NOTED.items()))
    except ImportError as error:
        text = f"TRAFFIC or TRAFFIC_NOTED names a function that is not there: {error}."
        found.append(Error(text, id="resources.E002"))
    if settings.TRAFFIC_LOG_MAX_BYTES < 1_000_000:
        found.append(Error("TRAFFIC_LOG_MAX_BYTES must be at least 1,000,000.", id="resources.E003"))
    return found
