"""Puts admins' limits into force: the rows in the database are the truth, the frontier obeys what stands in Redis.

A change is one transaction: where Redis does not take it, the row stays as it was. restore() puts right what Redis
has lost, and what it has taken without being able to say so.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from retry import connections

from ..addressing.scopes import VIA, is_host, plain
from ..queues import frontier
from ..queues.jobs import InForce, Limits
from .models import FetchDomain

BATCH = 500
RECENT = timedelta(hours=1)
"""Rows that changed within it are compared although they set nothing: they may have set something before."""

NOTHING = InForce(Limits(), "")

_SETS_SOMETHING = (
    Q(paused=True)
    | Q(delay_seconds__isnull=False)
    | Q(in_flight__isnull=False)
    | Q(bytes_per_second__isnull=False)
    | ~Q(counted_by="")
)


def wanted(domain: FetchDomain) -> InForce:
    """What the row says. One way out of a domain is as the domain's own row says, where it says nothing itself."""
    limits = Limits(domain.delay_seconds, domain.in_flight, domain.bytes_per_second, domain.paused)
    if limits == NOTHING.limits and plain(domain.scope) != domain.scope:
        above = FetchDomain.objects.filter(scope=plain(domain.scope)).first()
        return InForce(wanted(above).limits, "") if above else NOTHING
    return InForce(limits, domain.counted_by if is_host(domain.scope) else "")


def put_in_force(scope: str, what: InForce) -> None:
    """Sets the limits, and what they count for. Every fetcher's next claim obeys. Raises StoreUnavailable.

    The frontier sets them for all ways out; those with limits of their own get these again.
    """
    connections.run(frontier.set_limits(scope, what.limits))
    if is_host(scope):
        connections.run(frontier.set_scope(scope, what.counted_by))
    for way in ways_of(scope).filter(_SETS_SOMETHING):
        connections.run(frontier.set_limits(way.scope, wanted(way).limits))


def ways_of(scope: str) -> QuerySet[FetchDomain]:
    """The rows of the domain's ways out; none for one of the ways."""
    return FetchDomain.objects.filter(scope__startswith=f"{scope}{VIA}").order_by("scope")


def save(domain: FetchDomain) -> None:
    """Saves the row and puts it into force. Raises StoreUnavailable, with the row as it was."""
    with transaction.atomic():
        domain.save()
        put_in_force(domain.scope, wanted(domain))


def change(scope: str, **fields: Any) -> None:
    """Sets these fields of the domain, as it stands by now, and puts it into force. Raises StoreUnavailable."""
    with transaction.atomic():
        FetchDomain.objects.get_or_create(scope=scope)
        row = FetchDomain.objects.select_for_update().get(scope=scope)
        for name, value in fields.items():
            setattr(row, name, value)
        row.save(update_fields=(*fields, "updated_at"))
        put_in_force(scope, wanted(row))


def delete(domain: FetchDomain) -> None:
    """Takes its limits back and deletes the row. Raises StoreUnavailable, with the row still there."""
    scope = domain.scope
    with transaction.atomic():
        domain.delete()
        put_in_force(scope, NOTHING)


def doubt(scopes: Iterable[str], now: datetime) -> None:
    """Has restore() compare these: Redis did not say whether it took a change, and may still carry it out."""
    FetchDomain.objects.filter(scope__in=scopes).update(updated_at=now)


def restore(now: datetime) -> list[str]:
    """Sets again what Redis has lost or never heard of. The scopes for which there was something to do.

    Raises StoreUnavailable.
    """
    changed = []
    for rows in _batches(FetchDomain.objects.filter(_SETS_SOMETHING | Q(updated_at__gt=now - RECENT))):
        found = connections.run(frontier.limits_in_force([row.scope for row in rows]))
        for row, in_force in zip(rows, found, strict=True):
            if _comparable(wanted(row)) != _comparable(in_force):
                _restore(row)
                changed.append(row.scope)
    return changed


def _batches(rows: QuerySet[FetchDomain]) -> Iterator[list[FetchDomain]]:
    last = 0
    while some := list(rows.filter(pk__gt=last).order_by("pk")[:BATCH]):
        yield some
        last = some[-1].pk


def _restore(row: FetchDomain) -> None:
    """As the row stands by now: an admin who is about to change it waits for this, or this waits for him."""
    with transaction.atomic():
        current = FetchDomain.objects.select_for_update().filter(pk=row.pk).first()
        if current is not None:
            put_in_force(current.scope, wanted(current))


def _comparable(what: InForce) -> InForce:
    """Redis keeps milliseconds, and floats as text."""
    delay = what.limits.delay_seconds
    return what if delay is None else replace(what, limits=replace(what.limits, delay_seconds=round(delay, 6)))
