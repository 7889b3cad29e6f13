"""The rows of layers, which name the files of their data."""

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models

from resources.fetch.models import MAX_IN_FLIGHT

from . import conf, grid, styles, tile_address
from .errors import LayerError
from .staleness import MAX_PAINTING_SECONDS, Expiration, LayerPart, add_expiration
from .upstream import templates

if TYPE_CHECKING:  # most commands need no arrays
    from .tile_marks import TouchedTiles

YEAR_SECONDS = 31_536_000
WEEK_SECONDS = 604_800
VERSION_FIELDS = ("version", "data_version", "expirations", "marks", "updated_at")


def next_version(version: int, now_seconds: float) -> int:
    """Returns a version above the last one, and above those of a lost database. Microseconds."""
    return max(version + 1, int(now_seconds * 1_000_000))


def validate_seconds(seconds: float) -> None:
    """Refuses seconds that are not between 0 and a year: negative, infinite, not a number."""
    if not 0 <= seconds <= YEAR_SECONDS:
        raise ValidationError("Seconds from 0 to those of a year.")


def whole_world() -> list[float]:
    return grid.WORLD.as_list()


class LayerQuerySet(models.QuerySet["Layer"]):
    def with_tiles(self) -> Self:
        """Keeps the layers that have tiles: from data of their own, or from another server."""
        return self.exclude(geometry_name="", upstream="")

    def with_own_server(self) -> Self:
        """Keeps the layers whose tiles come from a server of the operator's own."""
        return self.filter(kind=Layer.Kind.UPSTREAM, upstream_in_flight__isnull=False)


class Layer(models.Model):
    """A map layer. Its geometry and speeds are files in the storage, compiled for painters.

    A layer of another server's tiles has neither.
    """

    class Kind(models.TextChoices):
        LINES = "lines", "Lines, coloured by speed"
        AREAS = "areas", "Areas, filled"
        POINTS = "points", "Points, as clusters, heat or dots"
        UPSTREAM = "upstream", "Tiles of another server"

    slug = models.CharField(
        max_length=50,
        unique=True,
        validators=[RegexValidator(rf"\A(?:{tile_address.SLUG_PATTERN})\Z", tile_address.SLUG_RULE)],
        help_text="Its place in the address: /tiles/SLUG/…",
    )
    title = models.CharField(max_length=200, blank=True)
    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.LINES)
    enabled = models.BooleanField(default=True, help_text="Layers that are switched off answer 404.")
    base = models.BooleanField("base map", default=False, help_text="Drawn below the other layers on the map page.")
    order = models.IntegerField(default=0, help_text="Higher numbers are drawn on top.")
    upstream = models.CharField(
        "address of the tiles",
        max_length=2000,
        blank=True,
        help_text="Of another server's tiles: https://…/{z}/{x}/{y}.png; {-y} counts rows from the south, {q} is a "
        "quadkey, {s} a, b or c in turn ({s:1234} what is named), {r} @2x for dense screens. Respect its terms of use.",
    )
    upstream_in_flight = models.PositiveSmallIntegerField(
        "requests in flight at an own server",
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_IN_FLIGHT)],
        help_text="Says that the server of these tiles is yours: it gets so many requests at a time, without a gap.",
    )
    style = models.JSONField(
        default=dict,
        blank=True,
        help_text=(
            "Widths by zoom, colours, thresholds; empty is as it comes. For example: "
            '{"widths": {"8": 1, "16": 6}, "colours": {"green": "#2da44e"}, "thresholds": [0.8, 0.5, 0.25]}; '
            'for areas {"colours": {"fill": "#f4f1ea", "outline": "#b9b2a6"}}'
        ),
    )
    min_zoom = models.PositiveSmallIntegerField(default=0, validators=[MaxValueValidator(grid.MAX_ZOOM)])
    max_zoom = models.PositiveSmallIntegerField(default=18, validators=[MaxValueValidator(grid.MAX_ZOOM)])
    bounds = models.JSONField(
        default=whole_world,
        help_text="West, south, east, north in degrees. Tiles outside are empty. "
        "Set from the data when it is loaded, unless you change them too.",
    )
    fresh_seconds = models.FloatField(default=60, validators=[validate_seconds])
    most_fresh_seconds = models.FloatField(
        default=WEEK_SECONDS,
        blank=True,
        validators=[validate_seconds],
        help_text="For tiles of another server, the most: in between it says how long. Fresh seconds are the least, "
        "and hold where it says nothing. Empty: a week.",
    )
    stale_seconds = models.FloatField(
        default=86_400,
        validators=[validate_seconds],
        help_text="How long tiles are still served, while they are prepared anew, after they were fresh.",
    )
    client_seconds = models.FloatField(
        null=True,
        blank=True,
        validators=[validate_seconds],
        help_text="How long browsers keep a tile without asking again. Empty: the hot window, so that changes show.",
    )
    attribution = models.CharField(max_length=500, blank=True)
    note = models.CharField(max_length=500, blank=True, help_text="For example: Speeds are generated.")

    geometry_name = models.CharField(max_length=255, blank=True, editable=False)
    geometry_digest = models.CharField(max_length=64, blank=True, editable=False)
    speeds_name = models.CharField(max_length=255, blank=True, editable=False)
    segments = models.PositiveIntegerField(default=0, editable=False)
    positions = models.PositiveIntegerField(default=0, editable=False)
    speeds_known = models.PositiveIntegerField("segments with speeds", default=0, editable=False)
    measured_at = models.DateTimeField(null=True, editable=False)
    metatiles = models.JSONField(
        default=dict, editable=False, help_text="By zoom, how many tiles wide the blocks are that are painted at once."
    )
    version = models.BigIntegerField(default=0, editable=False)
    data_version = models.BigIntegerField(default=0, editable=False, help_text="Tiles of a lower version are stale.")
    expirations = models.JSONField(
        default=list, editable=False, help_text="Parts of which tiles of a lower version are stale."
    )
    marks = models.BinaryField(default=b"", editable=False, help_text="Tiles that changes have touched, packed.")
    updated_at = models.DateTimeField(auto_now=True)

    objects = LayerQuerySet.as_manager()

    class Meta:
        ordering = ("base", "-order", "slug")

    def __str__(self) -> str:
        return self.title or self.slug

    @property
    def has_dense_tiles(self) -> bool:
        """True if there are tiles of twice the pixels (@2x): always if painted, else if the other server has them."""
        return self.kind != self.Kind.UPSTREAM or "{r}" in self.upstream

    def clean(self) -> None:
        errors: dict[str, str] = {}
        for name, check in (
            ("style", lambda: styles.check_style(self.kind, self.style)),
            ("bounds", lambda: grid.Bounds.parse(self.bounds)),
        ):
            try:
                check()
            except LayerError as error:
                errors[name] = str(error)
        if None not in (self.min_zoom, self.max_zoom) and self.min_zoom > self.max_zoom:
            errors["max_zoom"] = "The largest zoom is below the smallest."
        errors |= dict(self._upstream_mistakes())
        if errors:
            raise ValidationError(errors)

    def _upstream_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yields the mistakes in the fields of another server's tiles, by field. Asks no DNS and no server."""
        if self.kind != self.Kind.UPSTREAM:
            if self.upstream:
                yield "upstream", "Only tiles of another server have an address. Choose that kind, or leave this empty."
            if self.upstream_in_flight is not None:
                yield "upstream_in_flight", "Only tiles of another server are requested from one. Leave this empty."
            return
        try:
            template = templates.parse_template(self.upstream)
        except LayerError as error:
            yield "upstream", str(error)
        else:
            if why := template.refusal(conf.upstream_guard()):
                yield "upstream", f"This site does not fetch from there: {why}. FETCH_ALLOW_PRIVATE has exceptions."
            if template.has_quadkey and self.min_zoom == 0:
                yield "min_zoom", "Zoom 0 has no quadkey: the smallest zoom is 1."
        if self.style:
            yield "style", "Tiles of another server have no style: they are shown as they come."
        least, most = self.fresh_seconds, self.most_fresh_seconds  # None for a number that was given wrongly
        if least is not None and most is not None and most < least:
            yield "most_fresh_seconds", "This is below the fresh seconds, which are the least."

    def save(self, *, update_fields: Iterable[str] | None = None, **options: Any) -> None:
        """Saves under a new version: tiles painted before become stale. Does not touch the files."""
        self.version = self.data_version = next_version(self.version, time.time())
        self.expirations, self.marks = [], b""
        if update_fields is not None:
            update_fields = {*update_fields, *VERSION_FIELDS}
        super().save(update_fields=update_fields, **options)

    def expire(self, part: LayerPart | None = None) -> None:
        """Makes all tiles stale, or those of a part. Saves nothing else."""
        if part is None:
            self.save(update_fields=())
            return
        self.version = next_version(self.version, time.time())
        self.expirations, self.data_version = add_expiration(
            self.expirations, self.data_version, Expiration(self.version, part), self.fresh_seconds + self.stale_seconds
        )
        super().save(update_fields=VERSION_FIELDS)

    def save_touched(self, touched: "TouchedTiles", before: Self, fields: Iterable[str]) -> None:
        """Saves fields. Makes the touched tiles stale, beside those already stale in `before`."""
        self.version = next_version(before.version, time.time())
        outdated = self.version - int((self.fresh_seconds + MAX_PAINTING_SECONDS) * 1_000_000)
        since = max(before.data_version, outdated)
        marks, all_before = touched.mark_in(bytes(before.marks), self.version, since)
        self.data_version = all_before if all_before > since else before.data_version
        self.expirations, self.marks = before.expirations, marks
        super().save(update_fields={*fields, *VERSION_FIELDS})
