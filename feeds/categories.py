"""Categories of feeds: found or created by their titles, with their paths and descendants."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256

from django.db import IntegrityError, transaction
from django.db.models import Q

from . import feed_rows
from .errors import FeedError
from .models import ALL_SLUG, RESERVED_SLUGS, Category, Feed
from .opml import CategoryPath
from .parser import charset

MAX_CATEGORY_TITLE_CHARACTERS = 200
CATEGORY_ATTEMPTS = 5


def ensure_categories(paths: Iterable[CategoryPath]) -> dict[CategoryPath, Category]:
    """Returns the categories of these paths and their parents; missing ones are created. Call it in a transaction.

    A path of nothing but the category of all feeds belongs to no category.
    """
    all_feeds = Category.objects.filter(slug=ALL_SLUG).values_list("title", flat=True).first()
    found: dict[CategoryPath, Category] = {}
    for path in paths:
        parent = None
        for depth in range(1, len(path) + 1):
            title = " ".join(charset.strip_illegal(path[depth - 1]).split())[:MAX_CATEGORY_TITLE_CHARACTERS].rstrip()
            if not title or (depth == 1 and title == all_feeds):
                continue
            category = found.get(path[:depth]) or _ensure_category(parent, title)
            found[path[:depth]] = parent = category
        if parent is not None:
            found[path] = parent
    return found


def paths_by_feed(feeds: Collection[Feed]) -> dict[int, tuple[CategoryPath, ...]]:
    paths = paths_by_category()
    found: dict[int, list[CategoryPath]] = {feed.pk: [] for feed in feeds}
    links = Feed.categories.through._default_manager.filter(feed_id__in=found)
    for feed_id, category_id in links.values_list("feed_id", "category_id"):
        if category_id in paths:
            found[feed_id].append(paths[category_id])
    return {feed_id: tuple(sorted(each)) for feed_id, each in found.items()}


def paths_by_category() -> dict[int, CategoryPath]:
    """Returns the path of every category but that of all feeds, by its id."""
    rows = {row.pk: row for row in Category.objects.exclude(slug=ALL_SLUG)}
    return {pk: _category_path(row, rows) for pk, row in rows.items()}


def feeds_below(slug: str) -> Q:
    links = Feed.categories.through._default_manager.filter(category_id__in=ids_with_descendants(slug))
    return Q(pk__in=links.values("feed_id"))


def ids_with_descendants(slug: str) -> set[int]:
    """Returns the ids of a category and all below it; empty if no category has that slug."""
    parents = dict(Category.objects.exclude(parent=None).values_list("pk", "parent_id"))
    found = added = set(Category.objects.filter(slug=slug).values_list("pk", flat=True))
    while added:
        added = {pk for pk, parent in parents.items() if parent in added} - found
        found = found | added
    return found


def ids_with_ancestors() -> dict[int, set[int]]:
    """Returns of every category its own id and those of the categories above it. Two edits at once close no circle."""
    parents = dict(Category.objects.values_list("pk", "parent_id"))
    found = {}
    for pk in parents:
        above: set[int] = set()
        at: int | None = pk
        while at is not None and at not in above:
            above.add(at)
            at = parents.get(at)
        found[pk] = above
    return found


def _category_path(category: Category, rows: Mapping[int, Category]) -> CategoryPath:
    path: list[str] = []
    seen: set[int] = set()
    at: Category | None = category
    while at is not None and at.pk not in seen:  # two edits at once could close a circle
        seen.add(at.pk)
        path.append(at.title)
        at = rows.get(at.parent_id) if at.parent_id else None
    return tuple(reversed(path))


def _ensure_category(parent: Category | None, title: str) -> Category:
    """Retries: another process may create the category, or take the free slug for another one."""
    for _ in range(CATEGORY_ATTEMPTS):
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
    candidates = feed_rows.candidate_slugs(feed_rows.make_slug(title), "category", digest)
    taken = {*Category.objects.filter(slug__in=candidates).values_list("slug", flat=True), *RESERVED_SLUGS}
    return next(slug for slug in candidates if slug not in taken)
