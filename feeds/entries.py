"""The model of what came: entries of feeds, with the marks by which they are found again."""

from django.db import models
from django.db.models import Q

MARK_CHARACTERS = 32


class Entry(models.Model):
    """An entry of a feed. Found again by its marks (`updating.Marks`); `data` has the fields of `documents.Entry`.

    `happened_at` is its place in lists. `text` is what is searched. `left_at` is when it left the feed's document:
    until then it is not pruned, or it would come as new again. `size` is what `data` has, in characters of JSON.
    """

    feed = models.ForeignKey("feeds.Feed", related_name="entries", on_delete=models.CASCADE)
    identity = models.CharField(max_length=MARK_CHARACTERS)
    likeness = models.CharField(max_length=MARK_CHARACTERS)
    content = models.CharField(max_length=MARK_CHARACTERS)
    dates = models.CharField(max_length=MARK_CHARACTERS)
    title = models.CharField(max_length=2000, blank=True)
    link = models.TextField(blank=True)
    text = models.TextField(blank=True)
    data = models.JSONField()
    size = models.PositiveIntegerField(default=0)
    happened_at = models.DateTimeField()
    first_seen_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    left_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-happened_at", "-id")
        verbose_name_plural = "entries"
        constraints = (models.UniqueConstraint(fields=("feed", "identity"), name="one_entry_of_an_identity"),)
        indexes = (
            models.Index(fields=("feed", "-happened_at", "-id"), name="entries_of_a_feed"),
            models.Index(fields=("-happened_at", "-id"), name="entries_by_time"),
            models.Index(fields=("left_at",), condition=Q(left_at__isnull=False), name="entries_that_left"),
        )

    def __str__(self) -> str:
        return self.title or self.link or self.identity
