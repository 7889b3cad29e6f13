"""The models of mirrored files: URLs, stored content, hosts, URL rules, reported lists, counts.

They are joined by digests (SHA-256, lower-case hex), never by numbers. So rows can be written in batches and in any
order: bytes, then Blob, then Resource. Removal goes the other way.
"""

import uuid

from django.core.validators import MaxLengthValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

MAX_URL_CHARACTERS = 2000
MAX_HOST_CHARACTERS = 255
DIGEST_CHARACTERS = 64


class UrlState(models.TextChoices):
    WANTED = "wanted", "wanted"
    STORED = "stored", "stored"
    FAILED = "failed", "failed"


class DedupeStep(models.TextChoices):
    """The step that settled a URL, with the least effort. `NEW` cost a body and gave a blob."""

    KNOWN = "known", "known URL"
    REDIRECT = "redirect", "redirected to a known URL"
    VALIDATORS = "validators", "validators of a known content"
    UNCHANGED = "unchanged", "unchanged since it was stored"
    CONTENT = "content", "content of a known blob"
    NEW = "new", "new content"
    FAILED = "failed", "failed"
    REFUSED = "refused", "refused"


class UrlLane(models.TextChoices):
    """The lane of a URL: probably quick ones wait apart from probably large ones."""

    FAST = "fast", "images and others"
    LARGE = "large", "video and large files"


class Blob(models.Model):
    """Stored content. A row says that it is on the machine `holder`, and in the storage once `uploaded_at` is set.

    A blob that was taken down keeps its row, so that the same bytes are never stored again.
    """

    digest = models.CharField(max_length=DIGEST_CHARACTERS, primary_key=True)
    size = models.PositiveBigIntegerField()
    media_type = models.CharField("type", max_length=100)
    width = models.PositiveIntegerField(null=True)
    height = models.PositiveIntegerField(null=True)
    name = models.CharField("name in the storage", max_length=200)
    holder = models.CharField("machine that has it until it is uploaded", max_length=100)
    stored_at = models.DateTimeField(db_index=True)
    uploaded_at = models.DateTimeField(null=True, blank=True)
    accessed_at = models.DateTimeField(db_index=True)
    pinned = models.BooleanField(default=False, help_text="Never pruned.")
    taken_down_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-stored_at",)
        verbose_name = "mirrored file"
        indexes = (
            models.Index(
                fields=("holder", "stored_at"), condition=Q(uploaded_at=None, taken_down_at=None), name="to_upload"
            ),
        )

    def __str__(self) -> str:
        return self.digest[:12]

    @property
    def is_image(self) -> bool:
        return self.width is not None


class Resource(models.Model):
    """The row of a URL. The key is the digest of its canonical URL; `url` is the reported form, which is fetched."""

    url_digest = models.CharField(max_length=DIGEST_CHARACTERS, primary_key=True)
    url = models.TextField("URL", validators=[MaxLengthValidator(MAX_URL_CHARACTERS)])
    host = models.CharField(max_length=MAX_HOST_CHARACTERS, db_index=True)
    referer = models.TextField(blank=True, validators=[MaxLengthValidator(MAX_URL_CHARACTERS)])
    state = models.CharField(max_length=10, choices=UrlState.choices, default=UrlState.WANTED)
    lane = models.CharField(max_length=10, choices=UrlLane.choices, default=UrlLane.FAST)
    blob_digest = models.CharField(max_length=DIGEST_CHARACTERS, blank=True, db_index=True)
    step = models.CharField("settled by", max_length=12, choices=DedupeStep.choices, blank=True)
    vouched_by = models.CharField(
        "host by whose word alone it is known", max_length=MAX_HOST_CHARACTERS, null=True, blank=True
    )
    moved_to = models.TextField("redirected to", blank=True)
    etag = models.CharField(max_length=4000, blank=True)
    last_modified = models.CharField(max_length=4000, blank=True)
    wanted_at = models.DateTimeField(db_index=True)
    due_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When it is fetched. If it has failed or is stored: from when on a request has it fetched again.",
    )
    expires_at = models.DateTimeField("signature expires", null=True, blank=True)
    asked_by = models.BigIntegerField(
        "id of the token in whose turn it is fetched; 0: none", default=0, db_default=0, editable=False
    )
    attempts = models.PositiveSmallIntegerField(default=0)
    rounds = models.PositiveSmallIntegerField("failed rounds in a row", default=0, db_default=0)
    fetched_at = models.DateTimeField(null=True, blank=True)
    failure = models.CharField(max_length=20, blank=True)
    status = models.PositiveSmallIntegerField(null=True, blank=True)
    detail = models.CharField("why not", max_length=500, blank=True)
    token = models.BigIntegerField(
        "fencing token of the claim that wrote its outcome", default=0, db_default=0, editable=False
    )

    class Meta:
        ordering = ("-wanted_at",)
        verbose_name = "mirrored URL"
        indexes = (
            models.Index(fields=("lane", "asked_by", "due_at"), condition=Q(state="wanted"), name="to_fetch_in_turn"),
            models.Index(
                fields=("lane", "asked_by", "expires_at"),
                condition=Q(state="wanted", expires_at__isnull=False),
                name="to_fetch_before_expiry",
            ),
            models.Index(fields=("fetched_at",), condition=Q(step="content"), name="gave_known_content"),
            models.Index(fields=("fetched_at",), condition=Q(state="failed"), name="failed_urls"),
            models.Index(fields=("vouched_by",), condition=Q(vouched_by__isnull=False), name="vouched_for"),
        )

    def __str__(self) -> str:
        return self.url[:100]


class Validator(models.Model):
    """A validator that an origin gave for that blob, by kind, value and size. Trusted for that origin alone."""

    key = models.CharField(max_length=DIGEST_CHARACTERS, primary_key=True)
    host = models.CharField(max_length=MAX_HOST_CHARACTERS, db_index=True)
    blob_digest = models.CharField(max_length=DIGEST_CHARACTERS, db_index=True)
    seen_at = models.DateTimeField(db_index=True)


class MirroredHost(models.Model):
    """Facts learnt of a host, and an admin's decision about it."""

    host = models.CharField(max_length=MAX_HOST_CHARACTERS, primary_key=True)
    blocked = models.BooleanField(default=False, help_text="Nothing is mirrored from it.")
    recheck = models.BooleanField(
        "checks for new content",
        null=True,
        blank=True,
        choices=((None, "as MIRROR_RECHECK says"), (True, "yes"), (False, "no")),
        help_text="Whether its stored files are compared with their origin, as often as that says, when requested.",
    )
    note = models.CharField(max_length=500, blank=True)
    confirmed = models.PositiveIntegerField("validators confirmed by content", default=0)
    confirmed_opaque = models.PositiveIntegerField("of those that do not look like digests", default=0)
    lies = models.PositiveIntegerField("validators that belonged to other content", default=0)
    lied_at = models.DateTimeField(null=True, blank=True)
    asked = models.FloatField("bodies that validators could have spared, of late", default=0)
    spared = models.FloatField("bodies that they spared", default=0)
    heads_refused = models.BooleanField("does not answer HEAD as GET", default=False)
    learnt_at = models.DateTimeField("last evidence", default=timezone.now, db_default=Now(), db_index=True)

    class Meta:
        ordering = ("host",)
        verbose_name = "mirrored host"

    def __str__(self) -> str:
        return self.host


class Rule(models.Model):
    """A URL rule: proposed by evidence, in force once an admin has approved it."""

    class Kind(models.TextChoices):
        PARAMETER = "parameter", "a parameter that does not matter"
        LABEL = "label", "a label of the host that does not matter"

    class Decision(models.TextChoices):
        PROPOSED = "proposed", "proposed"
        APPROVED = "approved", "approved"
        REJECTED = "rejected", "rejected"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    host = models.CharField(
        max_length=MAX_HOST_CHARACTERS, help_text="A host, or hosts that are one: {a|b}.example.com."
    )
    name = models.CharField("parameter", max_length=200, blank=True)
    decision = models.CharField(max_length=10, choices=Decision.choices, default=Decision.PROPOSED)
    evidence = models.JSONField(default=dict)
    proposed_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-proposed_at",)
        verbose_name = "rule for URLs"
        verbose_name_plural = "rules for URLs"
        constraints = (models.UniqueConstraint(fields=("kind", "host", "name"), name="one_rule"),)

    def __str__(self) -> str:
        return f"{self.host} {self.name}".strip()


class Batch(models.Model):
    """A list of URLs reported at once. `told_at`: its webhook was called, or given up."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    sender = models.CharField(max_length=200, help_text="The name of the token, or of the command.")
    token = models.ForeignKey("resources.ApiToken", models.SET_NULL, null=True, blank=True, related_name="+")
    key = models.CharField("digest of what was sent", max_length=DIGEST_CHARACTERS, db_index=True)
    referer = models.TextField(blank=True)
    webhook = models.TextField(blank=True)
    total = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(db_index=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    calls = models.PositiveSmallIntegerField("calls of the webhook", default=0)
    call_at = models.DateTimeField(null=True, blank=True)
    told_at = models.DateTimeField(null=True, blank=True)
    answer = models.CharField("the webhook's answer", max_length=200, blank=True)

    class Meta:
        ordering = ("-created_at",)
        verbose_name = "reported list"
        indexes = (models.Index(fields=("call_at",), condition=Q(told_at=None, call_at__isnull=False), name="to_call"),)

    def __str__(self) -> str:
        return str(self.id)


class BatchItem(models.Model):
    """One URL of a batch. `step` is empty until it is settled."""

    batch = models.ForeignKey(Batch, models.CASCADE, related_name="items")
    position = models.PositiveIntegerField()
    url = models.TextField("URL")
    url_digest = models.CharField(max_length=DIGEST_CHARACTERS, blank=True, db_index=True)
    step = models.CharField(max_length=12, choices=DedupeStep.choices, blank=True)
    blob_digest = models.CharField(max_length=DIGEST_CHARACTERS, blank=True)
    detail = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ("batch", "position")
        constraints = (models.UniqueConstraint(fields=("batch", "position"), name="one_place_in_a_batch"),)
        indexes = (models.Index(fields=("batch",), condition=Q(step=""), name="unsettled"),)

    def __str__(self) -> str:
        return f"{self.batch_id}:{self.position}"


class Tally(models.Model):
    """The number of URLs settled by a step in an hour; `body`: bodies downloaded, `reported`: URLs reported."""

    hour = models.DateTimeField()
    step = models.CharField(max_length=12)
    number = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ("-hour", "step")
        verbose_name_plural = "ingest efficiency"
        constraints = (models.UniqueConstraint(fields=("hour", "step"), name="one_tally"),)

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H:00} {self.step}"
