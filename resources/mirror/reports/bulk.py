"""Reports many lists of URLs from a file, one after another, and counts their common progress: `manage.py ingest`.

Holds numbers and ids, no URLs: the file is read in lists that fit into memory.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import BinaryIO
from uuid import UUID

from resources import database

from ..models import Batch, BatchItem, DedupeStep
from . import batches, report
from .batches import SentList

BATCHES_PER_QUERY = 200
LOOKS_PER_SETTLING = 5
"""Batches of which a part has ended are settled more rarely: workers do so every two seconds."""
BATCHES_COUNTED_PER_LOOK = 20
"""Batches whose open URLs are counted in one look. The progress of the others shows later."""


class BulkIngest:
    """The batches of one run. Finished ones have been counted; the others are looked at again."""

    def __init__(self) -> None:
        self.reported = 0
        self.counts: Counter[str] = Counter()
        self.open = 0
        self._open: dict[UUID, int] = {}
        """The open items of each unfinished batch by the last count; the batch whose turn it is comes first."""
        self._all: list[UUID] = []
        self._unfinished: list[UUID] = []
        self._looks = 0

    def report(self, sent: SentList, now: datetime) -> None:
        """Reports a list, or finds its batch again. Raises ReportError, DatabaseError."""
        reported = report.report_urls(sent, now)
        self.reported += len(reported.decisions)
        self._all.append(reported.batch.pk)
        if reported.batch.finished_at is None:
            self._unfinished.append(reported.batch.pk)
            self._open[reported.batch.pk] = len(reported.decisions)
        else:
            self.counts.update(one.step for one in reported.decisions)

    def look(self, now: datetime) -> None:
        """Counts the batches that were finished since the last look, and the open items of some others in turn."""
        self._looks += 1
        if self._unfinished:  # one of them in turn, whether or not a worker does
            batch_id = self._unfinished.pop(0)
            if self._looks % LOOKS_PER_SETTLING == 0 or not batches.has_wanted_items(batch_id):
                batches.settle_batch(batch_id, now)
            self._unfinished.append(batch_id)
        ended = Batch.objects.exclude(finished_at=None).values_list("pk", flat=True)
        portions = database.split_portions(self._unfinished, BATCHES_PER_QUERY)
        finished = {one for ids in portions for one in ended.filter(pk__in=ids)}
        self._count(sorted(finished))
        self._unfinished = [batch_id for batch_id in self._unfinished if batch_id not in finished]
        for batch_id in finished:
            self._open.pop(batch_id, None)
        for batch_id in list(self._open)[:BATCHES_COUNTED_PER_LOOK]:
            del self._open[batch_id]
            self._open[batch_id] = BatchItem.objects.filter(batch=batch_id, step="").count()
        self.open = sum(self._open.values())

    def settle_counts(self) -> None:
        """Counts the ended items of unfinished batches, too. Called at the end: they are not looked at after this."""
        self._count(self._unfinished)
        self.open = self.counts.pop(batches.OPEN_STEP, 0)
        self._unfinished = []

    @property
    def is_finished(self) -> bool:
        return not self._unfinished

    @property
    def ended(self) -> int:
        return self.reported - self.open

    @property
    def stored(self) -> int:
        return sum(self.counts[step] for step in batches.STORED_STEPS)

    @property
    def failures(self) -> int:
        return self.counts[DedupeStep.FAILED] + self.counts[DedupeStep.REFUSED]

    def examples(self, number: int) -> list[BatchItem]:
        """Returns a few of the items that were not stored."""
        found: list[BatchItem] = []
        for ids in database.split_portions(self._all, BATCHES_PER_QUERY):
            if len(found) >= number:
                break
            rows = BatchItem.objects.filter(batch__in=ids, step__in=(DedupeStep.FAILED, DedupeStep.REFUSED))
            found += rows.order_by("batch", "position")[: number - len(found)]
        return found

    def _count(self, ids: list[UUID]) -> None:
        for some in database.split_portions(ids, BATCHES_PER_QUERY):
            self.counts.update(batches.count_items(*some))


URLS_PER_LIST = 5_000
MAX_LINE_BYTES = 8_192
"""The limit of a line. The beginning of a longer one is reported, and refused: such URLs are not fetched."""

_BOM = b"\xef\xbb\xbf"


def read_url_lists(file: BinaryIO) -> Iterator[list[str]]:
    """Yields the URLs in lists. The same lines always give the same lists, so that their batches are found again."""
    return database.split_portions(read_urls(file), URLS_PER_LIST)


def read_urls(file: BinaryIO) -> Iterator[str]:
    """Yields the URLs. Skips blank lines and comments (#); bytes that are no UTF-8 stay as half surrogates."""
    is_first = True
    while line := file.readline(MAX_LINE_BYTES):
        if is_first:
            line, is_first = line.removeprefix(_BOM), False
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            while (part := file.readline(MAX_LINE_BYTES)) and not part.endswith(b"\n"):
                pass  # the rest of the line, of any length
        url = line.strip().decode("utf-8", "surrogateescape")
        if url and not url.startswith("#"):
            yield url
