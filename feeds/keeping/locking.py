"""Rows are locked in one order by all who change several at once: else two of them could wait for each other."""

from typing import Any

from django.db.models import QuerySet


def lock(rows: QuerySet[Any]) -> list[int]:
    """Locks these for as long as the transaction lasts, and returns their numbers. SQLite locks everything anyway."""
    return list(rows.select_for_update().order_by("pk").values_list("pk", flat=True))
