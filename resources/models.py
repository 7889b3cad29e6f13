"""Django's list of the models of this app: each package of resources has its own.

Machines are here: they are of no package, and no rows.
"""

from typing import Any

from django.db import models

from .fetch.models import FetchDomain, FetchHeader, FetchTiming  # noqa: F401
from .mirror.models import Batch, BatchItem, Blob, MirroredHost, Resource, Rule, Tally, Validator  # noqa: F401
from .prewarm.models import PrewarmRecord  # noqa: F401
from .tiles.models import Layer, validate_seconds, whole_world  # noqa: F401  # migrations name them here
from .tokens.models import ApiToken  # noqa: F401


class RowlessManager(models.Manager["Machine"]):
    """Finds no rows: there is no table."""

    def get_queryset(self) -> Any:
        return super().get_queryset().none()


class Machine(models.Model):
    """A machine of the site, for the admin and its permissions. `state` has the records: resources.machines."""

    name = models.CharField(max_length=253, primary_key=True)

    objects = RowlessManager()

    class Meta:
        managed = False
        default_permissions = ("view", "delete")

    def __str__(self) -> str:
        return self.name
