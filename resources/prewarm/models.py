"""The rows of runs, for the admin."""

from django.db import models


class PrewarmRecord(models.Model):
    """One run: the pieces that it looked at, and their ends.

    `in_hand` has the pieces that are not prepared yet, as lists of the values of a PieceInHand; while `handed` is 0,
    pieces that the run may not have begun yet. `settled_at` is set when there are none left. `prepared_kinds` are
    numbers of contents by kind. Runs of the command have no budget.
    """

    class Starter(models.TextChoices):
        BEAT = "beat"
        COMMAND = "command"

    began_at = models.DateTimeField(db_index=True)
    started_by = models.CharField(max_length=10, choices=Starter.choices, default=Starter.BEAT)
    settled_at = models.DateTimeField(null=True, db_index=True)
    considered = models.PositiveIntegerField("looked at", default=0)
    fresh = models.PositiveIntegerField("fresh already", default=0)
    rare = models.PositiveIntegerField("requested too rarely", default=0, db_default=0)
    handed = models.PositiveIntegerField("begun", default=0)
    prepared = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField("not prepared", default=0)
    left = models.PositiveIntegerField("left for later", default=0)
    seconds = models.FloatField("seconds of work", default=0)
    budget_seconds = models.FloatField("budget in seconds", null=True)
    busy = models.CharField("yielded to", max_length=40, blank=True)
    prepared_kinds = models.JSONField("contents by kind", default=dict)
    in_hand = models.JSONField(default=list)

    class Meta:
        ordering = ("-began_at",)
        verbose_name = "pre-warming run"

    def __str__(self) -> str:
        return f"{self.began_at:%Y-%m-%d %H:%M:%S}"
