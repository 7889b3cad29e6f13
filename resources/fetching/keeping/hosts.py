"""The headers that an admin has set for hosts, as all threads of a process know them."""

import logging
import os
from collections.abc import Mapping
from types import MappingProxyType

from resources.snapshots import Snapshot
from resources.threads import usable_connections

from ..errors import UnreadableSealError
from ..requests import Fetch
from . import sealing
from .models import FetchHeader

SNAPSHOT_SECONDS = 1.0
"""How soon a change is seen."""

FETCHES_OWN = frozenset(
    {
        "accept-encoding",
        "cookie",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "range",
    }
)
"""What decides which answer comes, and how it is packed. Of a body that is a part, or that nobody asked for in this
form, nobody could tell; cookies would tie requests of all who want something together."""

NONE: Mapping[str, str] = MappingProxyType({})

_log = logging.getLogger("tarry.headers")


def headers_of(host: str) -> Mapping[str, str]:
    """The fields that requests to this host carry, as `scopes(url).host` names it. Call it in a thread.

    Raises DatabaseError only if they could never be read. A field without a readable value is left out.
    """
    return snapshot.get().get(host, NONE)


def problem_with(name: str, value: str) -> str:
    """Why a field cannot be sent, by the rules of requests; empty when it can."""
    if name.lower() in FETCHES_OWN:
        return f"{name} is for fetches themselves to set, or to leave out"
    try:
        Fetch("http://host.invalid/", headers={name: value})
    except ValueError as error:
        return str(error)
    return ""


def value_of(header: FetchHeader) -> str | None:
    """What is sent; None where it cannot be opened, is not in the environment, or cannot be sent."""
    if header.variable:
        value = os.environ.get(header.variable)
    else:
        try:
            value = sealing.unseal(header.sealed)
        except UnreadableSealError:
            value = None
    return None if not value or problem_with(header.name, value) else value


def reseal() -> None:
    """Seals with the first key what was sealed with a fallback. What no key opens stays as it is."""
    for header in FetchHeader.objects.exclude(sealed=""):
        try:
            again = sealing.resealed(header.sealed)
        except UnreadableSealError:
            continue
        if again != header.sealed:  # unless an admin has set another meanwhile
            FetchHeader.objects.filter(pk=header.pk, sealed=header.sealed).update(sealed=again)


def _read() -> dict[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = {}
    missing = set()
    with usable_connections():
        headers = list(FetchHeader.objects.all())
    for header in headers:
        value = value_of(header)
        if value is None:
            missing.add(str(header))
        else:
            found.setdefault(header.host, {})[header.name] = value
    _tell(missing)
    return {host: MappingProxyType(fields) for host, fields in found.items()}


_told: set[str] = set()


def _tell(missing: set[str]) -> None:
    """Logs what has no value, once for as long as that is so."""
    for name in sorted(missing - _told):
        _log.error("a header has no value that can be sent", extra={"header": name})
    _told.intersection_update(missing)
    _told.update(missing)


snapshot: Snapshot[dict[str, Mapping[str, str]]] = Snapshot("the headers of hosts", _read, lambda: SNAPSHOT_SECONDS)
