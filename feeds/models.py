"""Models of feeds: what is fetched and when, how it is combined, who follows what."""

from datetime import timedelta

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from . import hiding
from .deciding.standing import State
from .entries import Entry as Entry  # noqa: PLC0414  # imported from here, as the others are
from .scans import Scan as Scan  # noqa: PLC0414
from .subscriptions import Hub, Subscription  # noqa: F401  # found by Django here

ALL = "all"
"""The slug of the category that everything is in."""
RESERVED_SLUGS = frozenset({ALL, "category"})
MOST_SLUG_CHARACTERS = 100
MOST_URL_CHARACTERS = 2000
LEAST_INTERVAL_SECONDS, MOST_INTERVAL_SECONDS = 60, 30 * 86_400
"""Bounds of what people may set as the time between two checks of a feed."""

_interval = (MinValueValidator(LEAST_INTERVAL_SECONDS), MaxValueValidator(MOST_INTERVAL_SECONDS))
_slug = RegexValidator(r"\A[a-z0-9]+(?:-[a-z0-9]+)*\Z", "Lower-case letters and digits, with hyphens between them.")


class Category(models.Model):
    """A combination of feeds: those in it, and in the categories below it. The one named ALL has every feed.

    `version`, in microseconds since 1970, grows with each change of its output; `least_version` is that since which
    nothing has left it: older pages show what is gone; `announced_version` the last that this site's hub was told of.
    """

    slug = models.CharField(max_length=MOST_SLUG_CHARACTERS, unique=True, validators=[_slug])
    title = models.CharField(max_length=200)
    parent = models.ForeignKey("self", null=True, blank=True, related_name="children", on_delete=models.CASCADE)
    version = models.BigIntegerField(default=0, editable=False, db_index=True)
    least_version = models.BigIntegerField(default=0, editable=False)
    announced_version = models.BigIntegerField(default=0, editable=False)

    class Meta:
        ordering = ("title",)
        verbose_name_plural = "categories"
        constraints = (
            models.UniqueConstraint(fields=("parent", "title"), name="one_category_of_a_title"),
            models.UniqueConstraint(fields=("title",), condition=Q(parent=None), name="one_outermost_of_a_title"),
        )

    def __str__(self) -> str:
        return self.title


SAID = ("said", "hints", "discovered", "notes", "refused_moves", "moving", "reason", "linked")
"""Fields of a feed that may be long, and that nothing but its own page and its scan has a use for."""


class Feed(models.Model):
    """A feed: where it is, what is known of it, when it is fetched next and why then.

    `url` is asked as it is; feeds of one `key_digest` (SHA-256 of `addresses.Address.key`) are one. `host` is what
    its limits count for. `version`, in microseconds since 1970, grows with each change of its output. A result is
    stored only when its fetch began after `fetch_began_at`: whoever was held up overwrites nothing newer.
    """

    STATES = [(state.value, state.value) for state in State]

    slug = models.CharField(max_length=MOST_SLUG_CHARACTERS, unique=True, validators=[_slug])
    url = models.CharField("address", max_length=MOST_URL_CHARACTERS)
    key_digest = models.CharField(max_length=64, unique=True, editable=False)
    host = models.CharField(max_length=255, db_index=True, editable=False)
    user = models.CharField("user (Basic authentication)", max_length=200, blank=True)
    sealed_password = models.TextField(blank=True, editable=False)
    sealed_headers = models.TextField(blank=True, editable=False)
    """A JSON object of header fields, sealed."""

    title = models.CharField(max_length=500, blank=True, help_text="Empty: as the feed calls itself.")
    own_title = models.CharField(max_length=2000, blank=True, editable=False)
    site = models.CharField("address of its pages", max_length=MOST_URL_CHARACTERS, blank=True)
    said = models.JSONField(default=dict, blank=True, editable=False)
    """What the feed says of itself: the fields of `parsing.documents.Feed`."""
    categories = models.ManyToManyField(Category, blank=True, related_name="feeds")
    is_sample = models.BooleanField(default=False, editable=False)

    least_seconds = models.PositiveIntegerField(
        "least time between two checks (seconds)",
        null=True,
        blank=True,
        validators=_interval,
        help_text="Empty: FEEDS_LEAST_SECONDS.",
    )
    most_seconds = models.PositiveIntegerField(
        "most time between two checks (seconds)",
        null=True,
        blank=True,
        validators=_interval,
        help_text="Empty: FEEDS_MOST_SECONDS.",
    )

    paused = models.BooleanField(default=False, help_text="Not fetched, and in no combination.")
    is_hidden = models.BooleanField(
        "kept out of what is public",
        default=False,
        help_text="In no combination, without pages of its own; in the API for tokens that may manage feeds alone.",
    )
    state = models.CharField(max_length=20, choices=STATES, default=State.ACTIVE.value, editable=False)
    trouble = models.CharField(max_length=20, blank=True, editable=False)
    """The name of the `troubles.Trouble` that the last fetch met."""
    failures = models.PositiveIntegerField("failures in a row", default=0, editable=False)
    failing_since = models.DateTimeField(null=True, editable=False)
    held_up = models.PositiveIntegerField(default=0, editable=False)
    hints = models.JSONField(default=dict, editable=False)
    """What the publisher asks for: the fields of `standing.Hints`, with seconds for times."""
    moving = models.JSONField(default=dict, editable=False)
    """A permanent redirect that was seen: the fields of `standing.Sighting`; empty for none."""
    refused_moves = models.JSONField(default=list, editable=False)
    discovered = models.JSONField(default=list, editable=False)
    """Feeds that the page at its address announces: the fields of `discovery.FeedAddress`."""
    notes = models.JSONField(default=list, editable=False)
    """Sentences on what was left out or mended when it was last read."""

    next_check_at = models.DateTimeField("next check", default=timezone.now, editable=False)
    reason = models.TextField("why this time", blank=True, editable=False)
    flagged_at = models.DateTimeField("said to have changed", null=True, editable=False)
    handed_over_at = models.DateTimeField(null=True, editable=False)
    scan = models.ForeignKey(Scan, null=True, editable=False, related_name="taken", on_delete=models.SET_NULL)

    etag = models.TextField(blank=True, editable=False)
    last_modified = models.TextField(blank=True, editable=False)
    validated_url = models.CharField(max_length=MOST_URL_CHARACTERS, blank=True, editable=False)
    body_digest = models.CharField(max_length=64, blank=True, editable=False)
    fetch_began_at = models.DateTimeField(null=True, editable=False)
    checked_at = models.DateTimeField("last check", null=True, editable=False)
    fetched_at = models.DateTimeField("last good check", null=True, editable=False)
    changed_at = models.DateTimeField("last change", null=True, editable=False)
    last_seconds = models.FloatField(null=True, editable=False)
    expected_seconds = models.FloatField("expected duration (seconds)", null=True, editable=False)

    linked = models.JSONField(default=dict, editable=False)
    """What the Link fields of its last answer say: `hubs`, and its own address as `self`."""
    offer_digest = models.CharField(max_length=64, blank=True, editable=False)
    """Of the `discovering.Offer` that it makes; empty for none."""
    pushed_at = models.DateTimeField("last push", null=True, editable=False)
    is_pushed = models.BooleanField("told of changes", default=False, editable=False)
    delivered = models.IntegerField(default=0, editable=False)
    """How many deliveries of its hub have not been read: where fewer wait, some are lost, and the origin is asked."""
    reader_count = models.PositiveIntegerField(default=0, editable=False)
    subscriber_count = models.PositiveIntegerField("subscribers", default=0, editable=False)
    version = models.BigIntegerField(default=0, editable=False, db_index=True)
    announced_version = models.BigIntegerField(default=0, editable=False)
    mailed_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ("slug",)
        indexes = (
            models.Index(fields=("next_check_at",), condition=Q(paused=False), name="feeds_by_next_check"),
            models.Index(
                fields=("flagged_at",), condition=Q(paused=False, flagged_at__isnull=False), name="flagged_feeds"
            ),
            models.Index(fields=("handed_over_at",), condition=Q(handed_over_at__isnull=False), name="feeds_in_hand"),
            models.Index(fields=("expected_seconds",), name="feeds_by_duration"),
            models.Index(fields=("state",), name="feeds_by_state"),
            models.Index(fields=("id",), condition=Q(is_pushed=True), name="feeds_told_of"),
            models.Index(fields=("offer_digest",), condition=~Q(offer_digest=""), name="feeds_with_offers"),
        )

    def __str__(self) -> str:
        return self.shown_title

    @property
    def shown_title(self) -> str:
        return self.title or self._unless_it_shows_the_address(self.own_title) or self.host

    @property
    def shown_site(self) -> str:
        return "" if any(part in self.site for part in hiding.secrets_of(self.url)) else self.site

    def _unless_it_shows_the_address(self, text: str) -> str:
        return "" if text and hiding.shows(text, self.url) else text

    @property
    def least(self) -> timedelta:
        return timedelta(seconds=self.least_seconds or settings.FEEDS_LEAST_SECONDS)

    @property
    def most(self) -> timedelta:
        return max(self.least, timedelta(seconds=self.most_seconds or settings.FEEDS_MOST_SECONDS))


class FormerSlug(models.Model):
    """A slug that leads to a feed, which had it before or has taken over the one that had."""

    slug = models.CharField(max_length=MOST_SLUG_CHARACTERS, unique=True)
    feed = models.ForeignKey(Feed, related_name="former_slugs", on_delete=models.CASCADE)

    def __str__(self) -> str:
        return self.slug


class Follow(models.Model):
    """A user follows a feed."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, related_name="follows", on_delete=models.CASCADE)
    feed = models.ForeignKey(Feed, related_name="follows", on_delete=models.CASCADE)
    since = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "feed"), name="followed_once"),)

    def __str__(self) -> str:
        return f"{self.user} follows {self.feed}"


class Move(models.Model):
    """A feed got another address. People can take it back: the feed does not go there again then."""

    feed = models.ForeignKey(Feed, related_name="moves", on_delete=models.CASCADE)
    moved_at = models.DateTimeField()
    old_url = models.CharField("from", max_length=MOST_URL_CHARACTERS)
    new_url = models.CharField("to", max_length=MOST_URL_CHARACTERS)
    why = models.TextField()
    undone_at = models.DateTimeField(null=True)
    left_behind = models.JSONField(default=dict, editable=False)
    """User, sealed password and sealed headers, when they were meant for another server than the new one."""

    class Meta:
        ordering = ("-moved_at",)

    def __str__(self) -> str:
        return f"{self.old_url} → {self.new_url}"
