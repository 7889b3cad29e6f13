"""The tables of fetching: timings, domains with admins' limits, headers by host."""

from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models.functions import Lower

from .http.limit_scopes import MAX_SCOPE_CHARACTERS
from .http.messages import Failure

HEADER_VARIABLE_PREFIX = "FETCH_HEADER_"
MAX_DELAY_SECONDS = 86_400
MAX_IN_FLIGHT = 1000
MAX_BYTES_PER_SECOND = 10**12


class FetchTiming(models.Model):
    """The timing of one request. TimingRecorder writes them in batches; schedules and charts use them.

    `started_at` is when it began, `head_seconds` the time to the last answer's head, `scan` the number of the scan that
    handed it over. The address itself, which may hold a signature, is not kept.
    """

    class Kind(models.TextChoices):
        TILE = "tile"
        FILE = "file"
        FEED = "feed"
        HUB = "hub"
        ROBOTS = "robots"

    class Lane(models.TextChoices):
        FAST = "fast"
        SLOW = "slow"

    FETCHED, NOT_MODIFIED, DROPPED = "fetched", "not modified", "dropped"
    OUTCOMES = [(text, text) for text in (FETCHED, NOT_MODIFIED, DROPPED, *(failure.value for failure in Failure))]

    started_at = models.DateTimeField()
    url_digest = models.CharField("SHA-256 of the address", max_length=64)
    host = models.CharField(max_length=MAX_SCOPE_CHARACTERS)
    scope = models.CharField("domain", max_length=MAX_SCOPE_CHARACTERS)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    lane = models.CharField(max_length=10, choices=Lane.choices)
    head_seconds = models.FloatField("seconds to the first byte", null=True)
    seconds = models.FloatField("seconds in all")
    wire_bytes = models.BigIntegerField("bytes")
    outcome = models.CharField(max_length=20, choices=OUTCOMES)
    status = models.PositiveSmallIntegerField(null=True)
    egress = models.CharField(max_length=100, blank=True)
    scan = models.BigIntegerField(null=True, editable=False)

    class Meta:
        ordering = ("-started_at",)
        verbose_name = "fetch timing"
        verbose_name_plural = "fetch timings"
        indexes = (
            # With the outcome: charts count by it, and need not look at the rows then.
            models.Index(fields=("scope", "started_at", "outcome"), name="timings_of_a_scope"),
            models.Index(fields=("url_digest", "started_at"), name="timings_of_an_address"),
            models.Index(fields=("started_at",), name="timings_by_time"),
            models.Index(fields=("scan",), condition=models.Q(scan__isnull=False), name="timings_of_a_scan"),
        )

    def __str__(self) -> str:
        return f"{self.host}, {self.started_at:%Y-%m-%d %H:%M:%S}: {self.outcome}"


class FetchDomain(models.Model):
    """A domain that was fetched from, or that an admin or a layer has set something for. None is as learnt.

    Its limits are in force once host_settings has put them into the frontier: saving alone does not.
    """

    scope = models.CharField(
        "domain",
        max_length=MAX_SCOPE_CHARACTERS,
        unique=True,
        help_text="What the limits count for: a host (tiles.example.org, with :port unless that is the usual one), "
        "a path of one (example.org/tiles), a registrable domain, or address:192.0.2.1.",
    )
    paused = models.BooleanField(default=False, help_text="Nothing is fetched until that is taken back.")
    delay_seconds = models.FloatField(
        "gap between requests (seconds)",
        null=True,
        blank=True,
        validators=[MinValueValidator(0), MaxValueValidator(MAX_DELAY_SECONDS)],
        help_text="Empty: as it is learnt.",
    )
    in_flight = models.PositiveSmallIntegerField(
        "requests in flight, at the most",
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_IN_FLIGHT)],
        help_text="Empty: as it is learnt.",
    )
    own_in_flight = models.PositiveSmallIntegerField(
        "requests in flight at an own server",
        null=True,
        editable=False,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_IN_FLIGHT)],
        help_text="What layers say of their own server: so many, without a gap.",
    )
    bytes_per_second = models.PositiveBigIntegerField(
        "bytes per second, on average",
        null=True,
        blank=True,
        validators=[MaxValueValidator(MAX_BYTES_PER_SECOND)],
        help_text="0: any. Empty: as FETCH_BYTES_PER_SECOND says.",
    )
    counted_by = models.CharField(
        "limits count for",
        max_length=60,
        blank=True,
        help_text="host, path, registrable or address:…; empty: by the rule of the registrable domain, else the host",
    )
    note = models.CharField(max_length=500, blank=True)
    updated_at = models.DateTimeField(auto_now=True, db_index=True)

    class Meta:
        ordering = ("scope",)
        verbose_name = "fetched domain"
        verbose_name_plural = "fetched domains"

    def __str__(self) -> str:
        return self.scope


class FetchHeader(models.Model):
    """A header field that is sent to one host. Its value is sealed, or is in a variable of the environment.

    `over_http` and `to_any_address` are for fields that may be secrets: all but host_settings.HARMLESS_FIELDS.
    """

    host = models.CharField(
        max_length=MAX_SCOPE_CHARACTERS, help_text="Exactly this host, as tiles.example.org or tiles.example.org:8080."
    )
    name = models.CharField(max_length=100, help_text="For example: Authorization, Referer, User-Agent.")
    sealed = models.TextField(blank=True, editable=False)
    variable = models.CharField(
        "variable of the environment",
        max_length=100,
        blank=True,
        validators=[
            RegexValidator(rf"\A{HEADER_VARIABLE_PREFIX}[A-Z0-9_]+\Z", f"{HEADER_VARIABLE_PREFIX} and A-Z, 0-9 or _.")
        ],
        help_text=f"Holds the value, instead of the database. Its name begins with {HEADER_VARIABLE_PREFIX}.",
    )
    over_http = models.BooleanField(
        "also over http",
        default=False,
        db_default=False,
        help_text="Without it, a field that may be a secret is sent over https alone. Over http, anybody on the way "
        "could read it.",
    )
    to_any_address = models.BooleanField(
        "also to addresses that others choose",
        default=False,
        db_default=False,
        help_text="Without it, a field that may be a secret is sent for layers alone. With it also for feeds, mirrored "
        "files, webhooks, and hubs that feeds name: whoever may add one could read all that it opens. A feed has "
        "headers of its own.",
    )
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("host", "name")
        verbose_name = "header for a host"
        verbose_name_plural = "headers for hosts"
        constraints = (
            models.UniqueConstraint(
                "host",
                Lower("name"),
                name="one_value_for_a_header",
                violation_error_message="This host has that header already.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} for {self.host}"
