"""Gives stored URLs the keys that they have under the rules of today, when rules have changed.

Walks over all rows, a little at a time; where it has come to is kept in `state`, and is begun again if that is lost.
A row goes where the rules would write it now; it stays as well where it was while it is still found there (see
`canonical.urls.known_as`). So nothing that was stored is fetched again, neither after an approval nor when a rule is
taken back. What was taken down counts for all that become one with it. What is still wanted is left to be settled, and
looked at once more later.
"""

import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, cast

from retry import connections

from ..canonical.rules import Rules
from ..canonical.urls import known_as
from ..errors import UrlError
from ..knowing import ordering, seen
from ..knowing.models import BatchItem, Resource, State, Step
from ..storing import taking_down

KEY = "mirror:keyed"
SLICE = 500
AGAIN = timedelta(minutes=10)
"""When rows that could not be moved are looked at once more."""


@dataclass(slots=True)
class Rekeyed:
    """What was done: digests under which something is stored now, and those under which nothing is any more."""

    stored: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    left: int = 0
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class _Place:
    """How far the walk has come: under which rules, after which digest, how many it had to leave; when it goes on."""

    rules: str
    after: str = ""
    left: int = 0
    goes_on_at: float = 0


NEVER = -1.0
_FIELDS = tuple(one.name for one in fields(_Place))


def rekey(rules: Rules, settle_seconds: float, seconds: float, now: datetime) -> Rekeyed:
    """Goes on for so many seconds. Does nothing when all rows have been looked at under these rules.

    It begins `settle_seconds` after it has seen the rules for the first time: other processes go by the ones before
    for as long. Raises RedisError and DatabaseError.
    """
    place = _read()
    if place is None or place.rules != rules.fingerprint:
        place = _Place(rules.fingerprint, goes_on_at=now.timestamp() + settle_seconds)
        _write(place)
    done = Rekeyed()
    if not 0 <= place.goes_on_at <= now.timestamp():
        return done
    until = time.monotonic() + seconds
    after, left = place.after, place.left
    while rows := list(Resource.objects.filter(pk__gt=after).order_by("pk")[:SLICE]):
        left += _settle(rows, rules, done)
        after = rows[-1].pk
        if time.monotonic() > until:
            break
    done.left, done.is_complete = left, not rows
    again = (now + AGAIN).timestamp() if left else NEVER
    _write(_Place(place.rules, after, left) if rows else _Place(place.rules, goes_on_at=again))
    return done


def _settle(rows: Sequence[Resource], rules: Rules, done: Rekeyed) -> int:
    """Brings some rows to where they belong. How many could not be brought there."""
    copies: dict[str, Resource] = {}
    misplaced: dict[str, str] = {}
    for row in rows:
        try:
            keys = known_as(row.url, rules)
        except UrlError:  # a rule of today refuses it: it is not asked for any more
            continue
        if row.url_digest not in keys:
            misplaced[row.url_digest] = keys[-1]
        if row.url_digest != keys[-1] and _goes_along(row) and (keys[-1] not in copies or _is_taken_down(row)):
            copies[keys[-1]] = row
    if copies:
        done.stored += _copy(copies)
    left = _remove(rows, misplaced, done) if misplaced else 0
    seen.forget([*copies, *misplaced])  # all of them: a walk that was killed just before comes by again
    return left


def _goes_along(row: Resource) -> bool:
    """What is stored, and what was taken down: that is not fetched again, whatever its key."""
    return row.state == State.STORED or _is_taken_down(row)


def _is_taken_down(row: Resource) -> bool:
    return row.state == State.FAILED and row.failure == taking_down.FAILURE


def _copy(copies: dict[str, Resource]) -> list[str]:
    """Writes them under these digests, where nothing is in their way."""
    there = Resource.objects.only("state", "failure").in_bulk(copies)
    new = [
        _copied(copies[digest], digest) for digest in sorted(copies) if _gives_way(there.get(digest), copies[digest])
    ]
    over = Resource.objects.filter(pk__in=[row.pk for row in new if row.pk in there])
    ordering.delete(over.exclude(state=State.WANTED).exclude(failure=taking_down.FAILURE))
    Resource.objects.bulk_create(new, ignore_conflicts=True)  # it may have been reported just now
    return [row.pk for row in new]


def _gives_way(there: Resource | None, to: Resource) -> bool:
    """What failed does; to what was taken down also what is stored; what was taken down itself, or is wanted, never."""
    if there is None:
        return True
    if there.state == State.WANTED or _is_taken_down(there):
        return False
    return there.state == State.FAILED or _is_taken_down(to)


def _copied(row: Resource, digest: str) -> Resource:
    values = {name.attname: getattr(row, name.attname) for name in Resource._meta.concrete_fields}
    step = Step.KNOWN if row.state == State.STORED else row.step
    return Resource(**{**values, "url_digest": digest, "step": step})


def _remove(rows: Sequence[Resource], misplaced: dict[str, str], done: Rekeyed) -> int:
    """Removes rows that no look-up finds any more, once what they say is said elsewhere; failed ones at once."""
    there = Resource.objects.only("state", "failure").in_bulk(list(misplaced.values()))
    by_digest = {row.pk: row for row in rows}
    gone = [digest for digest, at in misplaced.items() if _is_said_by(there.get(at), by_digest[digest])]
    awaited = set(BatchItem.objects.filter(url_digest__in=gone, step="").values_list("url_digest", flat=True))
    gone = [digest for digest in gone if digest not in awaited]  # a list is about to be settled by its row
    ordering.delete(Resource.objects.filter(pk__in=gone).exclude(state=State.WANTED))
    done.gone += gone
    return len(misplaced) - len(gone)


def _is_said_by(there: Resource | None, row: Resource) -> bool:
    """Whether the row may go because of the one under its new key."""
    if not _goes_along(row):
        return row.state == State.FAILED
    return there is not None and (_is_taken_down(there) or (there.state == row.state == State.STORED))


def _read() -> _Place | None:
    found = cast(list[bytes | None], connections.patient_client("state").hmget(KEY, *_FIELDS))
    if None in found:
        return None
    rules, after, left, goes_on_at = (value.decode() for value in found if value is not None)
    return _Place(rules, after, int(left), float(goes_on_at))


def _write(place: _Place) -> None:
    values: dict[Any, str | float] = dict(zip(_FIELDS, astuple(place), strict=True))
    connections.patient_client("state").hset(KEY, mapping=values)
