"""Categories by their paths, as lists of feeds name them."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256

from django.db import IntegrityError, transaction

from .. import naming
from ..errors import FeedError
from ..models import ALL, RESERVED_SLUGS, Category, Feed
from ..opml import mending
from ..opml.outlines import Path

MOST_TITLE_CHARACTERS = 200
ATTEMPTS = 5


def ensure(paths: Iterable[Path]) -> dict[Path, Category]:
    """The categories of these paths, with those around them, made where they are missing.

    A path of nothing but the category that has everything is in none. Call it in a transaction.
    """
    all_feeds = Category.objects.filter(slug=ALL).values_list("title", flat=True).first()
    found: dict[Path, Category] = {}
    for path in paths:
        parent = None
        for depth in range(1, len(path) + 1):
            title = _title(path[depth - 1])
            if not title or (depth == 1 and title == all_feeds):
                continue
            category = found.get(path[:depth]) or _ensured(parent, title)
            found[path[:depth]] = parent = category
        if parent is not None:
            found[path] = parent
    return found


def paths_of(feeds: Collection[Feed]) -> dict[int, tuple[Path, ...]]:
    """The paths of the categories that each feed is in, by its id."""
    paths = all_paths()
    found: dict[int, list[Path]] = {feed.pk: [] for feed in feeds}
    links = Feed.categories.through._default_manager.filter(feed_id__in=found)
    for feed_id, category_id in links.values_list("feed_id", "category_id"):
        if category_id in paths:
            found[feed_id].append(paths[category_id])
    return {feed_id: tuple(sorted(each)) for feed_id, each in found.items()}


def all_paths() -> dict[int, Path]:
    """The path of every category but the one that has everything, by its id."""
    rows = {row.pk: row for row in Category.objects.exclude(slug=ALL)}
    return {pk: _path(row, rows) for pk, row in rows.items()}


def with_those_below(slug: str) -> set[int]:
    """The ids of a category and of all below it; empty when there is none of that slug."""
    root = Category.objects.filter(slug=slug).values_list("pk", flat=True).first()
    if root is None:
        return set()
    parents = dict(Category.objects.exclude(parent=None).values_list("pk", "parent_id"))
    found, added = {root}, {root}
    while added:
        added = {pk for pk, parent in parents.items() if parent in added} - found
        found |= added
    return found


def _path(category: Category, rows: Mapping[int, Category]) -> Path:
    path: list[str] = []
    seen: set[int] = set()
    at: Category | None = category
    while at is not None and at.pk not in seen:  # two who edit at once could close a circle
        seen.add(at.pk)
        path.append(at.title)
        at = rows.get(at.parent_id) if at.parent_id else None
    return tuple(reversed(path))


def _ensured(parent: Category | None, title: str) -> Category:
    """Others may make it at the same time, or take the slug that was free for another."""
    for _ in range(ATTEMPTS):
        found = Category.objects.filter(parent=parent, title=title).first()
        if found is not None:
            return found
        slug = _free_slug(parent, title)
        with suppress(IntegrityError), transaction.atomic():
            return Category.objects.create(parent=parent, title=title, slug=slug)
    raise FeedError("Too many categories are being made at once. Try again.")


def _free_slug(parent: Category | None, title: str) -> str:
    around = f"{parent.pk}/" if parent else ""
    digest = sha256(f"{around}{title}".encode()).hexdigest()[:32]
    wished = naming.candidates(naming.slug_of(title), "category", digest)
    taken = {*Category.objects.filter(slug__in=wished).values_list("slug", flat=True), *RESERVED_SLUGS}
    return next(slug for slug in wished if slug not in taken)


def _title(text: str) -> str:
    return " ".join(mending.clean(text).split())[:MOST_TITLE_CHARACTERS].rstrip()
