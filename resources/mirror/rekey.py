"""Moves stored URLs to their keys under the rules of today, when rules have changed.

Walks over all rows, a little at a time. The position is kept in `state`; the walk begins again if it is lost. A
row is copied to the key under which the rules would write it now; the old row stays while look-ups still find it
there (see `canonical.urls.candidate_digests`). So no stored URL is fetched again, neither after an approval nor
after a withdrawal. A takedown counts for all URLs that become one with it. Wanted rows are left to be settled,
and looked at later.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, cast

from retry import stores

from .. import database
from . import lookup
from .canonical.rules import UrlRules
from .canonical.urls import candidate_digests
from .errors import UrlError
from .models import BatchItem, DedupeStep, Resource, UrlState
from .storage import takedown

PROGRESS_KEY = "mirror:keyed"
SLICE_ROWS = 500
LOOK_AGAIN_AFTER = timedelta(minutes=10)
"""The time after which rows that could not be moved are looked at once more."""


@dataclass(slots=True)
class RekeyResult:
    """The result of a walk: digests that have a row now, those that no longer have one, and rows left unmoved."""

    stored: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    left: int = 0
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class _RekeyProgress:
    """The position of the walk: its rules, the last digest, the number of rows left unmoved, and when it goes on."""

    rules: str
    after: str = ""
    left: int = 0
    goes_on_at: float = 0


NEVER = -1.0
_PROGRESS_FIELDS = tuple(one.name for one in fields(_RekeyProgress))


def rekey_rows(rules: UrlRules, settle_seconds: float, seconds: float, now: datetime) -> RekeyResult:
    """Goes on with the walk for so many seconds. Does nothing if all rows have been looked at under these rules.

    The walk begins `settle_seconds` after it has first seen the rules: other processes use the old ones for as long.
    Raises RedisError and DatabaseError.
    """
    place = _read_progress()
    if place is None or place.rules != rules.fingerprint:
        place = _RekeyProgress(rules.fingerprint, goes_on_at=now.timestamp() + settle_seconds)
        _write_progress(place)
    done = RekeyResult()
    if not 0 <= place.goes_on_at <= now.timestamp():
        return done
    until = time.monotonic() + seconds
    after, left = place.after, place.left
    while rows := list(Resource.objects.filter(pk__gt=after).order_by("pk")[:SLICE_ROWS]):
        left += _rekey_slice(rows, rules, done)
        after = rows[-1].pk
        if time.monotonic() > until:
            break
    done.left, done.is_complete = left, not rows
    again = (now + LOOK_AGAIN_AFTER).timestamp() if left else NEVER
    _write_progress(_RekeyProgress(place.rules, after, left) if rows else _RekeyProgress(place.rules, goes_on_at=again))
    return done


def _rekey_slice(rows: Sequence[Resource], rules: UrlRules, done: RekeyResult) -> int:
    """Moves some rows to their keys. Returns how many could not be moved."""
    copies: dict[str, Resource] = {}
    misplaced: dict[str, str] = {}
    for row in rows:
        try:
            keys = candidate_digests(row.url, rules)
        except UrlError:  # a rule of today refuses it: it is no longer asked for
            continue
        if row.url_digest not in keys:
            misplaced[row.url_digest] = keys[-1]
        if row.url_digest != keys[-1] and _is_final(row) and (keys[-1] not in copies or _is_taken_down(row)):
            copies[keys[-1]] = row
    if copies:
        done.stored += _write_copies(copies)
    left = _remove_misplaced(rows, misplaced, done) if misplaced else 0
    lookup.forget_statuses([*copies, *misplaced])  # all of them: a walk that was killed just before comes by again
    return left


def _is_final(row: Resource) -> bool:
    """True if the row is stored or taken down: it must not be fetched again, under any key."""
    return row.state == UrlState.STORED or _is_taken_down(row)


def _is_taken_down(row: Resource) -> bool:
    return row.state == UrlState.FAILED and row.failure == takedown.TAKEN_DOWN_FAILURE


def _write_copies(copies: dict[str, Resource]) -> list[str]:
    """Writes the rows under these digests, unless another row is in their way. Returns the digests written."""
    there = Resource.objects.only("state", "failure").in_bulk(copies)
    new = [
        _copy_of(copies[digest], digest)
        for digest in sorted(copies)
        if _may_be_overwritten(there.get(digest), copies[digest])
    ]
    over = Resource.objects.filter(pk__in=[row.pk for row in new if row.pk in there])
    database.delete_in_order(over.exclude(state=UrlState.WANTED).exclude(failure=takedown.TAKEN_DOWN_FAILURE))
    Resource.objects.bulk_create(new, ignore_conflicts=True)  # it may have been reported just now
    return [row.pk for row in new]


def _may_be_overwritten(there: Resource | None, to: Resource) -> bool:
    """True if a failed row is there, or a stored one and `to` was taken down; never if it is wanted or taken down."""
    if there is None:
        return True
    if there.state == UrlState.WANTED or _is_taken_down(there):
        return False
    return there.state == UrlState.FAILED or _is_taken_down(to)


def _copy_of(row: Resource, digest: str) -> Resource:
    values = {name.attname: getattr(row, name.attname) for name in Resource._meta.concrete_fields}
    step = DedupeStep.KNOWN if row.state == UrlState.STORED else row.step
    return Resource(**{**values, "url_digest": digest, "step": step})


def _remove_misplaced(rows: Sequence[Resource], misplaced: dict[str, str], done: RekeyResult) -> int:
    """Removes rows that look-ups no longer find, once their new row says the same; failed ones at once."""
    there = Resource.objects.only("state", "failure").in_bulk(list(misplaced.values()))
    by_digest = {row.pk: row for row in rows}
    gone = [digest for digest, at in misplaced.items() if _is_replaced_by(there.get(at), by_digest[digest])]
    awaited = set(BatchItem.objects.filter(url_digest__in=gone, step="").values_list("url_digest", flat=True))
    gone = [digest for digest in gone if digest not in awaited]  # a batch is about to be settled by this row
    database.delete_in_order(Resource.objects.filter(pk__in=gone).exclude(state=UrlState.WANTED))
    done.gone += gone
    return len(misplaced) - len(gone)


def _is_replaced_by(there: Resource | None, row: Resource) -> bool:
    """True if the row may go because of the one under its new key."""
    if not _is_final(row):
        return row.state == UrlState.FAILED
    return there is not None and (_is_taken_down(there) or (there.state == row.state == UrlState.STORED))


def _read_progress() -> _RekeyProgress | None:
    found = cast(list[bytes | None], stores.patient_client("state").hmget(PROGRESS_KEY, *_PROGRESS_FIELDS))
    if None in found:
        return None
    rules, after, left, goes_on_at = (value.decode() for value in found if value is not None)
    return _RekeyProgress(rules, after, int(left), float(goes_on_at))


def _write_progress(place: _RekeyProgress) -> None:
    values: dict[Any, str | float] = asdict(place)
    stores.patient_client("state").hset(PROGRESS_KEY, mapping=values)
