"""Which content an address names: asks the function that TRAFFIC has for the beginning of the address.

And tells the functions of TRAFFIC_NOTED, by kind, what somebody wanted of theirs.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import lru_cache

from django.conf import settings
from django.utils.module_loading import import_string

from .asked import Asked
from .tallying import Name

Note = Callable[[Collection[str], datetime], None]
"""Notes that all of these were wanted, as of now. It may be told the same again."""

_log = logging.getLogger("tarry.traffic")


def name(address: str) -> Asked | None:
    """What the address asks for; None when nobody knows it."""
    for beginning, naming in namers(tuple(settings.TRAFFIC.items())):
        if address.startswith(beginning):
            return _named(naming, address)
    return None


@lru_cache(maxsize=4)  # tests change the setting
def namers(traffic: tuple[tuple[str, str], ...]) -> list[tuple[str, Name]]:
    """The functions by the beginnings of their addresses, the longest first. Raises ImportError."""
    found: Mapping[str, Name] = {beginning: import_string(path) for beginning, path in traffic}
    return sorted(found.items(), key=lambda item: -len(item[0]))


def note(noted: Mapping[str, Collection[str]], now: datetime) -> None:
    """Tells each kind's function what was wanted of it. Never fails: what is not noted is noted the next time."""
    for kind, wanted in noted.items():
        try:
            if noter := noters(tuple(settings.TRAFFIC_NOTED.items())).get(kind):
                noter(wanted, now)
        except Exception:  # noqa: BLE001  an app's own function, as below
            _log.exception("could not note", extra={"kind": kind})


@lru_cache(maxsize=4)
def noters(noted: tuple[tuple[str, str], ...]) -> dict[str, Note]:
    """The functions by kind. Raises ImportError."""
    return {kind: import_string(path) for kind, path in noted}


def _named(naming: Name, address: str) -> Asked | None:
    try:
        return naming(address)
    except Exception:  # noqa: BLE001  an app's own function: one odd address must not stop the count for good
        _log.exception("could not name", extra={"address": address[:200]})
        return None
