"""Which feeds and combinations have changed since the hub was told, by their rows."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F

from ..composing.asking import Asked
from ..models import Category, Feed

SINCE = timedelta(days=1)
"""What changed longer ago is not told any more: nobody waits for it. So a hub that is new is not told of everything."""

MODELS: dict[str, type[Feed] | type[Category]] = {"feed": Feed, "category": Category}

_PUBLIC: dict[str, dict[str, bool]] = {"feed": {"is_hidden": False}, "category": {}}
_ALSO = {"feed": (), "category": ("least_version",)}


@dataclass(frozen=True, slots=True)
class Changed:
    """A feed or a combination, with its version as it was read, and the last that the hub was told of."""

    kind: str
    subject: Feed | Category
    version: int
    announced_version: int
    page: Asked

    @property
    def row(self) -> str:
        return f"{self.kind}:{self.subject.pk}"


def changed(now: datetime, most: int) -> list[Changed]:
    """Those that have, the latest first, at most so many of each kind. Raises DatabaseError."""
    since = round((now - SINCE).timestamp() * 1_000_000)
    found = []
    for kind, model in MODELS.items():
        rows = model._default_manager.filter(version__gte=since, version__gt=F("announced_version"), **_PUBLIC[kind])
        for row in rows.only("slug", "version", "announced_version", *_ALSO[kind]).order_by("-version")[:most]:
            page = Asked.page_of_feed(row.slug) if kind == "feed" else Asked.page_of_category(row.slug)
            found.append(Changed(kind, row, row.version, row.announced_version, page))
    return sorted(found, key=lambda one: one.version, reverse=True)


def told(one: Changed, version: int) -> None:
    """The hub is being told of that version. Raises DatabaseError."""
    MODELS[one.kind]._default_manager.filter(pk=one.subject.pk).update(announced_version=version)


def untold(row: str) -> None:
    """The hub could not be told: it is to be tried again. Raises DatabaseError."""
    kind, _, pk = row.partition(":")
    MODELS[kind]._default_manager.filter(pk=int(pk)).update(announced_version=0)
