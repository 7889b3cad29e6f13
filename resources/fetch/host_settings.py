"""The settings that admins and layers make for domains and hosts: limits and header fields.

The rows in the database are the truth. The frontier obeys the copy of the limits in Redis: a change is one
transaction, and if Redis does not take it, the row stays as it was. restore_limits() repairs limits that Redis has
lost, and those that it has taken without a reply.

Values of header fields are sealed with keys derived from SECRET_KEY and SECRET_KEY_FALLBACKS. Values sealed with a
fallback can still be opened; reseal_value() seals them with the first key.
"""

import logging
import os
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Self

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Concat

from retry import stores

from ..caches import Snapshot
from ..database import usable_connections
from .frontier import queue
from .frontier.jobs import DomainLimits, LimitsInForce
from .http.limit_scopes import EGRESS_SEPARATOR, is_host_scope, strip_egress, url_scopes
from .http.messages import FetchRequest, UnreadableSealError
from .models import FetchDomain, FetchHeader, FetchTiming

SEAL_PURPOSE = b"tarry: headers of fetches"


def seal_value(text: str) -> str:
    """Returns the text, encrypted and authenticated (Fernet)."""
    return _seal_keys()[0].encrypt(text.encode()).decode()


def unseal_value(sealed: str) -> str:
    """Returns the sealed text. Raises UnreadableSealError if no current key has sealed it."""
    try:
        return MultiFernet(_seal_keys()).decrypt(sealed).decode()
    except (InvalidToken, ValueError) as error:
        raise UnreadableSealError("a sealed value cannot be opened: its key is gone") from error


def reseal_value(sealed: str) -> str:
    """Returns the value sealed with the first key; the very same text if that has sealed it already."""
    try:
        _seal_keys()[0].decrypt(sealed)
    except InvalidToken:
        return seal_value(unseal_value(sealed))
    return sealed


def _seal_keys() -> list[Fernet]:
    return [_seal_key(secret) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]


@cache
def _seal_key(secret: str) -> Fernet:
    """Derives a key by HKDF (RFC 5869) without salt: the secret is random, and the purpose separates its uses."""
    derived = HKDF(SHA256(), length=32, salt=None, info=SEAL_PURPOSE).derive(secret.encode())
    return Fernet(urlsafe_b64encode(derived))


HEADERS_SNAPSHOT_SECONDS = 1.0
"""Delay until a change is seen."""

_CONDITIONS = {"if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since"}
FIELDS_OF_FETCHES = frozenset({"accept-encoding", "cookie", "range", *_CONDITIONS})
"""Fields that decide on the answer and its coding. A partial body, or one of another coding, could not be told
from a whole one; cookies would connect requests of different users.
"""

HARMLESS_FIELDS = frozenset({"accept", "accept-language", "referer", "user-agent"})
"""Fields that hold no secrets. Every other field may be one."""

_log = logging.getLogger("tarry.headers")


@dataclass(frozen=True, slots=True)
class HostHeader:
    """A header field for one host: its value, and the requests that it goes with."""

    name: str
    value: str = field(repr=False)
    over_http: bool = False
    to_any_address: bool = False
    """True: the URL need not be chosen by an admin."""

    @classmethod
    def of(cls, row: FetchHeader, value: str) -> Self:
        if row.name.lower() in HARMLESS_FIELDS:
            return cls(row.name, value, over_http=True, to_any_address=True)
        return cls(row.name, value, row.over_http, row.to_any_address)


def headers_for_url(url: str) -> tuple[HostHeader, ...]:
    """Returns the header fields for the host of this URL. Runs in a thread.

    Raises DatabaseError only if they could never be read. A field without a readable value is left out.
    """
    return find_headers(headers_snapshot.get(), url)


def find_headers(known: Mapping[str, tuple[HostHeader, ...]], url: str) -> tuple[HostHeader, ...]:
    """Returns those of known headers that are for the host of this URL. Raises ValueError without one."""
    return known.get(url_scopes(url).host, ()) if known else ()


def find_header_problem(name: str, value: str) -> str:
    """Says why a field cannot be sent, by the rules of requests; empty if it can."""
    if name.lower() in FIELDS_OF_FETCHES:
        return f"{name} is for fetches themselves to set, or to leave out"
    try:
        FetchRequest("http://host.invalid/", headers={name: value})
    except ValueError as error:
        return str(error)
    return ""


def header_value(header: FetchHeader) -> str | None:
    """Returns the value; None if it cannot be unsealed, is not in the environment, or cannot be sent."""
    if header.variable:
        value = os.environ.get(header.variable)
    else:
        try:
            value = unseal_value(header.sealed)
        except UnreadableSealError:
            value = None
    return None if not value or find_header_problem(header.name, value) else value


def reseal_headers() -> None:
    """Seals values of fallback keys with the first key. Values that no key opens stay as they are."""
    for header in FetchHeader.objects.exclude(sealed=""):
        try:
            again = reseal_value(header.sealed)
        except UnreadableSealError:
            continue
        if again != header.sealed:  # unless an admin has set another meanwhile
            FetchHeader.objects.filter(pk=header.pk, sealed=header.sealed).update(sealed=again)


def _read_headers() -> dict[str, tuple[HostHeader, ...]]:
    found: dict[str, tuple[HostHeader, ...]] = {}
    missing = set()
    with usable_connections():
        headers = list(FetchHeader.objects.all())
    for header in headers:
        value = header_value(header)
        if value is None:
            missing.add(str(header))
        else:
            found[header.host] = (*found.get(header.host, ()), HostHeader.of(header, value))
    _log_missing(missing)
    return found


_logged_missing: set[str] = set()
_logged_withheld: set[str] = set()


def _log_missing(missing: set[str]) -> None:
    """Logs fields without a value, each once for as long as that is so."""
    for name in sorted(missing - _logged_missing):
        _log.error("a header has no value that can be sent", extra={"header": name})
    _logged_missing.intersection_update(missing)
    _logged_missing.update(missing)


def log_withheld(host: str, names: Iterable[str]) -> None:
    """Logs fields that a request over http goes without, each once: before an upgrade, they may have been sent."""
    for name in sorted({f"{name} for {host}" for name in names} - _logged_withheld):
        _log.warning("a header is not sent over http: that can be ticked in the admin", extra={"header": name})
        _logged_withheld.add(name)


headers_snapshot: Snapshot[dict[str, tuple[HostHeader, ...]]] = Snapshot(
    "the headers of hosts", _read_headers, lambda: HEADERS_SNAPSHOT_SECONDS
)


RESTORE_BATCH_ROWS = 500
RECENT_CHANGE = timedelta(hours=1)
"""Rows that changed within it are compared although they set nothing: they may have set something before."""

NO_LIMITS = LimitsInForce(DomainLimits(), "")

_SETS_SOMETHING = (
    Q(paused=True)
    | Q(delay_seconds__isnull=False)
    | Q(in_flight__isnull=False)
    | Q(own_in_flight__isnull=False)
    | Q(bytes_per_second__isnull=False)
    | ~Q(counted_by="")
)


def limits_of_row(domain: FetchDomain) -> LimitsInForce:
    """Returns the limits of the row. The row of an egress without limits has those of the domain's own row.

    At an own server no gap is kept, and bytes have no rate.
    What an admin has set for the domain wins, each limit by itself.
    """
    delay_seconds, in_flight, most_bytes = domain.delay_seconds, domain.in_flight, domain.bytes_per_second
    if domain.own_in_flight is not None:
        delay_seconds = 0.0 if delay_seconds is None else delay_seconds
        in_flight = domain.own_in_flight if in_flight is None else in_flight
        most_bytes = 0 if most_bytes is None else most_bytes
    limits = DomainLimits(delay_seconds, in_flight, most_bytes, domain.paused)
    if limits == NO_LIMITS.limits and strip_egress(domain.scope) != domain.scope:
        above = FetchDomain.objects.filter(scope=strip_egress(domain.scope)).first()
        return LimitsInForce(limits_of_row(above).limits, "") if above else NO_LIMITS
    return LimitsInForce(limits, domain.counted_by if is_host_scope(domain.scope) else "")


def put_in_force(scope: str, in_force: LimitsInForce) -> None:
    """Sets the limits, and the scope they count for. Every fetcher's next claim obeys. Raises StoreUnavailable.

    The frontier sets them for all egresses; those with limits of their own get these again.
    """
    stores.run_steps(queue.set_limits(scope, in_force.limits))
    if is_host_scope(scope):
        stores.run_steps(queue.set_scope_rule(scope, in_force.counted_by))
    for row in egress_rows(scope).filter(_SETS_SOMETHING):
        stores.run_steps(queue.set_limits(row.scope, limits_of_row(row).limits))


def egress_rows(scope: str) -> QuerySet[FetchDomain]:
    """Returns the rows of the domain's egresses; none for the row of an egress."""
    return FetchDomain.objects.filter(scope__startswith=f"{scope}{EGRESS_SEPARATOR}").order_by("scope")


def save_domain(domain: FetchDomain) -> None:
    """Saves the row and puts it into force. Raises StoreUnavailable, with the row as it was."""
    with transaction.atomic():
        domain.save()
        put_in_force(domain.scope, limits_of_row(domain))


def change_domain(scope: str, **fields: Any) -> None:
    """Sets these fields of the domain's current row, and puts it into force. Raises StoreUnavailable."""
    with transaction.atomic():
        FetchDomain.objects.get_or_create(scope=scope)
        row = FetchDomain.objects.select_for_update().get(scope=scope)
        for name, value in fields.items():
            setattr(row, name, value)
        row.save(update_fields=(*fields, "updated_at"))
        put_in_force(scope, limits_of_row(row))


def set_own_servers(find: Callable[[], Mapping[str, int]]) -> None:
    """Makes the found domains own servers, each with its most requests in flight, and no others.

    Raises StoreUnavailable, with the rest as it was.
    """
    known = dict(FetchDomain.objects.filter(own_in_flight__isnull=False).values_list("scope", "own_in_flight"))
    in_flight = find()  # after the rows: a server that was added meanwhile is not withdrawn
    for scope in sorted({*in_flight, *known}):
        if in_flight.get(scope) != known.get(scope):
            change_domain(scope, own_in_flight=in_flight.get(scope))


def delete_domain(domain: FetchDomain) -> None:
    """Withdraws its limits and deletes the row. Raises StoreUnavailable, with the row still there."""
    scope = domain.scope
    with transaction.atomic():
        domain.delete()
        put_in_force(scope, NO_LIMITS)


def find_unused_domains(before: datetime) -> QuerySet[FetchDomain]:
    """Finds the domains that are older, have no timing, under any egress, and nothing that an admin has set.

    Learnt values are the frontier's, and stay there.
    """
    vias = ["", *(f"{EGRESS_SEPARATOR}{egress.name}" for egress in queue.configured_egresses())]
    timings = [FetchTiming.objects.filter(scope=Concat(OuterRef("scope"), Value(via))) for via in vias]
    rows = FetchDomain.objects.filter(~_SETS_SOMETHING, note="", updated_at__lt=before)
    return rows.filter(*(~Exists(some) for some in timings))


def mark_doubtful(scopes: Iterable[str], now: datetime) -> None:
    """Makes restore_limits() compare these: Redis gave no reply to a change, and may still carry it out."""
    FetchDomain.objects.filter(scope__in=scopes).update(updated_at=now)


def restore_limits(now: datetime) -> list[str]:
    """Sets limits again that Redis has lost or never received. Returns the scopes that it changed.

    Raises StoreUnavailable.
    """
    changed = []
    for rows in _row_batches(FetchDomain.objects.filter(_SETS_SOMETHING | Q(updated_at__gt=now - RECENT_CHANGE))):
        found = stores.run_steps(queue.read_limits_in_force([row.scope for row in rows]))
        for row, in_force in zip(rows, found, strict=True):
            if _comparable(limits_of_row(row)) != _comparable(in_force):
                _restore_row(row)
                changed.append(row.scope)
    return changed


def _row_batches(rows: QuerySet[FetchDomain]) -> Iterator[list[FetchDomain]]:
    last = 0
    while some := list(rows.filter(pk__gt=last).order_by("pk")[:RESTORE_BATCH_ROWS]):
        yield some
        last = some[-1].pk


def _restore_row(row: FetchDomain) -> None:
    """Restores the current row: an admin's change of it waits for this, or this waits for the change."""
    with transaction.atomic():
        current = FetchDomain.objects.select_for_update().filter(pk=row.pk).first()
        if current is not None:
            put_in_force(current.scope, limits_of_row(current))


def _comparable(in_force: LimitsInForce) -> LimitsInForce:
    """Rounds the delay: Redis keeps milliseconds, and floats as text."""
    delay = in_force.limits.delay_seconds
    if delay is None:
        return in_force
    return replace(in_force, limits=replace(in_force.limits, delay_seconds=round(delay, 6)))
