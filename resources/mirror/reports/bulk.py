"""Many lists reported one after another, and how far they are together. Holds numbers and ids, no URLs."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from ..knowing.models import Batch, BatchItem, Step
from . import batches, progress, reports
from .batches import Sent

AT_ONCE = 200
"""Lists in one query."""
COUNTED = 20
"""Lists whose open URLs are counted in one look: one that was seldom counted costs progress that shows late."""


class Ingest:
    """The lists of one run. Those that were finished have been counted; the others are looked at again."""

    def __init__(self) -> None:
        self.reported = 0
        self.counts: Counter[str] = Counter()
        self.open = 0
        self._open: dict[UUID, int] = {}
        """Of each unfinished list, as it was counted last; the one whose turn it is comes first."""
        self._all: list[UUID] = []
        self._unfinished: list[UUID] = []

    def report(self, sent: Sent, now: datetime) -> None:
        """Reports a list, or finds it again. Raises ReportError, DatabaseError."""
        reported = reports.report(sent, now)
        self.reported += len(reported.decisions)
        self._all.append(reported.batch.pk)
        if reported.batch.finished_at is None:
            self._unfinished.append(reported.batch.pk)
            self._open[reported.batch.pk] = len(reported.decisions)
        else:
            self.counts.update(one.step for one in reported.decisions)

    def look(self, now: datetime) -> None:
        """Counts the lists that were finished since the last look, and what is open of some others in turn."""
        if self._unfinished:  # one of them in turn, whether or not a worker does
            batches.settle_batch(self._unfinished[0], now)
            self._unfinished.append(self._unfinished.pop(0))
        finished = {one for part in _parts(self._unfinished) for one in _finished_among(part)}
        self._count(sorted(finished))
        self._unfinished = [batch_id for batch_id in self._unfinished if batch_id not in finished]
        for batch_id in finished:
            self._open.pop(batch_id, None)
        for batch_id in list(self._open)[:COUNTED]:
            del self._open[batch_id]
            self._open[batch_id] = BatchItem.objects.filter(batch=batch_id, step="").count()
        self.open = sum(self._open.values())

    def settle_counts(self) -> None:
        """Counts what has ended of unfinished lists, too. For the end: they are not looked at after this."""
        self._count(self._unfinished)
        self.open = self.counts.pop(progress.OPEN, 0)
        self._unfinished = []

    @property
    def is_finished(self) -> bool:
        return not self._unfinished

    @property
    def ended(self) -> int:
        return self.reported - self.open

    @property
    def stored(self) -> int:
        return sum(self.counts[step] for step in progress.STORED)

    @property
    def failures(self) -> int:
        return self.counts[Step.FAILED] + self.counts[Step.REFUSED]

    def examples(self, number: int) -> list[BatchItem]:
        """A few of those that were not stored."""
        found: list[BatchItem] = []
        for ids in _parts(self._all):
            if len(found) >= number:
                break
            rows = BatchItem.objects.filter(batch__in=ids, step__in=(Step.FAILED, Step.REFUSED))
            found += rows.order_by("batch", "position")[: number - len(found)]
        return found

    def _count(self, ids: list[UUID]) -> None:
        for part in _parts(ids):
            counts: Mapping[str, int] = progress.counts_of(*part)
            self.counts.update(counts)


def _parts(ids: list[UUID]) -> list[list[UUID]]:
    return [ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE)]


def _finished_among(ids: list[UUID]) -> set[UUID]:
    return set(Batch.objects.filter(pk__in=ids).exclude(finished_at=None).values_list("pk", flat=True))
