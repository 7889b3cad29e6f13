"""The rows of the change log: its head, its spans, removals, memberships of feeds; and of webhooks, which follow it.

Each change of an entry has a number. Numbers are microseconds since 1970 that only grow, and are given in one
transaction at a time, to what was committed before: a reader never sees a number before a lower one.

Feeds, entries and categories are named by their ids, without foreign keys: these rows outlive theirs.
"""

from uuid import uuid4

from django.db import models
from django.db.models import Q


class ChangeLog(models.Model):
    """The only row: the identity of this log, its last number, and the last number of the pruned removals."""

    identity = models.CharField(max_length=32)
    head = models.BigIntegerField(default=0)
    floor = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return self.identity


class ChangeSpan(models.Model):
    """A time in which numbers were given with pauses of less than ten seconds, by its first and last number.

    No number between two spans was ever given: a cursor there is of a database that was replaced by a backup.
    """

    first = models.BigIntegerField(unique=True)
    last = models.BigIntegerField(db_index=True)

    def __str__(self) -> str:
        return f"{self.first}–{self.last}"


class Membership(models.Model):
    """A feed whose entries are in a combination since that number."""

    feed_number = models.BigIntegerField()
    category_number = models.BigIntegerField()
    since = models.BigIntegerField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("feed_number", "category_number"), name="member_once"),)
        indexes = (models.Index(fields=("category_number", "since", "feed_number"), name="members_by_since"),)

    def __str__(self) -> str:
        return f"{self.feed_number} in {self.category_number}"


class MembershipCheck(models.Model):
    """A feed, or a category with all of its feeds, whose memberships may have changed. It locks no other row.

    `is_refiltered`: the category shows other entries of its feeds now, which leave it and come anew.
    """

    feed_number = models.BigIntegerField(null=True)
    category_number = models.BigIntegerField(null=True)
    is_refiltered = models.BooleanField(default=False, db_default=False)

    def __str__(self) -> str:
        return f"feed {self.feed_number}" if self.feed_number is not None else f"category {self.category_number}"


class Removal(models.Model):
    """An entry that was removed, or a feed that left a combination with all of its entries.

    A new one has no number yet. `entry_number` is None for a feed, `category_number` for an entry.
    """

    number = models.BigIntegerField(null=True)
    feed_number = models.BigIntegerField()
    entry_number = models.BigIntegerField(null=True)
    category_number = models.BigIntegerField(null=True)
    reason = models.CharField(max_length=10)

    class Meta:
        indexes = (
            models.Index(fields=("number", "id"), name="removals_by_number"),
            models.Index(fields=("id",), condition=Q(number=None), name="removals_without_number"),
        )

    def __str__(self) -> str:
        return f"feed {self.feed_number}, entry {self.entry_number}: {self.reason}"


class Webhook(models.Model):
    """A receiver of new entries: of a feed, of a category, or of all feeds, or those that a search finds.

    `cursor` is its place in the change log; empty: from now on. `answer` is of the last call. No foreign keys: earlier
    versions delete feeds and categories.
    """

    name = models.CharField(max_length=100, unique=True)
    url = models.CharField("address", max_length=2000)
    feed = models.ForeignKey(
        "feeds.Feed", null=True, blank=True, related_name="webhooks", on_delete=models.CASCADE, db_constraint=False
    )
    category = models.ForeignKey(
        "feeds.Category", null=True, blank=True, related_name="webhooks", on_delete=models.CASCADE, db_constraint=False
    )
    words = models.CharField(
        max_length=200,
        blank=True,
        help_text="Only entries that this search finds, as on pages of feeds. Empty: all.",
    )
    with_changes = models.BooleanField(
        "also edits and removals", default=False, help_text="Else only entries that are new to this site."
    )
    enabled = models.BooleanField(default=True)
    sealed_secret = models.TextField(editable=False)
    cursor = models.CharField(max_length=200, blank=True, editable=False)
    delivered = models.PositiveIntegerField("calls delivered", default=0, editable=False)
    delivered_at = models.DateTimeField("last delivery", null=True, editable=False)
    answer = models.CharField("last answer", max_length=200, blank=True, editable=False)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class WebhookCall(models.Model):
    """A batch for a webhook, until it is delivered. Without `due_at` it was given up, and waits for people.

    `id` is the `webhook-id` of each attempt. `body` stays the same.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    webhook = models.ForeignKey(Webhook, related_name="calls", on_delete=models.CASCADE)
    body = models.TextField()
    entries = models.PositiveIntegerField()
    created_at = models.DateTimeField()
    began_at = models.DateTimeField()
    """The time of its first attempt, or of that since people sent it again."""
    due_at = models.DateTimeField("next attempt", null=True)
    attempts = models.PositiveIntegerField(default=0)
    answer = models.CharField("last answer", max_length=200, blank=True)

    class Meta:
        ordering = ("-created_at",)
        indexes = (models.Index(fields=("due_at",), condition=Q(due_at__isnull=False), name="due_webhook_calls"),)

    def __str__(self) -> str:
        return str(self.id)
