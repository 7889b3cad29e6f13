"""The model of scans: what each handed over, and how long that took."""

from django.db import models
from django.db.models import Q


class Scan(models.Model):
    """What one scan handed over, and how it went. Ends when the last of its feeds has.

    `feeds` is 0 until the scan has handed over all: of one that was killed before, it is told by the rows of its feeds.
    `expected_seconds` is the lower bound by the durations that were expected, `bound_seconds` by those that it took.
    """

    started_at = models.DateTimeField(db_index=True)
    feeds = models.PositiveIntegerField()
    hosts = models.PositiveIntegerField()
    expected_seconds = models.FloatField("expected, at the least (seconds)")
    bound_seconds = models.FloatField("lower bound (seconds)", null=True)
    makespan_seconds = models.FloatField("took (seconds)", null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-started_at",)
        indexes = (models.Index(fields=("started_at",), condition=Q(ended_at=None), name="unfinished_scans"),)

    def __str__(self) -> str:
        return f"{self.started_at:%Y-%m-%d %H:%M:%S}: {self.feeds} feeds"
