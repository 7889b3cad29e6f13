"""One row by its key, asked for with each file: to put such a statement together takes Django longer than to run it."""

from django.db import connection

from .models import Blob, Resource

_RESOURCE = f"SELECT * FROM {Resource._meta.db_table} WHERE url_digest = %s"  # noqa: S608  names of our own
_TAKEN_DOWN = f"SELECT 1 FROM {Blob._meta.db_table} WHERE digest = %s AND taken_down_at IS NOT NULL"  # noqa: S608


def resource(url_digest: str) -> Resource | None:
    """The row of a URL. Raises DatabaseError."""
    return next(iter(Resource.objects.raw(_RESOURCE, [url_digest])), None)


def is_taken_down(digest: str) -> bool:
    """Whether there is such a blob, and it was taken down. Raises DatabaseError."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKEN_DOWN, [digest])
        return cursor.fetchone() is not None
