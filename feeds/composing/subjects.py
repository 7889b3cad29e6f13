"""What a page is of: the row of a feed, or of a category."""

from feeds.models import Category, Feed

from .asking import Asked
from .errors import UnknownError


def find(asked: Asked) -> Feed | Category:
    """The feed or the category. Raises UnknownError, DatabaseError."""
    rows = Category.objects if asked.is_combined else Feed.objects
    found: Feed | Category | None = rows.filter(slug=asked.slug).first()
    if found is None:
        raise UnknownError("There is no such feed.")
    return found
