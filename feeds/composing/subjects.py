"""What a page is of: the row of a feed, or of a category."""

from feeds.models import SAID, Category, Feed
from retry.popularity import GENERATION

from .asking import Asked
from .errors import UnknownError


def find(asked: Asked) -> Feed | Category:
    """The feed or the category. Raises UnknownError, DatabaseError."""
    return _found(_category(asked) if asked.is_combined else _feed(asked))


def find_standing(asked: Asked) -> Feed | Category:
    """The same without what a feed says, which may be much."""
    if asked.is_combined:
        return _found(_category(asked))
    return _found(_feed(asked, *SAID))


def content_key(asked: Asked, subject: Feed | Category) -> str:
    """That of a page of this very feed, or of a combination since something left it last.

    What another feed has left under the same slug, and what shows things that are gone, has other keys.
    """
    which = str(subject.pk) if isinstance(subject, Feed) else f"{subject.pk}.{subject.least_version}"
    return f"{asked.key}{GENERATION}{which}"


def _feed(asked: Asked, *without: str) -> Feed | None:
    return Feed.objects.filter(slug=asked.slug, is_hidden=False).defer(*without).first()


def _category(asked: Asked) -> Category | None:
    return Category.objects.filter(slug=asked.slug).first()


def _found(subject: Feed | Category | None) -> Feed | Category:
    if subject is None:
        raise UnknownError("There is no such feed.")
    return subject
