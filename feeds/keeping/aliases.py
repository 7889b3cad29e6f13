"""Slugs that feeds had before: addresses with them go on leading to the feed."""

from collections.abc import Collection

from ..models import Feed, FormerSlug


def remember(slugs: Collection[str], feed_id: int) -> None:
    """These lead to the feed from now on, wherever they led before. In a transaction."""
    FormerSlug.objects.filter(slug__in=slugs).delete()
    FormerSlug.objects.bulk_create([FormerSlug(slug=slug, feed_id=feed_id) for slug in slugs])


def take_over(kept_id: int, other_id: int) -> None:
    """What led to the other one leads to the one that is kept. Before the other one goes."""
    FormerSlug.objects.filter(feed_id=other_id).update(feed_id=kept_id)
    remember(list(Feed.objects.filter(pk=other_id).values_list("slug", flat=True)), kept_id)


def current(slug: str, *, also_hidden: bool = False) -> str | None:
    """The slug of the feed that had this one; None where there is none. Raises DatabaseError."""
    found = FormerSlug.objects.filter(slug=slug)
    found = found if also_hidden else found.filter(feed__is_hidden=False)
    return found.values_list("feed__slug", flat=True).first()


def taken(slugs: Collection[str]) -> set[str]:
    """Those of them that lead to a feed."""
    return set(FormerSlug.objects.filter(slug__in=slugs).values_list("slug", flat=True))
