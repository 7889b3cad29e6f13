"""The rows of API tokens, with the rights of each. Finds none and counts nothing."""

from collections.abc import Iterator
from datetime import datetime

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models

from ..tiles import tile_address

ALL_LAYERS = "*"
NO_RIGHT = (
    "A token needs a right: layers that it may change (* for all of them), mirroring files, taking files down, "
    "managing feeds, or a user who follows feeds by it."
)


class ApiToken(models.Model):
    """A token to change layers, mirror files or manage feeds by the API. The row has its digest, not its text.

    Each right is given by itself; none implies another.
    """

    name = models.CharField(max_length=100, unique=True, help_text="Who or what uses it.")
    prefix = models.CharField(max_length=20, editable=False, db_index=True, help_text="How the token begins.")
    digest = models.CharField(max_length=64, editable=False)
    layers = models.CharField(
        max_length=2000,
        blank=True,
        validators=[
            RegexValidator(
                rf"\A(?:\{ALL_LAYERS}|{tile_address.SLUG_PATTERN}(?: +{tile_address.SLUG_PATTERN})*)\Z",
                "Slugs with spaces between them, or * for all layers.",
            )
        ],
        help_text="Slugs of the layers that it may change, with spaces between them; * for all layers. Empty: none.",
    )
    may_mirror = models.BooleanField(
        "may mirror files",
        default=False,
        help_text="Reports URLs that are fetched and stored here, signs addresses for them, and sees what is known of "
        "them.",
    )
    may_take_down = models.BooleanField(
        "may take files down", default=False, help_text="Takes mirrored files down, whoever reported them: for good."
    )
    may_manage_feeds = models.BooleanField(
        "may manage feeds",
        default=False,
        help_text="Adds, changes, fetches and removes feeds, and sees their addresses.",
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        related_name="+",
        on_delete=models.CASCADE,
        help_text="Who follows feeds by it. Empty: nobody.",
    )
    enabled = models.BooleanField(default=True)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Empty: never.")
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, editable=False, help_text="To the minute.")

    class Meta:
        ordering = ("name",)
        verbose_name = "API token"

    def __str__(self) -> str:
        return self.name

    def is_valid(self, now: datetime) -> bool:
        return self.enabled and (self.expires_at is None or now < self.expires_at)

    def may_change(self, slug: str) -> bool:
        return self.layers == ALL_LAYERS or slug in self.layers.split()

    def clean(self) -> None:
        """Refuses a token without any right. A token in use is disabled by its switch."""
        if not any(self._rights()):
            raise ValidationError({"layers": NO_RIGHT})

    def describe_rights(self) -> str:
        """Returns a sentence about all that the token may do."""
        *others, last = list(self._rights()) or ["do nothing"]
        return f"The token “{self}” may {', '.join(others)}{' and ' if others else ''}{last}."

    def _rights(self) -> Iterator[str]:
        if self.layers:
            slugs = ", ".join(self.layers.split())
            yield "change all layers" if self.layers == ALL_LAYERS else f"change the layers {slugs}"
        if self.may_mirror:
            yield "mirror files"
        if self.may_take_down:
            yield "take files down"
        if self.may_manage_feeds:
            yield "manage feeds"
        if self.user:
            yield f"follow feeds for {self.user}"
