"""The models of feeds, categories, entries, scans, follows and moves.

Those of hubs and subscriptions are in `hub_models`, which Django finds by this module.
"""

from datetime import timedelta

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from . import addresses, change_rows, hub_models  # noqa: F401  # Django finds models in two of them
from .schedule.state import FeedStatus

ALL_SLUG = "all"
RESERVED_SLUGS = frozenset({ALL_SLUG, "category"})
MAX_SLUG_CHARACTERS = 100
MAX_URL_CHARACTERS = 2000
MIN_INTERVAL_SECONDS, MAX_INTERVAL_SECONDS = 60, 30 * 86_400
"""The bounds of the time between two checks of a feed, as people may set it."""

_slug_validator = RegexValidator(
    r"\A[a-z0-9]+(?:-[a-z0-9]+)*\Z", "Lower-case letters and digits, with hyphens between them."
)


def _interval_field(bound: str, setting: str) -> "models.PositiveIntegerField[int | None, int | None]":
    label, help_text = f"{bound} time between two checks (seconds)", f"Empty: {setting}."
    bounds = (MinValueValidator(MIN_INTERVAL_SECONDS), MaxValueValidator(MAX_INTERVAL_SECONDS))
    return models.PositiveIntegerField(label, null=True, blank=True, validators=bounds, help_text=help_text)


class Category(models.Model):
    """A combination of feeds: its own, and those of the categories below it. The one named ALL_SLUG has every feed.

    `version`, in microseconds since 1970, grows with each change of its output. Since `least_version` nothing has
    left it: older pages show removed content. `announced_version` is the last that this site's hub was told of.
    `reader_count` is of the readers of its output, and of the output of the categories above it.
    """

    slug = models.CharField(max_length=MAX_SLUG_CHARACTERS, unique=True, validators=[_slug_validator])
    title = models.CharField(max_length=200)
    parent = models.ForeignKey("self", null=True, blank=True, related_name="children", on_delete=models.CASCADE)
    version = models.BigIntegerField(default=0, editable=False, db_index=True)
    least_version = models.BigIntegerField(default=0, editable=False)
    announced_version = models.BigIntegerField(default=0, editable=False)
    reader_count = models.PositiveIntegerField(default=0, db_default=0, editable=False)

    class Meta:
        ordering = ("title",)
        verbose_name_plural = "categories"
        constraints = (
            models.UniqueConstraint(fields=("parent", "title"), name="one_category_of_a_title"),
            models.UniqueConstraint(fields=("title",), condition=Q(parent=None), name="one_outermost_of_a_title"),
        )

    def __str__(self) -> str:
        return self.title


LONG_FIELDS = ("said", "hints", "discovered", "notes", "refused_moves", "moving", "reason", "linked")
"""Fields of a feed that may be long, and are needed by its own page and its scan alone."""


class Feed(models.Model):
    """A feed: its address, its content and state, the time of its next check and the reason for it.

    `url` is requested as it is; addresses of one `key_digest` (SHA-256 of `addresses.FeedLocation.key`) are one feed.
    `host` is the scope of its limits. `version`, in microseconds since 1970, grows with each change of its output. A
    result is stored only if its fetch began after `fetch_began_at`: a delayed result overwrites nothing newer.
    """

    STATES = [(state.value, state.value) for state in FeedStatus]

    slug = models.CharField(max_length=MAX_SLUG_CHARACTERS, unique=True, validators=[_slug_validator])
    url = models.CharField("address", max_length=MAX_URL_CHARACTERS)
    key_digest = models.CharField(max_length=64, unique=True, editable=False)
    host = models.CharField(max_length=255, db_index=True, editable=False)
    user = models.CharField("user (Basic authentication)", max_length=200, blank=True)
    sealed_password = models.TextField(blank=True, editable=False)
    sealed_headers = models.TextField(blank=True, editable=False)
    """A JSON object of header fields, sealed."""

    title = models.CharField(max_length=500, blank=True, help_text="Empty: as the feed calls itself.")
    own_title = models.CharField(max_length=2000, blank=True, editable=False)
    site = models.CharField("address of its pages", max_length=MAX_URL_CHARACTERS, blank=True)
    said = models.JSONField(default=dict, blank=True, editable=False)
    """The feed's own data: the fields of `parser.documents.FeedHead`."""
    categories = models.ManyToManyField(Category, blank=True, related_name="feeds")
    is_sample = models.BooleanField(default=False, editable=False)

    least_seconds = _interval_field("least", "FEEDS_LEAST_SECONDS")
    most_seconds = _interval_field("most", "FEEDS_MOST_SECONDS")

    paused = models.BooleanField(default=False, help_text="Not fetched, and in no combination.")
    is_hidden = models.BooleanField(
        "kept out of what is public",
        default=False,
        help_text="In no combination, without pages of its own; in the API for tokens that may manage feeds alone.",
    )
    full_content = models.BooleanField("fetch full articles", default=False, db_default=False)
    judged_upto = models.BigIntegerField(null=True, editable=False)
    """The id up to which its entries are judged by its filters; None once all are. New entries are judged when stored.
    """
    icon = models.CharField(max_length=MAX_URL_CHARACTERS, blank=True, default="", db_default="", editable=False)
    state = models.CharField(max_length=20, choices=STATES, default=FeedStatus.ACTIVE.value, editable=False)
    trouble = models.CharField(max_length=20, blank=True, editable=False)
    """The name of the `schedule.state.Trouble` that the last fetch met."""
    failures = models.PositiveIntegerField("failures in a row", default=0, editable=False)
    failing_since = models.DateTimeField(null=True, editable=False)
    held_up = models.PositiveIntegerField(default=0, editable=False)
    hints = models.JSONField(default=dict, editable=False)
    """The publisher's hints: the fields of `schedule.state.PublisherHints`, with seconds for times."""
    moving = models.JSONField(default=dict, editable=False)
    """The permanent redirect seen so far: the fields of `schedule.state.RedirectSighting`; empty for none."""
    refused_moves = models.JSONField(default=list, editable=False)
    discovered = models.JSONField(default=list, editable=False)
    """Feeds that the page at its address announces: the fields of `discovery.FeedAddress`."""
    notes = models.JSONField(default=list, editable=False)
    """Sentences on the parts left out or mended in the last reading."""

    next_check_at = models.DateTimeField("next check", default=timezone.now, editable=False)
    reason = models.TextField("why this time", blank=True, editable=False)
    flagged_at = models.DateTimeField("said to have changed", null=True, editable=False)
    handed_over_at = models.DateTimeField(null=True, editable=False)
    scan = models.ForeignKey("feeds.Scan", null=True, editable=False, related_name="taken", on_delete=models.SET_NULL)

    etag = models.TextField(blank=True, editable=False)
    last_modified = models.TextField(blank=True, editable=False)
    validated_url = models.CharField(max_length=MAX_URL_CHARACTERS, blank=True, editable=False)
    body_digest = models.CharField(max_length=64, blank=True, editable=False)
    fetch_began_at = models.DateTimeField(null=True, editable=False)
    checked_at = models.DateTimeField("last check", null=True, editable=False)
    fetched_at = models.DateTimeField("last good check", null=True, editable=False)
    changed_at = models.DateTimeField("last change", null=True, editable=False)
    last_seconds = models.FloatField(null=True, editable=False)
    expected_seconds = models.FloatField("expected duration (seconds)", null=True, editable=False)

    linked = models.JSONField(default=dict, editable=False)
    """The Link fields of its last answer: `hubs`, and its own address as `self`."""
    offer_digest = models.CharField(max_length=64, blank=True, editable=False)
    """The digest of its `push.offers.PushOffer`; empty for none."""
    pushed_at = models.DateTimeField("last push", null=True, editable=False)
    is_pushed = models.BooleanField("told of changes", default=False, editable=False)
    delivered = models.IntegerField(default=0, editable=False)
    """The number of its hub's deliveries not yet read: if fewer wait, some are lost, and the origin is fetched."""
    reader_count = models.PositiveIntegerField(default=0, editable=False)
    subscriber_count = models.PositiveIntegerField("subscribers", default=0, editable=False)
    """Its followers and readers, without the readers of combinations."""
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
            models.Index(fields=("id",), condition=Q(judged_upto__isnull=False), name="feeds_to_judge"),
        )

    def __str__(self) -> str:
        return self.shown_title

    @property
    def shown_title(self) -> str:
        own_title = "" if addresses.shows_address(self.own_title, self.url) else self.own_title
        return self.title or own_title or self.host

    @property
    def shown_site(self) -> str:
        return addresses.without_secrets(self.site, self.url)

    @property
    def least(self) -> timedelta:
        return timedelta(seconds=self.least_seconds or settings.FEEDS_LEAST_SECONDS)

    @property
    def most(self) -> timedelta:
        return max(self.least, timedelta(seconds=self.most_seconds or settings.FEEDS_MOST_SECONDS))


class FormerSlug(models.Model):
    """A slug that leads to a feed: its own earlier one, or that of a feed merged into it."""

    slug = models.CharField(max_length=MAX_SLUG_CHARACTERS, unique=True)
    feed = models.ForeignKey(Feed, related_name="former_slugs", on_delete=models.CASCADE)

    def __str__(self) -> str:
        return self.slug


class Follow(models.Model):
    user = models.ForeignKey(settings.AUTH_USER_MODEL, related_name="follows", on_delete=models.CASCADE)
    feed = models.ForeignKey(Feed, related_name="follows", on_delete=models.CASCADE)
    since = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "feed"), name="followed_once"),)

    def __str__(self) -> str:
        return f"{self.user} follows {self.feed}"


class Move(models.Model):
    """A change of a feed's address. People can undo it; the feed does not move there again then."""

    feed = models.ForeignKey(Feed, related_name="moves", on_delete=models.CASCADE)
    moved_at = models.DateTimeField()
    old_url = models.CharField("from", max_length=MAX_URL_CHARACTERS)
    new_url = models.CharField("to", max_length=MAX_URL_CHARACTERS)
    why = models.TextField()
    undone_at = models.DateTimeField(null=True)
    left_behind = models.JSONField(default=dict, editable=False)
    """User, sealed password and sealed headers, if they were for another server than the new one."""

    class Meta:
        ordering = ("-moved_at",)

    def __str__(self) -> str:
        return f"{self.old_url} → {self.new_url}"


MARK_CHARACTERS = 32


class Entry(models.Model):
    """An entry of a feed, recognised by its marks (`diff.EntryMarks`). `data` has `documents.ParsedEntry`'s fields.

    `happened_at` is its place in lists. Searches look at `text`. `left_at` is when it left the feed's document:
    until then it is not pruned, or it would come as new again. `size` is the length of `data` in characters of JSON.
    `shared_id` tells which entry had its id, or its link if it has none, when it came: none (0), one of another feed
    (1), one of its own feed (2).
    `change_number` is that of its last change in the change log, `arrival_number` that of its first; None until it has
    one (`changes.numbers`). One with `filtered_at` is shown nowhere: filters of its feed hide it since then. `story` is
    the id of the first entry of its story (`stories`); None for that one itself, and for entries without a story. It
    stays when the first is deleted.
    """

    feed = models.ForeignKey(Feed, related_name="entries", on_delete=models.CASCADE)
    identity = models.CharField(max_length=MARK_CHARACTERS)
    likeness = models.CharField(max_length=MARK_CHARACTERS)
    content = models.CharField(max_length=MARK_CHARACTERS)
    dates = models.CharField(max_length=MARK_CHARACTERS)
    title = models.CharField(max_length=2000, blank=True)
    link = models.TextField(blank=True)
    text = models.TextField(blank=True)
    data = models.JSONField()
    size = models.PositiveIntegerField(default=0)
    shared_id = models.PositiveSmallIntegerField(default=0, db_default=0, editable=False)
    happened_at = models.DateTimeField()
    first_seen_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    left_at = models.DateTimeField(null=True)
    change_number = models.BigIntegerField(null=True, editable=False)
    arrival_number = models.BigIntegerField(null=True, editable=False)
    filtered_at = models.DateTimeField(null=True, editable=False)
    story = models.BigIntegerField(null=True, editable=False)

    class Meta:
        ordering = ("-happened_at", "-id")
        verbose_name_plural = "entries"
        constraints = (models.UniqueConstraint(fields=("feed", "identity"), name="one_entry_of_an_identity"),)
        indexes = (
            models.Index(fields=("feed", "-happened_at", "-id"), name="entries_of_a_feed"),
            models.Index(fields=("-happened_at", "-id"), name="entries_by_time"),
            models.Index(fields=("identity",), name="entries_by_identity"),
            models.Index(fields=("left_at",), condition=Q(left_at__isnull=False), name="entries_that_left"),
            models.Index(fields=("change_number", "id"), name="entries_by_change"),
            models.Index(fields=("feed", "change_number"), name="entries_of_a_feed_by_change"),
            models.Index(fields=("id",), condition=Q(change_number=None), name="entries_without_number"),
            models.Index(fields=("first_seen_at",), name="entries_by_arrival"),
            models.Index(fields=("id",), condition=Q(filtered_at__isnull=False), name="filtered_entries"),
            models.Index(fields=("story", "id"), condition=Q(story__isnull=False), name="entries_of_a_story"),
            models.Index(fields=("arrival_number", "id"), name="entries_by_arrival_number"),
        )

    def __str__(self) -> str:
        return self.title or self.link or self.identity


class EntryFilter(models.Model):
    """A filter of a feed or of a category's output, by words of the site's searches, or by a pattern in one field.

    An entry is hidden that matches a filter that hides; and where filters show only some, one that matches none of
    these. Filters of a category have tags alone. No foreign keys: earlier versions delete feeds and categories.
    """

    HIDE, ONLY = "hide", "only"
    ACTIONS = [(HIDE, "Hide"), (ONLY, "Show only")]
    FIELDS = [(name, name) for name in ("title", "text", "author", "tag", "link")]

    feed = models.ForeignKey(Feed, null=True, related_name="filters", on_delete=models.CASCADE, db_constraint=False)
    category = models.ForeignKey(
        Category, null=True, related_name="filters", on_delete=models.CASCADE, db_constraint=False
    )
    action = models.CharField(max_length=10, choices=ACTIONS, default=HIDE)
    words = models.CharField(max_length=200, blank=True)
    pattern = models.CharField(max_length=500, blank=True)
    field = models.CharField("pattern's field", max_length=10, choices=FIELDS, blank=True)

    class Meta:
        ordering = ("pk",)
        verbose_name = "filter"

    def __str__(self) -> str:
        found = self.words or f"{self.field} with {self.pattern}"
        return f"{self.get_action_display()}: {found}"


class StoryMark(models.Model):
    """A mark (`story_marks`) of an entry that came of late: entries of other feeds with the same may be its story.

    No foreign key: earlier versions delete entries.
    """

    entry = models.ForeignKey(
        Entry, related_name="story_marks", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    mark = models.BigIntegerField()

    class Meta:
        indexes = (
            models.Index(fields=("mark", "entry"), name="entries_by_mark"),
            models.Index(fields=("entry",), name="marks_of_an_entry"),
        )


class Supplement(models.Model):
    """A document fetched beside a feed: an entry's article or chapters, or the page that names the site's icon.

    `mark` is the `content` of the entry that it was wanted for. `handed_over_at`: the fetchers have it since then. No
    foreign keys: earlier versions delete entries.
    """

    entry = models.ForeignKey(Entry, null=True, on_delete=models.CASCADE, db_constraint=False)
    feed = models.ForeignKey(Feed, null=True, on_delete=models.CASCADE, db_constraint=False)
    kind = models.CharField(max_length=10)
    url = models.TextField(blank=True)
    mark = models.CharField(max_length=MARK_CHARACTERS, blank=True)
    due_at = models.DateTimeField("next fetch", null=True)
    tries = models.PositiveSmallIntegerField(default=0)
    fetched_at = models.DateTimeField(null=True)
    handed_over_at = models.DateTimeField(null=True)
    reason = models.TextField(blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("entry", "kind"), name="one_supplement_of_an_entry"),
            models.UniqueConstraint(fields=("feed", "kind"), name="one_supplement_of_a_feed"),
        )
        indexes = (
            models.Index(fields=("due_at",), condition=Q(due_at__isnull=False), name="due_supplements"),
            models.Index(
                fields=("handed_over_at",), condition=Q(handed_over_at__isnull=False), name="supplements_in_hand"
            ),
        )


class Scan(models.Model):
    """A scan: how many feeds it handed over, and how long they took. It ends when its last feed has ended.

    `feeds` is 0 until the scan has handed over all: for a scan killed before, the rows of its feeds tell the number.
    `expected_seconds` is the lower bound by the expected durations, `bound_seconds` by the real ones.
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
