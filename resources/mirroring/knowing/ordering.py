"""Changes and removes rows, which it locks in the order of their keys: in that order all others write them.

Whoever writes the same rows waits then, and nobody waits in a circle, as two would who lock them as they find them.
One statement, which is a transaction of its own. With SQLite, which has one writer at a time, it is a plain statement.
"""

import time
from collections.abc import Iterator
from typing import Any, TypeVar

from django.db import models, transaction

AT_ONCE = 500
"""Rows in one statement: of one content there may be a million URLs."""

Row = TypeVar("Row", bound=models.Model)


def update(some: models.QuerySet[Row], **values: Any) -> int:
    """Gives all of them these values; how many there were. Raises DatabaseError."""
    with transaction.atomic():
        return _locked(some).update(**values)


def delete(some: models.QuerySet[Row]) -> None:
    """Removes all of them. Raises DatabaseError."""
    with transaction.atomic():
        _locked(some).delete()


def delete_all(some: models.QuerySet[Row], until: float | None = None) -> bool:
    """The same of so many that one statement would hold others up, until then (monotonic); whether all are gone."""
    for keys in portions(some):
        delete(some.filter(pk__in=keys))
        if until is not None and time.monotonic() >= until:
            return not some.exists()
    return True


def portions(some: models.QuerySet[Row]) -> Iterator[list[str]]:
    """Keys of some of them at a time, until there are none: whoever asks for more has changed those of before."""
    while keys := list(some.order_by().values_list("pk", flat=True)[:AT_ONCE]):
        yield keys


def _locked(some: models.QuerySet[Row]) -> models.QuerySet[Row]:
    keys = some.order_by("pk").select_for_update().values("pk")
    return some.model._default_manager.filter(pk__in=keys)
