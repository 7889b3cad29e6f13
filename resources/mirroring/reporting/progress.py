"""How far a list is: by step, and how its webhook stands in words. Changes nothing."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from django.db.models import Count

from ..knowing.models import Batch, BatchItem, Step

OPEN = ""
"""The step of items that are not settled."""

STORED = frozenset(step.value for step in Step) - {Step.FAILED.value, Step.REFUSED.value}
"""Steps that end with a file."""


def steps_of(*batch_ids: UUID) -> dict[str, int]:
    """How many items each step has settled, open ones left out; in the order of models.Step."""
    counts = counts_of(*batch_ids)
    return {step.value: counts[step.value] for step in Step if step.value in counts}


def counts_of(*batch_ids: UUID) -> Mapping[str, int]:
    """The same with the open ones, under OPEN."""
    rows = BatchItem.objects.filter(batch__in=batch_ids).order_by().values_list("step").annotate(number=Count("*"))
    return dict(rows)


def webhook_stands(batch: Batch, now: datetime) -> str:
    """A sentence about the webhook; empty for a list without one."""
    if not batch.webhook:
        return ""
    if batch.told_at:
        return f"{batch.answer.capitalize()}, after {_calls(batch.calls)}."
    if batch.finished_at is None:
        return "It is called when the list is finished."
    if not batch.calls:
        return "It is being called."
    wait_seconds = max(0, (batch.call_at - now).total_seconds()) if batch.call_at else 0
    return f"{_calls(batch.calls).capitalize()} so far: {batch.answer}. The next in {wait_seconds:,.0f} s."


def _calls(number: int) -> str:
    return "1 call" if number == 1 else f"{number:,} calls"
